"""A server that echoes, and its client, which ends the stream in the middle of the server's next wait:
late.py serve PORT COUNT read|poll|select|epoll|edge
late.py call HOST PORT COUNT"""

import select
import socket
import sys
import time

ROUNDS = 150
MESSAGE = b"m" * 100
# Nobody answers it.
LAST = b"!"


def waiting(stream, way):
    """A function that returns when there is something to read."""
    if way == "read":
        return lambda: None
    stream.setblocking(False)
    if way == "select":
        return lambda: select.select([stream], [], [])
    if way == "poll":
        poll = select.poll()
        poll.register(stream, select.POLLIN)
        return poll.poll
    epoll = select.epoll()
    epoll.register(stream, select.EPOLLIN | (select.EPOLLET if way == "edge" else 0))
    return epoll.poll


def pieces(stream, way):
    """What is there, until there is no more for now; an empty piece at the end."""
    try:
        while piece := stream.recv(4096):
            yield piece
            if way == "read":
                return
        yield b""
    except BlockingIOError:
        pass


def echo(stream, way):
    wait = waiting(stream, way)
    while True:
        wait()
        for piece in pieces(stream, way):
            if not piece:
                return
            if piece != LAST:
                stream.sendall(piece)


def serve(port, count, way):
    with socket.create_server(("::", int(port)), family=socket.AF_INET6, dualstack_ipv6=True) as listener:
        for _ in range(int(count)):
            stream, _ = listener.accept()
            with stream:
                echo(stream, way)


def call(host, port, count):
    for _ in range(int(count)):
        with socket.create_connection((host, int(port))) as stream:
            for _ in range(ROUNDS):
                stream.sendall(MESSAGE)
                assert stream.recv(len(MESSAGE), socket.MSG_WAITALL) == MESSAGE
            # By now nothing but the end itself can wake the server. It comes in the pause before the server's last sleep;
            # and half of it, for the whole would be told by the kernel, too.
            time.sleep(0.5)
            stream.sendall(LAST)
            time.sleep(0.001)
            stream.shutdown(socket.SHUT_WR)
            assert stream.recv(1) == b""


{"serve": serve, "call": call}[sys.argv[1]](*sys.argv[2:])
