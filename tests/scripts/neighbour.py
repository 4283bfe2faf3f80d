"""Two ends of a connection that know each other by a name, which no other network has.

    neighbour.py server PORT NAME
    neighbour.py client HOST PORT NAME [from=PORT] [user=NAME] [seconds=N]

`from` is the client's own port, `user` whom it becomes once it is connected, `seconds` how long it goes on.
"""

import os
import pwd
import socket
import sys
import time


def serve(port, name):
    listener = socket.socket()
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    listener.bind(("", int(port)))
    listener.listen()
    stream, _ = listener.accept()
    stream.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    file = stream.makefile("rw")
    for line in file:
        file.write(f"{name} {line}")
        file.flush()


def call(host, port, name, *options):
    options = dict(option.split("=") for option in options)
    stream = socket.socket()
    stream.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    if "from" in options:
        stream.bind(("", int(options["from"])))
    stream.connect((host, int(port)))
    if "user" in options:
        os.setuid(pwd.getpwnam(options["user"]).pw_uid)
    file = stream.makefile("rw")
    end = time.monotonic() + float(options.get("seconds", 1))
    number = 0
    while time.monotonic() < end:
        file.write(f"{number:08}\n")
        file.flush()
        answer = file.readline()
        assert answer == f"{name} {number:08}\n", answer
        number += 1
    print(number, "answers")


role, *words = sys.argv[1:]
{"server": serve, "client": call}[role](*words)
