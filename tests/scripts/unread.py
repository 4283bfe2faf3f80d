"""A server whose clients do not read for a while: it sends until nobody takes any more, and all of it arrives."""
import os
import socket

CLIENTS, ROUNDS = 30, 50


def ask(port, may_read):
    ends = [socket.create_connection(("127.0.0.1", port)) for _ in range(CLIENTS)]
    for end in ends * ROUNDS:
        end.sendall(b"x" * 64)
        end.recv(64)
    os.read(may_read, 1)
    total = 0
    for number, end in enumerate(ends):
        while part := end.recv(65536):
            assert part.count(number) == len(part), "wrong bytes"
            total += len(part)
    print("received", total, flush=True)


def fill(number, end):
    end.setblocking(False)
    total = 0
    try:
        while True:
            total += end.send(bytes([number]) * 16384)
    except BlockingIOError:
        return total


def main():
    listener = socket.create_server(("127.0.0.1", 0), backlog=CLIENTS)
    may_read, now = os.pipe()
    child = os.fork()
    if child == 0:
        ask(listener.getsockname()[1], may_read)
        os._exit(0)
    ends = [listener.accept()[0] for _ in range(CLIENTS)]
    for end in ends * ROUNDS:
        end.recv(64)
        end.sendall(b"y" * 64)
    print("sent", sum(fill(number, end) for number, end in enumerate(ends)), flush=True)
    os.write(now, b"!")
    for end in ends:
        end.close()
    assert os.waitpid(child, 0)[1] == 0


main()
