"""Runs a prepared suite: in a network namespace and a folder of its own, on kernel TCP or under ulsock.

A run gives the outcome of every test, and, under ulsock, how many of its connections had rings."""

import contextlib
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path

from fetch import DRIVERS, HERE

LIBRARY = HERE.parents[1] / "target/release/libulsock_preload.so"
# Settings of the runs under ulsock, by the name that the table shows.
WAYS = {"default": {}, "at once": {"ULSOCK_UPGRADE_AFTER": "0"}}
AT_A_TIME = 2
# Runs side by side write files of the same names into the suite's folder: each writes into a layer of its own.
LAYER = """upper=$OWN/upper work=$OWN/work copy=$OWN/copy; mkdir "$upper" "$work"
mount -t overlay overlay -o "lowerdir=$PWD,upperdir=$upper,workdir=$work" "$PWD" 2>/dev/null ||
    { cp -a . "$copy" && mount --bind "$copy" "$PWD"; } || exit 1
cd "$PWD"; unset OWN upper work copy"""
SERVER = LAYER + """
ip link set lo up; eval "$BEFORE"; exec "$@\""""


@dataclass
class Run:
    """What one run left."""

    way: str
    seconds: float = 0
    # By test: pass, fail, skip, or start if it never ended.
    outcomes: dict[str, str] = field(default_factory=dict)
    connections: int = 0
    on_rings: int = 0
    # That went through rings, and in all.
    ring_bytes: int = 0
    bytes: int = 0
    # Why connections stayed on, or returned to, the kernel, and how many.
    reasons: dict[str, int] = field(default_factory=dict)


def check_built(library: Path) -> None:
    if not library.exists():
        sys.exit(f"tests/strangers: {library} is missing: run cargo build --release --workspace first")


@contextlib.contextmanager
def folder(keep: Path | None, library: Path):
    """Where the runs leave outcomes and output, with a copy of the library: a build must not change it meanwhile."""
    with tempfile.TemporaryDirectory(prefix="strangers-") as path:
        if keep:
            keep.mkdir(parents=True, exist_ok=True)
            path = keep.resolve()
        shutil.copy(library, Path(path) / LIBRARY.name)
        yield Path(path)


def outcomes(file: Path) -> dict[str, str]:
    """A test that starts again, or fails after it has passed, has its worst outcome."""
    worst = ["start", "skip", "pass", "fail"]
    found: dict[str, str] = {}
    for line in file.read_text(errors="replace").splitlines() if file.exists() else []:
        kind, name = line.split(" ", 1)
        if worst.index(kind) > worst.index(found.get(name, "start")) or name not in found:
            found[name] = kind
    return found


def read_report(run: Run, file: Path) -> None:
    for line in file.read_text().splitlines() if file.exists() else []:
        report = json.loads(line)
        run.connections += report["connections"]
        run.on_rings += report["upgraded"]
        by_ring = report["ring_tx_bytes"] + report["ring_rx_bytes"]
        run.ring_bytes += by_ring
        run.bytes += by_ring + report["kernel_tx_bytes"] + report["kernel_rx_bytes"]
        for why, times in report["reasons"].items():
            run.reasons[why] = run.reasons.get(why, 0) + times


def environment(way: str, own: Path, suite: dict) -> dict[str, str]:
    ours = {name: value for name, value in os.environ.items() if name != "LD_PRELOAD" and "ULSOCK" not in name}
    ours |= {"OUTCOMES": str(own / "outcomes"), "PYTHONPATH": str(DRIVERS), "PYTHONDONTWRITEBYTECODE": "1"}
    ours |= {"TMPDIR": str(own / "tmp"), "HOME": str(own / "tmp"), "BEFORE": suite.get("before", ":"), "OWN": str(own)}
    ours |= suite.get("environment", {})
    if way in WAYS:
        ours |= {"LD_PRELOAD": str(own.parent / LIBRARY.name), "ULSOCK_REPORT": str(own / "report"), "ULSOCK_RUN_DIR": str(run_dir(own))}
        ours |= WAYS[way]
    return ours


def run_dir(own: Path) -> Path:
    return Path("/dev/shm") / f"strangers-{os.getpid()}-{own.name}"


def one(name: str, suite: dict, command: list[str], way: str, own: Path) -> Run:
    """One run. Everything that it started is in its process group, which is killed at its end."""
    (own / "tmp").mkdir(parents=True)
    run = Run(way)
    start = time.monotonic()
    with open(own / "output", "wb") as output:
        process = subprocess.Popen(
            ["unshare", "--net", "--mount", "sh", "-c", SERVER, "sh", *command[1:]],
            cwd=command[0],
            env=environment(way, own, suite),
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=output,
            start_new_session=True,
        )
        try:
            process.wait(suite["limit"])
        except subprocess.TimeoutExpired:
            output.write(b"\ntests/strangers: the time of this run is over\n")
        finally:
            # A server that must report ends by itself at SIGTERM.
            for number in (signal.SIGTERM, signal.SIGKILL):
                with contextlib.suppress(ProcessLookupError):
                    os.killpg(process.pid, number)
                    time.sleep(0.3)
            process.wait()
    run.seconds = time.monotonic() - start
    run.outcomes = outcomes(own / "outcomes")
    read_report(run, own / "report")
    shutil.rmtree(run_dir(own), ignore_errors=True)
    return run


def several(name: str, suite: dict, command: list[str], ways: list[str], folder: Path, say) -> list[Run]:
    """Runs side by side. They sleep more than they compute."""

    def job(way: str) -> Run:
        # Names of one length for all ways: Unix sockets in there have at most 107 characters.
        short = way.replace(" ", "-")[:3]
        own = Path(tempfile.mkdtemp(prefix=f"{name}-{short}-", dir=folder))
        run = one(name, suite, command, way, own)
        passed = sum(kind == "pass" for kind in run.outcomes.values())
        rings = f", {run.on_rings} of {run.connections} connections on rings" if way in WAYS else ""
        say(f"{name}: {way}: {passed} of {len(run.outcomes)} passed in {run.seconds:.0f} s{rings}")
        return run

    with ThreadPoolExecutor(AT_A_TIME) as pool:
        return list(pool.map(job, ways))


def on_kernel(name: str, suite: dict, command: list[str], folder: Path, say) -> list[Run]:
    return several(name, suite, command, ["kernel", "kernel"], folder, say)


def all_ways(name: str, suite: dict, command: list[str], folder: Path, say) -> dict[str, list[Run]]:
    """Two runs on the kernel and one each way under ulsock."""
    found: dict[str, list[Run]] = {}
    for run in several(name, suite, command, ["kernel", *WAYS, "kernel"], folder, say):
        found.setdefault(run.way, []).append(run)
    return found
