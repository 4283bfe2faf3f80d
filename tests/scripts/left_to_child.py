"""A connection that goes on in a child, which alone is left with it after the first 500 bytes.

`serve PORT` answers each byte of one connection, `call PORT` sends 4,000.
"""

import os
import socket
import sys

BEFORE, AFTER = 500, 3500


def answer(connection, rounds):
    for _ in range(rounds):
        byte = connection.recv(1)
        assert byte
        connection.sendall(byte)


def serve(port):
    with socket.create_server(("127.0.0.1", port)) as listener:
        connection, _ = listener.accept()
        answer(connection, BEFORE)
        child = os.fork()
        if child == 0:
            answer(connection, AFTER)
            sys.exit()
        connection.close()
        _, status = os.waitpid(child, 0)
        sys.exit(status)


def call(port):
    with socket.create_connection(("127.0.0.1", port)) as connection:
        for _ in range(BEFORE + AFTER):
            connection.sendall(b"x")
            assert connection.recv(1) == b"x"
    print("ok")


{"serve": serve, "call": call}[sys.argv[1]](int(sys.argv[2]))
