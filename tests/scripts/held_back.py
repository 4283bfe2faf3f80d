"""A connection that a child holds, too, from its first message on.

`serve PORT` answers each byte of one connection. `call PORT ROUNDS` sends a byte, starts the child, and exchanges 300
bytes; then it lets the child end, and exchanges ROUNDS more.
"""

import os
import socket
import sys
import time


def serve(port):
    with socket.create_server(("127.0.0.1", port)) as listener:
        connection, _ = listener.accept()
        while byte := connection.recv(1):
            connection.sendall(byte)


def child():
    """Its number, and the pipe that it waits for."""
    waits, ends = os.pipe()
    pid = os.fork()
    if pid == 0:
        os.close(ends)
        os.read(waits, 1)
        sys.exit()
    os.close(waits)
    return pid, ends


def exchange(connection, rounds):
    for _ in range(rounds):
        connection.sendall(b"x")
        assert connection.recv(1) == b"x"


def call(port, rounds):
    connection = socket.create_connection(("127.0.0.1", port))
    connection.sendall(b"x")
    pid, ends = child()
    # The other end answers the offer.
    time.sleep(0.3)
    assert connection.recv(1) == b"x"
    exchange(connection, 300)
    if not rounds:
        connection.shutdown(socket.SHUT_RDWR)
    os.close(ends)
    os.waitpid(pid, 0)
    exchange(connection, rounds)
    connection.close()
    print("ok")


{"serve": serve, "call": call}[sys.argv[1]](*map(int, sys.argv[2:]))
