"""A host is gone, and the program at the other end does something else when kernel TCP gives its connection up. Then it
becomes a program without ulsock, which reads on, and says what it finds.

verdict.py serve HOST PORT | call HOST PORT
"""

import os
import socket
import sys
import time

MESSAGES = 400
# In milliseconds, from when kernel TCP has something to send.
PATIENCE = 2500


def whole(connection, length):
    got = b""
    while len(got) < length:
        got += connection.recv(length - len(got))
    return got


def serve(address):
    listener = socket.create_server(address, family=socket.AF_INET6, dualstack_ipv6=True)
    connection, _ = listener.accept()
    while True:
        connection.sendall(whole(connection, 64))


def call(address):
    connection = socket.create_connection(address)
    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, PATIENCE)
    for _ in range(MESSAGES):
        connection.sendall(b"x" * 64)
        whole(connection, 64)
        time.sleep(0.0005)
    print("ready", flush=True)
    sys.stdin.read()
    connection.sendall(b"x" * 64)
    connection.settimeout(1)
    try:
        print(connection.recv(64))
    except TimeoutError:
        pass
    time.sleep(4)
    connection.set_inheritable(True)
    environment = {name: value for name, value in os.environ.items() if name != "LD_PRELOAD"}
    words = [sys.executable, __file__, "read", str(connection.fileno())]
    os.execve(sys.executable, words, environment)


def read(number):
    connection = socket.socket(fileno=number)
    connection.setblocking(True)
    try:
        print(len(connection.recv(64)))
    except OSError as error:
        print(type(error).__name__)


if sys.argv[1] == "read":
    read(int(sys.argv[2]))
else:
    {"serve": serve, "call": call}[sys.argv[1]]((sys.argv[2], int(sys.argv[3])))
