"""The client of what web_app.py describes: `web_client.py PATH [broken]` connects to the Unix socket PATH, checks every
body, and prints one line per request: two runs can so be compared. Several workers with a kept connection each, then
large bodies both ways; with `broken`, answers that the server cannot end."""

import concurrent.futures
import hashlib
import http.client
import random
import socket
import sys

from web_app import content

PATIENCE = 20
WORKERS = 4
REQUESTS = 40
SMALL = [0, 1, 100, 5000, 20_000, 100_000]
LARGE = [1_000_000, 4_000_000]


class Connection(http.client.HTTPConnection):
    def __init__(self, path: str) -> None:
        super().__init__("localhost", timeout=PATIENCE)
        self.path = path

    def connect(self) -> None:
        self.sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self.sock.settimeout(self.timeout)
        self.sock.connect(self.path)


def exchange(connection: Connection, kind: str, length: int) -> str:
    sent = content(length) if kind == "echo" else None
    connection.request("POST" if sent is not None else "GET", f"/{kind}/{length}", sent)
    answer = connection.getresponse()
    try:
        body = answer.read()
    except http.client.IncompleteRead as incomplete:
        return f"{kind}/{length} {answer.status} broken off after {len(incomplete.partial)}"
    if answer.status == 200:
        assert body == content(length), f"{kind}/{length}: other bytes"
        return f"{kind}/{length} 200 {len(body)} {hashlib.sha256(body).hexdigest()[:16]}"
    return f"{kind}/{length} {answer.status}"


def worker(path: str, number: int) -> list[str]:
    chance = random.Random(number)
    connection = Connection(path)
    kinds = ["sized", "chunked", "echo"]
    lines = [exchange(connection, chance.choice(kinds), chance.choice(SMALL)) for _ in range(REQUESTS)]
    for length in LARGE:
        lines += [exchange(connection, kind, length) for kind in kinds]
    lines.append(f"kept {connection.sock is not None}")
    connection.close()
    return lines


def broken(path: str) -> list[str]:
    """Each over a connection of its own: whether a server keeps one after an error is its own affair."""
    lines = []
    for kind, length in [("error", 0), ("sized", 1000), ("half", 400_000), ("sized", 1001), ("kill", 0), ("sized", 1002)]:
        connection = Connection(path)
        lines.append(exchange(connection, kind, length))
        connection.close()
    return lines


def main(path: str, *more: str) -> None:
    with concurrent.futures.ThreadPoolExecutor(WORKERS) as pool:
        for lines in pool.map(lambda number: worker(path, number), range(WORKERS)):
            print("\n".join(lines))
    if "broken" in more:
        print("\n".join(broken(path)))


main(*sys.argv[1:])
