"""Runs a test program of Go and writes the outcomes to the file $OUTCOMES, as strangers_pytest.py does:

    go_test.py SECONDS PROGRAM PATTERN SKIPPED

PATTERN chooses tests, SKIPPED leaves some of them out; both are regular expressions. All tests run in one process. If
that ends before its last test, by a test that panics or hangs for so many seconds, another one goes on with the rest."""

import os
import re
import subprocess
import sys

# With -test.v=test2json such a byte is before each line of the test program's own.
MARK = "\x16"
STARTS = re.compile(MARK + r"=== RUN +(\S+)")
ENDS = re.compile(" *" + MARK + r"? *--- (PASS|FAIL|SKIP): (\S+)")


def names(program: str, pattern: str, skipped: str) -> list[str]:
    listed = subprocess.run([program, "-test.list", pattern], capture_output=True, text=True, check=True).stdout
    found = [line for line in listed.splitlines() if line.startswith("Test")]
    return [name for name in found if not re.search(skipped, name)]


def run(program: str, tests: list[str], seconds: str, file) -> set[str]:
    """Writes what came of these tests; gives those that have begun."""
    options = ["-test.v=test2json", "-test.short", f"-test.timeout={seconds}s", "-test.run", f"^({'|'.join(tests)})$"]
    begun: set[str] = set()
    with subprocess.Popen(
        [program, *options], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, text=True, errors="replace"
    ) as process:
        for line in process.stdout:
            print(line, end="", flush=True)
            if found := STARTS.search(line):
                begun.add(found[1].split("/")[0])
                file.write(f"start {found[1]}\n")
            elif found := ENDS.search(line):
                file.write(f"{found[1].lower()} {found[2]}\n")
    return begun


def main(seconds: str, program: str, pattern: str, skipped: str) -> None:
    left = names(program, pattern, skipped)
    with open(os.environ["OUTCOMES"], "a", buffering=1) as file:
        while left:
            begun = run(program, left, seconds, file)
            if not begun:
                sys.exit(f"go_test.py: {program} began none of {len(left)} tests")
            left = [name for name in left if name not in begun]


main(*sys.argv[1:])
