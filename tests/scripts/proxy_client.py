"""The client of the test `proxies`: `proxy_client.py PORT PREFIX KINDS [tls] [fill=PORT]`.

Asks a proxy for what proxy_backend.py describes, below PREFIX of the path, and checks every body: several
workers with a kept connection each, then large bodies at the same time, slow readers, requests that the client
breaks off and answers that the server breaks off. KINDS is a list with commas. `fill` puts the answers into a
memcached first. Prints one line per request: two runs can so be compared."""

import hashlib
import http.client
import random
import socket
import ssl
import struct
import sys
import threading
import time

from proxy_backend import content

PATIENCE = 12
WORKERS = 6
REQUESTS = 60
SMALL = [0, 1, 100, 1000, 5000, 20_000, 100_000]
LARGE = [1_000_000, 3_000_000]


class Wrong(Exception):
    """An answer that is not the expected one: the worker ends with it."""


class Client:
    def __init__(self, port: int, prefix: str, kinds: list[str], tls: bool) -> None:
        self.port, self.prefix, self.kinds = port, prefix, kinds
        self.context = ssl._create_unverified_context() if tls else None

    def connect(self) -> http.client.HTTPConnection:
        if self.context:
            return http.client.HTTPSConnection("127.0.0.1", self.port, timeout=PATIENCE, context=self.context)
        return http.client.HTTPConnection("127.0.0.1", self.port, timeout=PATIENCE)

    def exchange(self, connection: http.client.HTTPConnection, kind: str, length: int, pause: float = 0) -> str:
        """One request and its whole answer, as a line."""
        sent = content(kind, length) if kind == "echo" else None
        connection.request("POST" if sent is not None else "GET", f"{self.prefix}/{kind}/{length}", sent)
        answer = connection.getresponse()
        time.sleep(pause)
        try:
            body = answer.read()
        except http.client.IncompleteRead as incomplete:
            body = incomplete.partial
        wanted = content(kind, length)
        if kind == "short":
            wanted = wanted[: length // 2]
        digest = hashlib.sha256(body).hexdigest()[:16]
        announced = answer.getheader("Content-Length") or answer.getheader("Transfer-Encoding")
        line = f"{kind}/{length} {answer.status} {announced} {len(body)} {digest}"
        if body != wanted:
            raise Wrong(line)
        return line

    def small(self, number: int):
        """Many requests over one connection."""
        chance = random.Random(number)
        connection = self.connect()
        for _ in range(REQUESTS):
            yield self.exchange(connection, chance.choice(self.kinds), chance.choice(SMALL))
        # One connection must have been enough.
        yield f"kept {connection.sock is not None}"
        connection.close()

    def large(self, number: int):
        """Large bodies, one of them read late."""
        connection = self.connect()
        for length in LARGE:
            for kind in self.kinds:
                yield self.exchange(connection, kind, length, pause=0.05 * (number % 2))
        connection.close()

    def broken_off(self, number: int):
        """Requests that the client gives up: in the head, in the body, in the answer, by an end or a reset."""
        chance = random.Random(number)
        for turn in range(8):
            connection = self.connect()
            connection.connect()
            if turn % 2:
                connection.sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            length = LARGE[0]
            if turn % 4 < 2:
                connection.request("GET", f"{self.prefix}/plain/{length}")
                count = chance.choice([1, 5000, 200_000])
                wanted = content("plain", length)[:count]
                yield f"broken off in the answer {connection.getresponse().read(count) == wanted}"
            else:
                head = f"POST {self.prefix}/echo/{length} HTTP/1.1\r\nHost: test\r\nContent-Length: {length}\r\n\r\n"
                part = head.encode() + content("echo", length)
                connection.sock.sendall(part[: chance.choice([20, len(head) - 2, len(head) + 70_000])])
                yield "broken off in the request"
            connection.close()

    def short(self, number: int):
        """Answers that end too early."""
        for length in SMALL[2:] + LARGE[:1]:
            connection = self.connect()
            yield self.exchange(connection, "short", length)
            connection.close()


def fill(port: int, prefix: str) -> None:
    """Puts the answers into memcached."""
    with socket.create_connection(("127.0.0.1", port), timeout=PATIENCE) as connection:
        stream = connection.makefile("rwb")
        for length in SMALL + LARGE:
            stream.write(b"set %s/plain/%d 0 0 %d\r\n" % (prefix.encode(), length, length))
            stream.write(content("plain", length) + b"\r\n")
            stream.flush()
            assert stream.readline() == b"STORED\r\n"


def together(jobs) -> None:
    """Runs the generators side by side and prints what each yields, one after the other."""
    lines = [[] for _ in jobs]

    def work(job, into) -> None:
        try:
            for line in job:
                into.append(f"{job.__name__} {line}")
        except Exception as error:
            into.append(f"{job.__name__} {type(error).__name__}: {error}")

    threads = [threading.Thread(target=work, args=both) for both in zip(jobs, lines)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for number, found in enumerate(lines):
        for line in found:
            print(number, line)


def main(port: str, prefix: str, kinds: str, *options: str) -> None:
    prefix = prefix.rstrip("/")
    client = Client(int(port), prefix, kinds.split(","), "tls" in options)
    for option in options:
        if option.startswith("fill="):
            fill(int(option[5:]), prefix)
    together([client.small(number) for number in range(WORKERS)] + [client.broken_off(0)])
    last = [client.large(0), client.large(1), client.broken_off(1), client.small(WORKERS)]
    if "fill=" not in "".join(options):
        last.append(client.short(0))
    together(last)


if __name__ == "__main__":
    main(*sys.argv[1:])
