"""What stands behind the proxies of the test `proxies`: `proxy_backend.py http|fastcgi PORT`, until SIGINT.

The last two parts of a request's path say what is asked for:

    plain/N    N bytes, announced by their length
    chunked/N  N bytes in chunks (FastCGI: without a length)
    short/N    N bytes are announced, half of them come, then the connection ends
    echo/N     the N bytes of the request's body

Connections are kept; each has a thread."""

import functools
import random
import socket
import struct
import sys
import threading

CHUNK = 50_000
(BEGIN, ABORT, END, PARAMS, STDIN, STDOUT) = range(1, 7)


@functools.cache
def content(kind: str, length: int) -> bytes:
    """The bytes of every answer to this path."""
    return random.Random(f"{kind} {length}").randbytes(length)


class Gone(Exception):
    """The other end has closed."""


class Reader:
    """Bytes of a connection, as many as asked for."""

    def __init__(self, connection: socket.socket) -> None:
        self.connection = connection
        self.kept = b""

    def more(self) -> None:
        data = self.connection.recv(65536)
        if not data:
            raise Gone
        self.kept += data

    def until(self, mark: bytes) -> bytes:
        while mark not in self.kept:
            self.more()
        found, self.kept = self.kept.split(mark, 1)
        return found

    def exactly(self, length: int) -> bytes:
        parts = [self.kept[:length]]
        missing = length - len(parts[0])
        self.kept = self.kept[length:]
        while missing:
            data = self.connection.recv(min(missing, 1 << 20))
            if not data:
                raise Gone
            parts.append(data)
            missing -= len(data)
        return b"".join(parts)


def asked(path: str) -> tuple[str, int]:
    kind, length = path.split("/")[-2:]
    return kind, int(length)


def http(connection: socket.socket) -> None:
    reader = Reader(connection)
    while True:
        head = reader.until(b"\r\n\r\n").decode().split("\r\n")
        fields = dict(line.lower().split(": ", 1) for line in head[1:])
        body = reader.exactly(int(fields.get("content-length", 0)))
        kind, length = asked(head[0].split()[1])
        answer = body if kind == "echo" else content(kind, length)
        if kind == "chunked":
            connection.sendall(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n")
            for start in range(0, length, CHUNK):
                part = answer[start : start + CHUNK]
                connection.sendall(b"%x\r\n%s\r\n" % (len(part), part))
            connection.sendall(b"0\r\n\r\n")
            continue
        connection.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n" % len(answer))
        if kind == "short":
            connection.sendall(answer[: length // 2])
            return
        connection.sendall(answer)
        if fields.get("connection") == "close":
            return


def pairs(data: bytes) -> dict[bytes, bytes]:
    """FastCGI's names and values."""
    found, at = {}, 0
    while at < len(data):
        lengths = []
        for _ in range(2):
            if data[at] < 128:
                lengths.append(data[at])
                at += 1
            else:
                lengths.append(struct.unpack_from(">I", data, at)[0] & 0x7FFFFFFF)
                at += 4
        name = data[at : at + lengths[0]]
        at += lengths[0]
        found[name] = data[at : at + lengths[1]]
        at += lengths[1]
    return found


def record(connection: socket.socket, kind: int, request: int, body: bytes) -> None:
    padding = -len(body) % 8
    connection.sendall(struct.pack(">BBHHBB", 1, kind, request, len(body), padding, 0) + body + bytes(padding))


def fastcgi(connection: socket.socket) -> None:
    reader = Reader(connection)
    keep, parameters, body = False, b"", []
    while True:
        _, kind, request, length, padding, _ = struct.unpack(">BBHHBB", reader.exactly(8))
        data = reader.exactly(length + padding)[:length]
        if kind == BEGIN:
            keep, parameters, body = bool(data[2] & 1), b"", []
        elif kind == PARAMS:
            parameters += data
        elif kind == ABORT:
            return
        elif kind == STDIN and data:
            body.append(data)
        elif kind == STDIN:
            if not fastcgi_answer(connection, request, pairs(parameters), b"".join(body)) or not keep:
                return


def fastcgi_answer(connection: socket.socket, request: int, fields: dict[bytes, bytes], body: bytes) -> bool:
    kind, length = asked(fields[b"DOCUMENT_URI"].decode())
    answer = body if kind == "echo" else content(kind, length)
    head = b"Status: 200 OK\r\n"
    if kind != "chunked":
        head += b"Content-Length: %d\r\n" % len(answer)
    record(connection, STDOUT, request, head + b"\r\n")
    sent = answer[: length // 2] if kind == "short" else answer
    for start in range(0, len(sent), CHUNK):
        record(connection, STDOUT, request, sent[start : start + CHUNK])
    if kind == "short":
        return False
    record(connection, STDOUT, request, b"")
    record(connection, END, request, bytes(8))
    return True


def serve(connection: socket.socket, protocol) -> None:
    with connection:
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        try:
            protocol(connection)
        except (Gone, ConnectionError):
            pass


def main(protocol: str, port: str) -> None:
    listener = socket.create_server(("127.0.0.1", int(port)), backlog=128)
    while True:
        connection, _ = listener.accept()
        threading.Thread(target=serve, args=(connection, globals()[protocol]), daemon=True).start()


if __name__ == "__main__":
    try:
        main(*sys.argv[1:])
    except KeyboardInterrupt:
        pass
