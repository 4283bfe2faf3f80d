"""Runs a command for each of a list of words and writes the outcomes to the file $OUTCOMES, as strangers_pytest.py does:

    each.py SECONDS SKIPPED COMMAND WORD...

A test passes if its process ends with status 0, and is skipped if with SKIPPED. COMMAND is a command line."""

import os
import shlex
import signal
import subprocess
import sys


def outcome(command: list[str], seconds: float, skipped: int) -> str:
    # What a test has started is ended with it, and must not be waited for.
    process = subprocess.Popen(command, stdin=subprocess.DEVNULL, process_group=0)
    try:
        status = process.wait(seconds)
    except subprocess.TimeoutExpired:
        status = f"none after {seconds} s"
    finally:
        try:
            os.killpg(process.pid, signal.SIGKILL)
        except ProcessLookupError:
            pass
        process.wait()
    if status not in (0, skipped):
        print(f"{shlex.join(command)}: status {status}", flush=True)
    return {0: "pass", skipped: "skip"}.get(status, "fail")


def main(seconds: str, skipped: str, command: str, *words: str) -> None:
    with open(os.environ["OUTCOMES"], "a", buffering=1) as file:
        for word in words:
            file.write(f"start {word}\n")
            file.write(f"{outcome([*shlex.split(command), word], float(seconds), int(skipped))} {word}\n")


main(*sys.argv[1:])
