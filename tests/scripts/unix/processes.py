"""Python's multiprocessing over Unix sockets and socket pairs: `processes.py METHOD` with fork, spawn or forkserver. Prints
what each of its ways gives, a line per way: two runs can so be compared. The names are abstract or in the working
directory."""

import array
import hashlib
import multiprocessing
import os
import socket
import sys
from multiprocessing import connection, managers, reduction

AUTHKEY = b"key"
SIZES = [1, 10, 1000, 20_000, 300_000]


def digest(data: bytes) -> str:
    return f"{len(data)} {hashlib.sha256(data).hexdigest()[:12]}"


def square(number: int) -> int:
    return number * number


def large(number: int) -> bytes:
    return bytes([number % 251]) * (number * 1000)


def pool(context) -> str:
    with context.Pool(3) as workers:
        squares = sum(workers.map(square, range(500), chunksize=7))
        data = b"".join(workers.imap(large, range(40)))
    return f"{squares} {digest(data)}"


def fill(queue, count: int) -> None:
    for number in range(count):
        queue.put((number, bytes(number)))
    queue.put(None)


def queue(context) -> str:
    line = context.Queue()
    process = context.Process(target=fill, args=(line, 400))
    process.start()
    got = b"".join(item for _, item in iter(line.get, None))
    process.join()
    return digest(got)


def echo(pipe: connection.Connection) -> None:
    """Until an empty message: a forked child has the other end, too, and so no end of file."""
    while data := pipe.recv_bytes():
        pipe.send_bytes(data)


def pipe(context) -> str:
    """Duplex pipes are socket pairs; the child's end is closed here."""
    near, far = context.Pipe()
    process = context.Process(target=echo, args=(far,))
    process.start()
    far.close()
    back = []
    for turn in range(200):
        near.send_bytes(bytes([turn]) * SIZES[turn % len(SIZES)])
        back.append(near.recv_bytes())
    near.send_bytes(b"")
    process.join()
    return f"{digest(b''.join(back))} {process.exitcode}"


def manager(context) -> str:
    """Its address is a path."""
    with context.Manager() as shared:
        numbers, names, lock = shared.list(), shared.dict(), shared.Lock()
        children = [context.Process(target=add, args=(numbers, names, lock, child)) for child in range(3)]
        for child in children:
            child.start()
        for child in children:
            child.join()
        return f"{sum(numbers)} {len(numbers)} {sorted(names.items())}"


def add(numbers, names, lock, child: int) -> None:
    for turn in range(60):
        with lock:
            numbers.append(turn)
            names[child] = names.get(child, 0) + turn


def listener(context, address: str) -> str:
    """Connections with a key, one of them handed on to a child; and one with a wrong key."""
    with connection.Listener(address, "AF_UNIX", backlog=8, authkey=AUTHKEY) as ear:
        children = [context.Process(target=call, args=(address, number)) for number in range(3)]
        for child in children:
            child.start()
        got = []
        for _ in children:
            accepted = ear.accept()
            number = accepted.recv()
            for turn in range(50):
                accepted.send_bytes(bytes([number]) * SIZES[turn % len(SIZES)])
                assert accepted.recv_bytes() == b"%d" % turn
            got.append(number)
            accepted.close()
        for child in children:
            child.join()
        liar = context.Process(target=lie, args=(address,))
        liar.start()
        try:
            ear.accept()
        except multiprocessing.AuthenticationError:
            got.append("refused")
        liar.join()
    return f"{sorted(map(str, got))} {[child.exitcode for child in children]} {liar.exitcode}"


def call(address: str, number: int) -> None:
    with connection.Client(address, authkey=AUTHKEY) as own:
        own.send(number)
        for turn in range(50):
            assert own.recv_bytes() == bytes([number]) * SIZES[turn % len(SIZES)]
            own.send_bytes(b"%d" % turn)


def lie(address: str) -> None:
    try:
        connection.Client(address, authkey=b"another")
    except multiprocessing.AuthenticationError:
        sys.exit(7)


def handed(context) -> str:
    """A connection whose first half one process has, and whose second another; and pipes that travel through pipes."""
    near, far = context.Pipe()
    process = context.Process(target=take, args=(far,))
    process.start()
    # Later than the child, which has so nothing of it but what it is given.
    here, there = socket.socketpair()
    sent = b"".join(bytes([turn]) * 999 for turn in range(100))
    here.sendall(sent)
    first = b""
    while len(first) < 50_000:
        first += there.recv(50_000 - len(first))
    reduction.send_handle(near, there.fileno(), process.pid)
    there.close()
    here.shutdown(socket.SHUT_WR)
    rest = b"".join(iter(lambda: here.recv(65536), b""))
    assert first + rest == sent, "the bytes of two holders"
    inner, outer = context.Pipe()
    near.send(outer)
    outer.close()
    answers = []
    for turn in range(40):
        inner.send(("through", turn))
        answers.append(inner.recv())
    inner.send(None)
    process.join()
    return f"{digest(rest)} {answers[-1]} {process.exitcode}"


def take(far: connection.Connection) -> None:
    with socket.socket(fileno=reduction.recv_handle(far)) as taken:
        while data := taken.recv(4096):
            taken.sendall(data)
    pipe = far.recv()
    while item := pipe.recv():
        pipe.send((item[0], item[1] + 1))


def rights() -> str:
    """Many descriptors by one message, amid bytes."""
    here, there = socket.socketpair()
    pipes = [os.pipe() for _ in range(50)]
    for number, (_, write) in enumerate(pipes):
        os.write(write, b"%d" % number)
    here.sendall(b"before" * 1000)
    socket.send_fds(here, [b"with"], [read for read, _ in pipes])
    here.sendall(b"after" * 1000)
    here.close()
    data, fds = b"", array.array("i")
    while True:
        piece, got, _, _ = socket.recv_fds(there, 5000, 60)
        if not piece:
            break
        fds.extend(got)
        data += piece
    return f"{digest(data)} {[os.read(fd, 9).decode() for fd in fds]}"


def main(method: str) -> None:
    context = multiprocessing.get_context(method)
    for way in (pool, queue, pipe, manager, handed):
        print(way.__name__, way(context), flush=True)
    for address in (f"\0{os.getpid()}-tests", "listener"):
        print("listener", address.lstrip("\0") == "listener", listener(context, address), flush=True)
    print("rights", rights(), flush=True)


if __name__ == "__main__":
    main(sys.argv[1])
