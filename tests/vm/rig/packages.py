"""What the rig needs from Debian: tools that are installed, a kernel that is only unpacked."""

import lzma
import os
import re
import shutil
import struct

from .shell import Failed, run

TOOLS = {"qemu-system-x86_64": "qemu-system-x86", "busybox": "busybox-static", "cpio": "cpio",
         "depmod": "kmod", "dkms": "dkms", "sparse": "sparse", "gcc": "gcc", "make": "make",
         "iperf3": "iperf3", "redis-server": "redis-server", "redis-cli": "redis-tools",
         "NPtcp": "netpipe-tcp", "openssl": "openssl"}


class Missing(Exception):
    """This machine cannot have what the rig needs: its cases are skipped."""


def install_tools():
    missing = [package for tool, package in TOOLS.items()
               if not shutil.which(tool, path=os.environ["PATH"] + ":/usr/sbin:/sbin")]
    if not missing:
        return
    try:
        os.environ["DEBIAN_FRONTEND"] = "noninteractive"
        run("apt-get", "update")
        run("apt-get", "install", "-y", "--no-install-recommends", *missing)
    except (Failed, FileNotFoundError) as error:
        raise Missing(f"cannot install {' '.join(missing)}") from error


def kernel_packages():
    """The packages of Debian's current kernel, and its release."""
    depends = run("apt-cache", "depends", "linux-image-amd64")
    found = re.search(r"Depends: linux-image-(\S+)-amd64", depends)
    if not found:
        raise Missing("apt knows no linux-image-amd64")
    version = found[1]
    headers = run("apt-cache", "depends", f"linux-headers-{version}-amd64")
    others = re.findall(r"Depends: (linux-(?:kbuild|compiler)\S+)", headers)
    return f"{version}-amd64", [f"linux-image-{version}-amd64", f"linux-headers-{version}-amd64",
                                f"linux-headers-{version}-common", *others]


class Kernel:
    """A kernel that is unpacked in a folder of the cache, with its headers."""

    def __init__(self, root, release):
        self.release = release
        self.headers = root / "usr/src" / f"linux-headers-{release}"
        self.modules = root / "lib/modules" / release
        self.vmlinux = root / "vmlinux"


def fetch(cache, name, packages, finish=lambda folder: None):
    """A folder of the cache with what is in packages, after `finish`, unless it is there already."""
    root = cache / name
    if root.exists():
        return root
    partial = cache / f"{name}.{os.getpid()}.partial"
    shutil.rmtree(partial, ignore_errors=True)
    partial.mkdir(parents=True)
    try:
        run("apt-get", "download", *packages, cwd=partial)
    except Failed as error:
        raise Missing(f"cannot download {' '.join(packages)}") from error
    for package in partial.glob("*.deb"):
        run("dpkg", "-x", package, partial)
        package.unlink()
    finish(partial)
    partial.rename(root)
    return root


def fetch_kernel(cache):
    try:
        release, packages = kernel_packages()
    except (Failed, FileNotFoundError) as error:
        raise Missing("apt does not tell the kernel's packages") from error

    def finish(folder):
        unpack_kernel(folder, release)
        # The headers name themselves by absolute paths.
        makefile = folder / "usr/src" / f"linux-headers-{release}" / "Makefile"
        makefile.write_text(makefile.read_text().replace("/usr/src", f"{cache / release}/usr/src"))

    return Kernel(fetch(cache, release, packages, finish), release)


def fetch_checkpatch(cache):
    """The kernel's checker of style, which only its whole source has."""
    def finish(folder):
        (archive,) = folder.glob("usr/src/*.tar.xz")
        files = [f"*/scripts/{name}" for name in ("checkpatch.pl", "spelling.txt", "const_structs.checkpatch")]
        run("tar", "-x", "-I", "xz -T0", "-f", archive, "--strip-components=2", "--wildcards", "--occurrence",
            *files, cwd=folder)
        shutil.rmtree(folder / "usr")

    source = re.search(r"Depends: (linux-source-\S+)", run("apt-cache", "depends", "linux-source"))
    if not source:
        raise Missing("apt knows no linux-source")
    return fetch(cache, "checkpatch", [source[1]], finish) / "checkpatch.pl"


def fetch_udev(cache):
    """The daemon that gives devices their owners. Installing it would change this machine."""
    return fetch(cache, "udev", ["udev"])


def unpack_kernel(root, release):
    """The kernel as ELF, which starts faster than the compressed one (its header is described in
    Documentation/x86/boot.rst)."""
    image = (root / "boot" / f"vmlinuz-{release}").read_bytes()
    sectors = image[0x1f1] or 4
    offset, length = struct.unpack_from("<II", image, 0x248)
    start = (sectors + 1) * 512 + offset
    # After the payload stands its unpacked length.
    (root / "vmlinux").write_bytes(lzma.decompress(image[start:start + length - 4]))
