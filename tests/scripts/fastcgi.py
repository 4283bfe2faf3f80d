"""A FastCGI client with one connection: `fastcgi.py PORT SCRIPT` asks for the script 300 times, which answers with its query."""

import socket
import struct
import sys

BEGIN, END, PARAMS, STDIN, STDOUT = 1, 3, 4, 5, 6


def record(kind, content):
    return struct.pack(">BBHHBB", 1, kind, 1, len(content), 0, 0) + content


def pair(name, value):
    sizes = b"".join(struct.pack(">I", len(text) | 1 << 31) for text in (name, value))
    return sizes + name.encode() + value.encode()


def answer(stream):
    content = b""
    while True:
        _, kind, _, length, padding, _ = struct.unpack(">BBHHBB", stream.read(8))
        body = stream.read(length + padding)[:length]
        if kind == END:
            return content
        if kind == STDOUT:
            content += body


def ask(connection, stream, script, query):
    params = {"SCRIPT_FILENAME": script, "REQUEST_METHOD": "GET", "QUERY_STRING": query}
    named = b"".join(pair(*param) for param in params.items())
    keep = struct.pack(">HB5x", 1, 1)
    request = record(BEGIN, keep) + record(PARAMS, named) + record(PARAMS, b"") + record(STDIN, b"")
    connection.sendall(request)
    return answer(stream).split(b"\r\n\r\n", 1)[1]


with socket.create_connection(("127.0.0.1", int(sys.argv[1]))) as connection:
    stream = connection.makefile("rb")
    for round in range(300):
        query = f"round={round}"
        assert ask(connection, stream, sys.argv[2], query) == query.encode()
print("ok")
