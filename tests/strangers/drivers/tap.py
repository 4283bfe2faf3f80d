"""Runs Perl's test programs and writes the outcome of every test to the file $OUTCOMES, as strangers_pytest.py does:

    tap.py SECONDS PROGRAM...

Each program is started by itself with so many seconds. A test is named by its program, its number and its text."""

import os
import re
import subprocess
import sys

LINE = re.compile(r"^(not )?ok\b *(\d*) *-? *([^#]*)(#.*)?$")


def outcome(found: re.Match) -> str:
    if found[4] and re.match(r"# *(skip|todo)", found[4], re.IGNORECASE):
        return "skip"
    return "fail" if found[1] else "pass"


def main(seconds: str, *programs: str) -> None:
    with open(os.environ["OUTCOMES"], "a", buffering=1) as file:
        for program in programs:
            file.write(f"start {program}\n")
            whole = "pass"
            try:
                done = subprocess.run(["perl", "-Ilib", "-It/lib", program], capture_output=True, timeout=float(seconds))
                output = done.stdout
                if done.returncode:
                    whole = "fail"
            except subprocess.TimeoutExpired as late:
                output, whole = late.stdout or b"", "fail"
            for number, line in enumerate(output.decode(errors="replace").splitlines()):
                if found := LINE.match(line):
                    # Ports, process ids and the like differ from run to run.
                    text = re.sub(r"\d{3,}", "N", found[3].strip())
                    file.write(f"{outcome(found)} {program} {found[2]} {text}\n")
            file.write(f"{whole} {program}\n")


main(*sys.argv[1:])
