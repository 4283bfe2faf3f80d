"""A server that listens by multipath TCP, as Go's do, and its client, of plain or of multipath TCP:

    several_paths.py serve PORT      one client, whose bytes it sends back
    several_paths.py call PORT       by plain TCP
    several_paths.py path PORT       by multipath TCP"""

import socket
import sys

ROUNDS = 3000


def serve(port: int) -> None:
    listener = socket.socket(socket.AF_INET, socket.SOCK_STREAM, socket.IPPROTO_MPTCP)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    listener.bind(("127.0.0.1", port))
    listener.listen()
    connection, _ = listener.accept()
    protocol = connection.getsockopt(socket.SOL_SOCKET, socket.SO_PROTOCOL)
    while data := connection.recv(4096):
        connection.sendall(data)
    print("by several paths" if protocol == socket.IPPROTO_MPTCP else "by one")


def call(port: int, protocol: int) -> None:
    connection = socket.socket(socket.AF_INET, socket.SOCK_STREAM, protocol)
    connection.connect(("127.0.0.1", port))
    for number in range(ROUNDS):
        message = bytes([number % 256]) * (1 + number % 100)
        connection.sendall(message)
        answer = connection.recv(len(message), socket.MSG_WAITALL)
        assert answer == message, number
    print("ok")


def main(what: str, port: str) -> None:
    if what == "serve":
        serve(int(port))
    else:
        call(int(port), socket.IPPROTO_MPTCP if what == "path" else socket.IPPROTO_TCP)


main(*sys.argv[1:])
