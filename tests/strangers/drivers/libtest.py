"""Runs the tests of Rust test programs one by one and writes their outcomes to the file $OUTCOMES, as
strangers_pytest.py does:

    libtest.py SECONDS PROGRAM..."""

import os
import subprocess
import sys


def names(program: str) -> list[str]:
    listed = subprocess.run([program, "--list"], capture_output=True, text=True, check=True).stdout
    return [line.removesuffix(": test") for line in listed.splitlines() if line.endswith(": test")]


def outcome(program: str, name: str, seconds: float) -> str:
    try:
        done = subprocess.run([program, "--exact", name], capture_output=True, text=True, timeout=seconds)
    except subprocess.TimeoutExpired:
        return "fail"
    if done.returncode:
        return "fail"
    return "skip" if "1 ignored" in done.stdout else "pass"


def main(seconds: str, *programs: str) -> None:
    with open(os.environ["OUTCOMES"], "a", buffering=1) as file:
        for program in programs:
            # Without the hash that cargo adds.
            short = os.path.basename(program).rsplit("-", 1)[0]
            for name in names(program):
                file.write(f"start {short} {name}\n")
                file.write(f"{outcome(program, name, float(seconds))} {short} {name}\n")


main(*sys.argv[1:])
