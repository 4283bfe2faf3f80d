"""Runs test programs of Node one by one and writes their outcomes to the file $OUTCOMES, as strangers_pytest.py does:

    node.py SECONDS NODE PROGRAM...

A program that passes ends with status 0. The options that it wants are in a comment at its top."""

import os
import re
import signal
import subprocess
import sys

FLAGS = re.compile(r"^// Flags: *(.*)$", re.MULTILINE)
# common.skip() prints it and ends the program with success.
SKIPPED = re.compile(rb"^1\.\.0 # Skipped", re.MULTILINE)


def outcome(node: str, program: str, seconds: float) -> str:
    with open(program, errors="replace") as text:
        flags = [word for line in FLAGS.findall(text.read()) for word in line.split()]
    # Programs with children that outlive them: they are ended as a group, and may hold the output.
    process = subprocess.Popen(
        [node, *flags, program],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        process_group=0,
        # Else runs beside each other would share a folder in the source.
        env=os.environ | {"NODE_TEST_DIR": os.environ["TMPDIR"]},
    )
    try:
        output = process.communicate(timeout=seconds)[0]
    except subprocess.TimeoutExpired:
        output = b""
        print(f"{program}: {seconds} s are over", flush=True)
    finally:
        try:
            os.killpg(process.pid, signal.SIGKILL)
        except ProcessLookupError:
            pass
        status = process.wait()
    if status:
        print(f"{program}: status {status}\n{output.decode(errors='replace')}", flush=True)
        return "fail"
    return "skip" if SKIPPED.search(output) else "pass"


def main(seconds: str, node: str, *programs: str) -> None:
    with open(os.environ["OUTCOMES"], "a", buffering=1) as file:
        for program in programs:
            file.write(f"start {program}\n")
            file.write(f"{outcome(node, program, float(seconds))} {program}\n")


main(*sys.argv[1:])
