"""Commands of the host."""

import subprocess


class Failed(Exception):
    """A step or a case did not do what it should."""


def run(*command, cwd=None, timeout=300, text=True):
    """The output of a command that must succeed."""
    try:
        done = subprocess.run(command, cwd=cwd, timeout=timeout, stdin=subprocess.DEVNULL,
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    except subprocess.TimeoutExpired as error:
        raise Failed(f"{' '.join(map(str, command))}: not done after {timeout} s") from error
    output = done.stdout.decode(errors="replace")
    if done.returncode:
        raise Failed(f"{' '.join(map(str, command))}: status {done.returncode}\n{output}")
    return output if text else done.stdout
