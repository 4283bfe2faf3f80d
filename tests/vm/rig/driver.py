"""The driver as users get it: its source checked, its module built and installed by DKMS (kmod/README.md)."""

import re

from .shell import Failed, run

MODULE = "ulnic/1"


def check_style(source, checkpatch):
    """The kernel's own idea of style, at its strictest."""
    files = [*sorted(source.glob("*.[ch]")), source / "Kbuild", source / "Makefile"]
    run("perl", checkpatch, "--no-tree", "--strict", "--terse", "--file", *files)


class Dkms:
    """With folders of its own: nothing of this machine changes."""

    def __init__(self, source, kernel, folder):
        self.folder = folder
        self.kernel = kernel
        self.modules = folder / "lib/modules" / kernel.release
        self.modules.mkdir(parents=True)
        for name in ("dkms", "src"):
            (folder / name).mkdir()
        self.run("add", source)

    def run(self, action, *arguments):
        # What make is to be told besides reaches it by its environment: sparse, and more warnings.
        return run("env", "MAKEFLAGS=C=1 W=1", "dkms", action, *arguments, "--dkmstree", self.folder / "dkms",
                   "--sourcetree", self.folder / "src", "--installtree", self.folder / "lib/modules")

    def log(self):
        """What make has said; DKMS moves it when all went well."""
        return "".join(log.read_text() for log in self.folder.glob("dkms/**/make.log"))

    def expect_status(self, wanted):
        status = self.run("status").strip()
        if status != wanted:
            raise Failed(f"dkms says: {status}, not: {wanted}")

    def install(self):
        """Builds it, with sparse looking on, which must have nothing to say."""
        try:
            # depmod would want the kernel installed on this machine.
            self.run("install", MODULE, "-k", self.kernel.release, "--kernelsourcedir", self.kernel.headers,
                     "--no-depmod")
        except Failed as failed:
            raise Failed(f"{failed}\n{self.log()}") from failed
        self.expect_status(f"{MODULE}, {self.kernel.release}, x86_64: installed")
        complaints = [line for line in self.log().splitlines() if re.search(r"warning|error", line)]
        if complaints:
            raise Failed("the driver builds with warnings:\n" + "\n".join(complaints))

    def remove(self):
        """Nothing of it is left."""
        self.run("remove", MODULE, "--all")
        self.expect_status("")
        if left := list(self.modules.glob("**/*.ko*")):
            raise Failed(f"dkms leaves {left}")


def build_module(source, kernel, folder, tree):
    """Puts the module into a tree as DKMS and depmod install it."""
    dkms = Dkms(source, kernel, folder)
    dkms.install()
    tree.add_folder(dkms.modules, f"/lib/modules/{kernel.release}")
    dkms.remove()
    run("depmod", "-b", tree.folder, kernel.release)
