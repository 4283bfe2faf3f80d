"""Starts a PostgreSQL server with an io_uring for its files, and runs pgbench and PostgreSQL's own regression tests over
TCP. Writes the outcomes to the file $OUTCOMES, as strangers_pytest.py does:

    postgres.py SECONDS PROGRAMS REGRESS

PROGRAMS is the folder of its programs, REGRESS that of its regression tests, built. SECONDS is for one run of pgbench."""

import contextlib
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

SETTINGS = """
listen_addresses = '127.0.0.1'
unix_socket_directories = ''
io_method = io_uring
# Less than the tables of pgbench: they are read from files while clients wait.
shared_buffers = 16MB
fsync = off
max_connections = 40
"""
SCALE = 3
# A wrong sum is a division by zero.
SCAN = f"""select 1 / (sum(aid) = {100_000 * SCALE}::bigint * ({100_000 * SCALE} + 1) / 2)::int from pgbench_accounts;
"""
# Options of pgbench, and how many transactions they are.
LOADS = {
    "select": ("-S -c 8 -j 2 -t 500", 4000),
    "one client": ("-S -t 2000", 2000),
    "tpcb": ("-c 8 -j 2 -t 150", 1200),
    "prepared": ("-M prepared -c 4 -t 100", 400),
    "a connection for each": ("-S -C -c 4 -j 2 -t 25", 100),
    "scan": ("-f scan.sql -c 4 -j 2 -t 10", 40),
}
BALANCED = """select sum(abalance) = (select sum(bbalance) from pgbench_branches)
    and sum(abalance) = (select sum(tbalance) from pgbench_tellers)
    and sum(abalance) = (select sum(delta) from pgbench_history) from pgbench_accounts"""
LEFT = "select md5(string_agg(aid || ' ' || abalance, ',' order by aid)) from pgbench_accounts where abalance <> 0"
START = 60


class Postgres:
    """A server, its clients, and the file of outcomes."""

    def __init__(self, seconds: float, programs: Path, outcomes) -> None:
        self.seconds, self.programs, self.outcomes = seconds, programs, outcomes
        self.folder = Path(os.environ["TMPDIR"])
        data = self.folder / "data"
        command = [programs / "initdb", *"-A trust -N -U postgres -E UTF8 --locale=C -D".split(), data]
        subprocess.run(command, check=True)
        with open(data / "postgresql.conf", "a") as settings:
            settings.write(SETTINGS)
        (self.folder / "scan.sql").write_text(SCAN)
        self.server = subprocess.Popen([programs / "postgres", "-D", data])
        until = time.monotonic() + START
        while self.client("pg_isready", "-q").returncode:
            if self.server.poll() is not None or time.monotonic() > until:
                sys.exit("postgres.py: the server does not start")
            time.sleep(0.1)

    def client(self, name: str, *words: str) -> subprocess.CompletedProcess:
        command = [self.programs / name, *words]
        try:
            done = subprocess.run(command, cwd=self.folder, stdout=subprocess.PIPE, text=True, timeout=self.seconds)
        except subprocess.TimeoutExpired:
            done = subprocess.CompletedProcess(command, -1, f"{name}: not done in {self.seconds} s")
        print(done.stdout, flush=True)
        return done

    def sql(self, statement: str) -> str:
        return self.client("psql", "-X", "-A", "-t", "-v", "ON_ERROR_STOP=1", "-c", statement).stdout.strip()

    def say(self, kind: str, name: str) -> None:
        self.outcomes.write(f"{kind} {name}\n")

    def judge(self, name: str, passes) -> None:
        self.say("start", name)
        self.say("pass" if passes() else "fail", name)

    def load(self, options: str, transactions: int) -> bool:
        done = self.client("pgbench", "-n", *options.split())
        processed = f"processed: {transactions}/{transactions}\n"
        return done.returncode == 0 and processed in done.stdout and "failed transactions: 0 " in done.stdout

    def submitted(self) -> int:
        """Entries that the server's processes have submitted: the first of them makes an io_uring for each."""
        count = 0
        for file in Path(f"/proc/{self.server.pid}/fdinfo").iterdir():
            found = re.search(r"^CachedSqHead:\s*(\d+)", file.read_text(), re.MULTILINE)
            count += int(found[1]) if found else 0
        return count

    def pgbench(self) -> None:
        self.judge("pgbench: tables", lambda: self.client("pgbench", "-i", "-q", "-s", str(SCALE)).returncode == 0)
        self.judge("pgbench: seeded", lambda: self.load("--random-seed=1 -t 300", 300))
        # What it leaves is part of a name: with another one, the kernel's would not be reached.
        self.say("pass", f"pgbench: seeded, leaves {self.sql(LEFT)}")
        for name, (options, transactions) in LOADS.items():
            self.judge(f"pgbench: {name}", lambda: self.load(options, transactions))
        self.judge("pgbench: balanced", lambda: self.sql(BALANCED) == "t")
        self.judge("io_uring: was used", lambda: self.submitted() > 1000)

    def regress(self, tests: Path) -> None:
        """PostgreSQL's own: they compare what psql prints with files."""
        output = self.folder / "regress"
        output.mkdir()
        command = [tests / "pg_regress", f"--inputdir={tests}", f"--expecteddir={tests}", f"--outputdir={output}"]
        command += [f"--dlpath={tests}", f"--bindir={self.programs}", "--host=127.0.0.1", "--user=postgres"]
        command += [f"--schedule={tests}/parallel_schedule", "--max-concurrent-tests=20"]
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
            for line in process.stdout:
                print(line, end="", flush=True)
                if found := re.match(r"(not )?ok \d+\s+[-+] (\S+)", line):
                    self.say("fail" if found[1] else "pass", f"regress: {found[2]}")
        differences = output / "regression.diffs"
        print(differences.read_text(errors="replace") if differences.exists() else "", flush=True)

    def stop(self) -> None:
        self.server.send_signal(signal.SIGINT)
        with contextlib.suppress(subprocess.TimeoutExpired):
            self.judge("server: ends", lambda: self.server.wait(self.seconds) == 0)
        shutil.rmtree(self.folder / "data", ignore_errors=True)


def main(seconds: str, programs: str, tests: str) -> None:
    os.environ |= {"PGHOST": "127.0.0.1", "PGUSER": "postgres", "PGDATABASE": "postgres"}
    with open(os.environ["OUTCOMES"], "a", buffering=1) as outcomes:
        postgres = Postgres(float(seconds), Path(programs).resolve(), outcomes)
        try:
            postgres.pgbench()
            postgres.regress(Path(tests).resolve())
        finally:
            postgres.stop()


main(*sys.argv[1:])
