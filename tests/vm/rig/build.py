"""What runs inside the machines: the test program, the programs under test, the file system around them."""

import re
import shutil
from pathlib import Path

from .shell import Failed, run

INIT = """#!/bin/busybox sh
/bin/busybox --install -s /bin
mount -t proc proc /proc
mount -t sysfs sysfs /sys
mount -t devtmpfs devtmpfs /dev
mount -t debugfs debugfs /sys/kernel/debug
mkdir -p /tmp /run /root /dev/shm
mount -t tmpfs tmpfs /dev/shm
ip link set lo up
export HOME=/root PATH=/bin:/usr/bin:/sbin:/usr/sbin
# Orphans come to this shell, which only waits: `read` would lose what it has when one of them ends.
/agent &
while :; do wait; sleep 1; done
"""

# Commands come over the second serial line, one a line; what they print goes back.
AGENT = """#!/bin/sh
exec </dev/ttyS1 >/dev/ttyS1 2>&1
stty raw -echo
echo "@up"
while read -r line; do
    sh -c "$line" </dev/null
    echo "@status $?"
done
"""

# Of those who may use the device (kmod/70-ulnic.rules).
GROUP = 990


def build_program(source, header_folder, output):
    """The test program, linked statically."""
    run("gcc", "-static", "-O2", "-Wall", "-Wextra", "-Werror", f"-I{header_folder}",
        *sorted(source.glob("*.c")), "-o", output)
    return output


# Packages and features are those of tests/run, so that nothing is compiled twice.

def port_tests(root):
    """The suite that every port passes."""
    output = run("cargo", "test", "--profile", "unit", "--workspace", "--features", "netstack/std", "--test", "phy",
                 "--no-run", cwd=root, timeout=1200)
    return root / re.search(r"\((target/unit/deps/phy-\w+)\)", output)[1]


def own_programs(root):
    """The daemon, the preload library, and the program that checks transfers."""
    run("cargo", "build", "--release", "--workspace", cwd=root, timeout=1200)
    folder = root / "target/release"
    return {"/bin/ulsock": folder / "ulsock", "/bin/carry": folder / "carry",
            "/lib/libulsock_preload.so": folder / "libulsock_preload.so"}


def libraries(program):
    """The files that the dynamic linker loads for a program."""
    try:
        listing = run("ldd", program)
    except Failed:
        return []
    return [Path(path) for path in re.findall(r"(/\S+) \(0x", listing)]


class Tree:
    """A file system for the machines."""

    def __init__(self, folder):
        self.folder = folder
        if folder.exists():
            shutil.rmtree(folder)
        for name in ("bin", "proc", "sys", "dev", "tmp", "etc"):
            (folder / name).mkdir(parents=True)
        self.add(shutil.which("busybox"), "/bin/busybox")
        for name, text in (("init", INIT), ("agent", AGENT)):
            (folder / name).write_text(text)
            (folder / name).chmod(0o755)
        (folder / "etc/passwd").write_text("root:x:0:0::/root:/bin/sh\nnobody:x:65534:65534::/:/bin/sh\n")
        (folder / "etc/group").write_text(f"root:x:0:\nulsock:x:{GROUP}:\nnogroup:x:65534:\n")
        (folder / "etc/protocols").write_text("tcp 6 TCP\nudp 17 UDP\n")
        (folder / "etc/hosts").write_text("127.0.0.1 localhost\n")

    def add(self, file, to=None):
        """One file, at its own path or another."""
        to = self.folder / str(to or file).lstrip("/")
        to.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(file, to)

    def add_folder(self, folder, to):
        """All that is in it."""
        shutil.copytree(folder, self.folder / to.lstrip("/"), symlinks=True)

    def add_program(self, program, to=None):
        """A program with the libraries that it needs."""
        self.add(program, to)
        for library in libraries(program):
            self.add(library)

    def add_built(self, file, to):
        """One of our own, without what only debuggers need."""
        self.add_program(file, to)
        run("strip", self.folder / to.lstrip("/"))

    def add_module(self, kernel, name):
        """A driver of the kernel that needs no other one: /NAME.ko."""
        (module,) = kernel.modules.glob(f"kernel/**/{name}.ko")
        self.add(module, f"/{name}.ko")

    def add_udev(self, package, rules):
        """The daemon, the rule by which it loads modules, and ours."""
        self.add_program(package / "bin/udevadm", "/bin/udevadm")
        (self.folder / "lib/systemd").mkdir(parents=True, exist_ok=True)
        (self.folder / "lib/systemd/systemd-udevd").symlink_to("/bin/udevadm")
        self.add(package / "lib/udev/rules.d/80-drivers.rules", "/lib/udev/rules.d/80-drivers.rules")
        self.add(rules, f"/etc/udev/rules.d/{rules.name}")

    def pack(self, output):
        """The image that the kernel unpacks."""
        run("sh", "-c", f"find . | cpio --quiet -o -H newc > '{output}'", cwd=self.folder)
        return output
