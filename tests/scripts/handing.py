"""Python's ways to hand a connection from one process to another: `serve KIND PORT` until SIGTERM, and
`call KIND PORT`, which checks every byte and prints "ok"."""

import array
import concurrent.futures
import multiprocessing
import os
import random
import signal
import socket
import socketserver
import subprocess
import sys
from multiprocessing import connection, managers, reduction

CONNECTIONS = 6
ROUNDS = 60
SIZES = [1, 10, 100, 1000, 10_000, 200_000]
# A server answers so much before it hands over: often in the middle of a message.
BEFORE = 12
AUTHKEY = b"key"
WORKERS = 3


def echo(sock: socket.socket, times: int = -1) -> bool:
    """Answers `times` reads, or until the end; whether there is more to come."""
    while times != 0:
        data = sock.recv(65536)
        if not data:
            sock.close()
            return False
        sock.sendall(data)
        times -= 1
    return True


def listen(port: int) -> socket.socket:
    return socket.create_server(("127.0.0.1", port))


def accept_forever(listener: socket.socket):
    while True:
        yield listener.accept()[0]


def forking(port: int) -> None:
    """A child for each connection."""

    class Handler(socketserver.BaseRequestHandler):
        def handle(self) -> None:
            echo(self.request)

    class Server(socketserver.ForkingTCPServer):
        allow_reuse_address = True

    Server(("127.0.0.1", port), Handler).serve_forever(0.01)


def prefork(port: int) -> None:
    """Children accept from one listening socket, the parent does nothing."""
    listener = listen(port)
    for _ in range(WORKERS):
        multiprocessing.Process(target=lambda: [echo(sock) for sock in accept_forever(listener)], daemon=True).start()
    signal.pause()


def handles(port: int) -> None:
    """send_handle to children that were forked before, one connection each at a time."""

    def child(pipe: connection.Connection) -> None:
        while True:
            with socket.socket(fileno=reduction.recv_handle(pipe)) as sock:
                echo(sock)

    pipes = []
    for _ in range(WORKERS * 2):
        near, far = multiprocessing.Pipe()
        process = multiprocessing.Process(target=child, args=(far,), daemon=True)
        process.start()
        pipes.append((near, process.pid))
    for number, sock in enumerate(accept_forever(listen(port))):
        near, pid = pipes[number % len(pipes)]
        if echo(sock, BEFORE):
            reduction.send_handle(near, sock.fileno(), pid)
            sock.close()


def pool(port: int) -> None:
    """Sockets as arguments of tasks: pickled, fetched over a Unix socket."""
    with concurrent.futures.ProcessPoolExecutor(CONNECTIONS) as executor:
        # The pool's processes start now, without copies of later connections.
        list(executor.map(abs, range(CONNECTIONS * 4)))
        for sock in accept_forever(listen(port)):
            executor.submit(echo, sock)
            # The pool's own reference goes with the task, which ends before its client does.
            del sock


def threads(port: int) -> None:
    """concurrent.futures with threads."""
    with concurrent.futures.ThreadPoolExecutor(CONNECTIONS) as executor:
        for sock in accept_forever(listen(port)):
            executor.submit(echo, sock)


def inherited(fd: int) -> None:
    """The listening socket is there already, at this number."""
    with concurrent.futures.ThreadPoolExecutor(CONNECTIONS) as executor:
        for sock in accept_forever(socket.socket(fileno=fd)):
            executor.submit(echo, sock)


def strangers(port: int) -> None:
    """SCM_RIGHTS to other programs, every second one of them without ulsock."""
    alone = {name: value for name, value in os.environ.items() if name != "LD_PRELOAD"}
    for number, sock in enumerate(accept_forever(listen(port))):
        if not echo(sock, BEFORE):
            continue
        near, far = socket.socketpair()
        words = [sys.executable, __file__, "adopt", str(far.fileno())]
        environment = alone if number % 2 else None
        subprocess.Popen(words, pass_fds=[far.fileno()], env=environment)
        rights = array.array("i", [sock.fileno()])
        near.sendmsg([b"x"], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, rights)])
        for one in (sock, near, far):
            one.close()


