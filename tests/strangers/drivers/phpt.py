"""Runs PHP's own tests by its run-tests.php and writes the outcome of every test to the file $OUTCOMES, as
strangers_pytest.py does:

    phpt.py SECONDS PATTERN FILE...

Each test has so many seconds. Of the FILEs those are run in which the regular expression PATTERN is found. The tests
write beside themselves: each run has a copy of their folders."""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

LINE = re.compile(r"^(PASS|FAIL|SKIP|XFAIL|BORK|LEAK|WARN)\b.*\[([^\s\]]+\.phpt)\]")
KINDS = {"PASS": "pass", "SKIP": "skip", "XFAIL": "skip"}


def main(seconds: str, pattern: str, *files: str) -> None:
    tests = [file for file in map(Path, files) if re.search(pattern, file.read_text(errors="replace"))]
    own = Path(os.environ["TMPDIR"]) / "php"
    for folder in {test.parent for test in tests}:
        shutil.copytree(folder, own / folder)
    php = shutil.which("php")
    command = [php, Path("run-tests.php").resolve(), "-p", php, "-q", "--no-color", "--no-progress"]
    command += ["--set-timeout", seconds, *tests]
    run = subprocess.Popen(
        command, cwd=own, env=os.environ | {"NO_INTERACTION": "1"}, stdout=subprocess.PIPE, text=True, errors="replace"
    )
    with open(os.environ["OUTCOMES"], "a", buffering=1) as outcomes:
        for test in tests:
            outcomes.write(f"start {test}\n")
        for line in run.stdout:
            print(line, end="", flush=True)
            if ended := LINE.match(line):
                outcomes.write(f"{KINDS.get(ended[1], 'fail')} {ended[2]}\n")


main(*sys.argv[1:])
