"""Ends of connections whose addresses are translated on the way: each says who it is in every line, so that no line
comes to another connection than its own unnoticed.

    translated.py server PORT COUNT
    translated.py client HOST PORT NAME [from=PORT] [seconds=N] [times=N]

The server answers COUNT connections, each in a thread. `from` is the client's own port; it makes so many connections
from there, one after the other, each ended by a reset after `seconds`.
"""

import socket
import struct
import sys
import threading
import time


def answer(stream):
    stream.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    file, names = stream.makefile("rwb"), set()
    try:
        for line in file:
            names.add(line.split()[0])
            file.write(line)
            file.flush()
    except ConnectionResetError:
        pass
    assert len(names) == 1, names


def serve(port, count):
    listener = socket.socket(socket.AF_INET6)
    listener.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 0)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    listener.bind(("::", int(port)))
    listener.listen(100)
    failed = []
    threading.excepthook = lambda args: failed.append(args.exc_value)
    threads = []
    for _ in range(int(count)):
        stream, _ = listener.accept()
        threads.append(threading.Thread(target=answer, args=(stream,)))
        threads[-1].start()
    for thread in threads:
        thread.join()
    assert not failed, failed


def call(host, port, name, *options):
    options = dict(option.split("=") for option in options)
    times, seconds = int(options.get("times", 1)), float(options.get("seconds", 1))
    for time_ in range(times):
        stream = socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET)
        stream.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        stream.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        if "from" in options:
            stream.bind(("", int(options["from"])))
        stream.connect((host, int(port)))
        count = talk(stream, f"{name}.{time_}", seconds)
        if "from" in options:
            stream.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        stream.close()
        print(count, "answers")


def talk(stream, name, seconds):
    end, number = time.monotonic() + seconds, 0
    pending = b""
    while time.monotonic() < end:
        line = f"{name} {number:08}\n".encode()
        stream.sendall(line)
        while not pending.endswith(b"\n"):
            got = stream.recv(1000)
            assert got, "the end"
            pending += got
        assert pending == line, (pending, line)
        pending = b""
        number += 1
    return number


role, *words = sys.argv[1:]
{"server": serve, "client": call}[role](*words)