def adopt(fd: int) -> None:
    with socket.socket(fileno=fd) as channel:
        _, ancillary, _, _ = channel.recvmsg(1, socket.CMSG_SPACE(4))
    with socket.socket(fileno=array.array("i", ancillary[0][2])[0]) as sock:
        echo(sock)


def inetd(port: int) -> None:
    """Becomes another program with the connection as its standard input and output."""
    alone = {name: value for name, value in os.environ.items() if name != "LD_PRELOAD"}
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    for number, sock in enumerate(accept_forever(listen(port))):
        if not echo(sock, BEFORE):
            continue
        if os.fork() == 0:
            os.dup2(sock.fileno(), 0)
            os.dup2(sock.fileno(), 1)
            os.execvpe("cat", ["cat"], alone if number % 2 else os.environ)
        sock.close()


def spawned(port: int) -> None:
    """subprocess with the connection as standard input and output."""
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    for sock in accept_forever(listen(port)):
        if echo(sock, BEFORE):
            subprocess.Popen(["cat"], stdin=sock, stdout=sock)
            sock.close()


def listener(port: int) -> None:
    """multiprocessing's own connections, each served by a child that is forked for it."""

    def child(conn: connection.Connection) -> None:
        try:
            while True:
                conn.send(conn.recv())
        except EOFError:
            conn.close()

    with connection.Listener(("127.0.0.1", port), backlog=64, authkey=AUTHKEY) as source:
        while True:
            conn = source.accept()
            multiprocessing.Process(target=child, args=(conn,), daemon=True).start()
            conn.close()


class Shelf(managers.BaseManager):
    pass


def manager(port: int) -> None:
    """A manager's objects, shared by clients in several processes."""
    content: dict = {}
    Shelf.register("content", callable=lambda: content, exposed=["__getitem__", "__setitem__", "__len__"])
    Shelf(("127.0.0.1", port), AUTHKEY).get_server().serve_forever()


def messages(number: int):
    chance = random.Random(number)
    for _ in range(ROUNDS):
        yield chance.randbytes(chance.choice(SIZES))


def call_echo(port: int, number: int) -> None:
    with socket.create_connection(("127.0.0.1", port)) as sock:
        for message in messages(number):
            sock.sendall(message)
            answer = b""
            while len(answer) < len(message):
                part = sock.recv(len(message) - len(answer))
                assert part, f"connection {number} ended"
                answer += part
            assert answer == message, f"connection {number}"
        sock.shutdown(socket.SHUT_WR)
        assert sock.recv(1) == b""


def call_listener(port: int, number: int) -> None:
    with connection.Client(("127.0.0.1", port), authkey=AUTHKEY) as conn:
        for message in messages(number):
            conn.send((number, message))
            assert conn.recv() == (number, message)


def call_manager(port: int, number: int) -> None:
    Shelf.register("content", exposed=["__getitem__", "__setitem__", "__len__"])
    shelf = Shelf(("127.0.0.1", port), AUTHKEY)
    shelf.connect()
    content = shelf.content()
    for turn, message in enumerate(messages(number)):
        content.__setitem__((number, turn), message)
        assert content.__getitem__((number, turn)) == message
    assert content.__len__() >= ROUNDS


def call(kind: str, port: int) -> None:
    one = {"listener": call_listener, "manager": call_manager}.get(kind, call_echo)
    with concurrent.futures.ThreadPoolExecutor(CONNECTIONS) as executor:
        list(executor.map(lambda number: one(port, number), range(CONNECTIONS)))
    child = multiprocessing.Process(target=one, args=(port, CONNECTIONS))
    child.start()
    child.join()
    assert child.exitcode == 0
    print("ok")


def main() -> None:
    role, *words = sys.argv[1:]
    if role == "adopt":
        adopt(int(words[0]))
    elif role == "call":
        call(words[0], int(words[1]))
    else:
        signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
        globals()[words[0]](int(words[1]))


main()
