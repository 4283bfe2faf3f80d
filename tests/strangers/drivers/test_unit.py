"""Runs Ruby's own test files, one after the other, and writes the outcomes of their tests to the file $OUTCOMES, as
strangers_pytest.py does:

    test_unit.py SECONDS FILE...

The working directory is Ruby's source folder, whose runner prints a line for every
test that it ends, and at last what went wrong."""

import os
import re
import subprocess
import sys

LINE = re.compile(r"^\[ *\d+/\d+\] (\S+) = ", re.MULTILINE)
TROUBLE = re.compile(r"^ +\d+\) (Failure|Error|Skipped):\n(\S+?)(?: \[|:$)", re.MULTILINE)


def outcomes(output: str) -> dict[str, str]:
    found = {name: "pass" for name in LINE.findall(output)}
    for kind, name in TROUBLE.findall(output):
        found[name] = "skip" if kind == "Skipped" else "fail"
    return found


def main(seconds: str, *files: str) -> None:
    with open(os.environ["OUTCOMES"], "a", buffering=1) as out:
        for file in files:
            out.write(f"start {file}\n")
            command = ["ruby", "-W0", "-Itool/lib", "-Itest", "test/runner.rb", "--verbose", "--no-retry", file]
            whole = "pass"
            try:
                done = subprocess.run(command, capture_output=True, timeout=float(seconds))
                output = done.stdout
                if done.returncode < 0:
                    whole = "fail"
            except subprocess.TimeoutExpired as late:
                output, whole = late.stdout or b"", "fail"
            for name, kind in outcomes(output.decode(errors="replace").replace("\r", "\n")).items():
                out.write(f"{kind} {file} {name}\n")
            out.write(f"{whole} {file}\n")


main(*sys.argv[1:])
