"""Runs test programs that print TAP and writes the outcome of every test to the file $OUTCOMES, as strangers_pytest.py
does:

    tap.py SECONDS INTERPRETER PROGRAM...

Each program is started by itself with so many seconds. INTERPRETER is a command line. A test is named by its program,
its number and its text, as far as it has them."""

import os
import re
import shlex
import subprocess
import sys

LINE = re.compile(r"^(not )?ok\b *(\d*) *-? *([^#]*)(#.*)?$")


def outcome(found: re.Match) -> str:
    if found[4] and re.match(r"# *(skip|todo)", found[4], re.IGNORECASE):
        return "skip"
    return "fail" if found[1] else "pass"


def main(seconds: str, interpreter: str, *programs: str) -> None:
    with open(os.environ["OUTCOMES"], "a", buffering=1) as file:
        for program in programs:
            file.write(f"start {program}\n")
            whole = "pass"
            try:
                command = [*shlex.split(interpreter), program]
                done = subprocess.run(command, capture_output=True, timeout=float(seconds))
                output = done.stdout
                if done.returncode:
                    whole = "fail"
            except subprocess.TimeoutExpired as late:
                output, whole = late.stdout or b"", "fail"
            lines = output.decode(errors="replace").splitlines()
            for count, found in enumerate(filter(None, map(LINE.match, lines)), 1):
                # Ports, process ids and the like differ from run to run.
                text = re.sub(r"\d{3,}", "N", found[3].strip()) or "without a name"
                number = found[2] or (count if text == "without a name" else "")
                file.write(f"{outcome(found)} {program} {number} {text}\n")
            file.write(f"{whole} {program}\n")


main(*sys.argv[1:])
