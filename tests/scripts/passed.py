"""A connection that is passed on by SCM_RIGHTS: `serve KIND PORT` answers one in the ways below, `call PORT` talks to
it and checks every byte."""

import array
import os
import select
import signal
import socket
import sys

ROUNDS = 4000
STRANGER = "adopt"


def answer(sock, rounds=-1):
    """Sends back what comes; `rounds` messages, or all."""
    while rounds != 0:
        length = receive(sock, 4)
        if not length:
            return
        sock.sendall(receive(sock, int.from_bytes(length, "little")))
        rounds -= 1


def receive(sock, length):
    parts = b""
    while len(parts) < length:
        part = sock.recv(length - len(parts))
        if not part:
            return parts
        parts += part
    return parts


def give(channel, *socks):
    rights = array.array("i", [sock.fileno() for sock in socks])
    channel.sendmsg([b"x"], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, rights)])


def take(channel, flags=0, room=8):
    _, control, _, _ = channel.recvmsg(1, socket.CMSG_SPACE(room), flags)
    numbers = array.array("i")
    for _, _, data in control:
        numbers.frombytes(data[: len(data) - len(data) % numbers.itemsize])
    return [socket.socket(fileno=number) for number in numbers]


def child(work):
    """A child that was forked before the connection, and our end of a channel to it."""
    near, far = socket.socketpair()
    pid = os.fork()
    if pid == 0:
        near.close()
        work(far)
        sys.exit(0)
    far.close()
    return near, pid


def worker(channel):
    for sock in take(channel):
        answer(sock)


def succeeds(pid):
    _, status = os.waitpid(pid, 0)
    assert status == 0, status


def accept(listener):
    return listener.accept()[0]


def closed(listener, rounds=0):
    """The usual case: the master keeps nothing."""
    near, pid = child(worker)
    sock = accept(listener)
    answer(sock, rounds)
    give(near, sock)
    sock.close()
    succeeds(pid)


def later(listener):
    """It had rings before."""
    closed(listener, 300)


def held(listener):
    """The master has it until the end."""
    near, pid = child(worker)
    sock = accept(listener)
    give(near, sock)
    succeeds(pid)
    sock.close()


def duplicated(listener):
    """Under another number."""
    near, pid = child(worker)
    sock = accept(listener)
    other = sock.dup()
    give(near, sock)
    sock.close()
    succeeds(pid)
    other.close()


def onwards(listener):
    """From one worker to the next."""

    def first(channel):
        for sock in take(channel):
            answer(sock, 200)
            give(last, sock)
            sock.close()

    last, last_pid = child(worker)
    near, pid = child(first)
    last.close()
    sock = accept(listener)
    give(near, sock)
    sock.close()
    succeeds(pid)
    succeeds(last_pid)


def returned(listener):
    """The worker lets go of it, and the master goes on."""

    def first(channel):
        for sock in take(channel):
            answer(sock, 200)
            sock.close()
        channel.sendall(b"x")
        channel.recv(1)

    near, pid = child(first)
    sock = accept(listener)
    give(near, sock)
    assert near.recv(1) == b"x"
    answer(sock)
    near.close()
    succeeds(pid)


def refused(listener):
    """The channel is full at first."""

    begin, go = os.pipe()

    def late(channel):
        os.read(begin, 1)
        while channel.recv(65536)[-1:] != b"!":
            pass
        channel.sendall(b"x")
        worker(channel)

    near, pid = child(late)
    sock = accept(listener)
    near.setblocking(False)
    try:
        while True:
            near.send(b"x" * 4096)
    except BlockingIOError:
        pass
    for _ in range(3):
        try:
            give(near, sock)
            assert False
        except BlockingIOError:
            pass
    near.setblocking(True)
    os.write(go, b"x")
    near.sendall(b"!")
    assert near.recv(1) == b"x"
    give(near, sock)
    sock.close()
    succeeds(pid)


def looked_at(listener):
    """The worker has a copy from a look at the message."""

    def looks(channel):
        (copy,) = take(channel, socket.MSG_PEEK)
        worker(channel)
        copy.close()

    near, pid = child(looks)
    sock = accept(listener)
    give(near, sock)
    sock.close()
    succeeds(pid)


def twofold(listener):
    """Twice in one message."""
    near, pid = child(lambda channel: answer(take(channel)[0]))
    sock = accept(listener)
    give(near, sock, sock)
    sock.close()
    succeeds(pid)


def to_two(listener):
    """To two workers, of which one only holds it."""

    def holds(channel):
        socks = take(channel)
        channel.recv(1)
        del socks

    near, pid = child(worker)
    other, other_pid = child(holds)
    sock = accept(listener)
    give(other, sock)
    give(near, sock)
    sock.close()
    succeeds(pid)
    other.close()
    succeeds(other_pid)


def cut_off(listener):
    """The worker has no room for it, and the kernel closes its copy."""

    def has_no_room(channel):
        assert take(channel, 0, 0) == []
        channel.sendall(b"x")

    near, pid = child(has_no_room)
    sock = accept(listener)
    give(near, sock)
    assert near.recv(1) == b"x"
    succeeds(pid)
    answer(sock)


def by_stranger(listener):
    """Through a program without ulsock, which keeps a copy."""
    near, pid = child(worker)
    here, there = socket.socketpair()
    stranger = os.fork()
    if stranger == 0:
        here.close()
        numbers = [there.fileno(), near.fileno()]
        [os.set_inheritable(number, True) for number in numbers]
        environment = {name: value for name, value in os.environ.items() if name != "LD_PRELOAD"}
        words = [sys.executable, __file__, STRANGER, *map(str, numbers)]
        os.execve(sys.executable, words, environment)
    there.close()
    sock = accept(listener)
    give(here, sock)
    sock.close()
    succeeds(pid)
    here.close()
    succeeds(stranger)


def adopt(there, near):
    channel, onwards_to = (socket.socket(fileno=int(number)) for number in (there, near))
    (copy,) = take(channel)
    give(onwards_to, copy)
    channel.recv(1)
    copy.close()


def with_child(listener):
    """A child of the master has it too."""
    near, pid = child(worker)
    sock = accept(listener)
    give(near, sock)
    here, there = socket.socketpair()
    holder = os.fork()
    if holder == 0:
        here.close()
        there.recv(1)
        sys.exit(0)
    there.close()
    sock.close()
    succeeds(pid)
    here.close()
    succeeds(holder)


def with_program(listener):
    """A program that the master has started has it too."""
    near, pid = child(worker)
    sock = accept(listener)
    give(near, sock)
    here, there = socket.socketpair()
    program = os.posix_spawn(
        "/bin/cat", ["cat"], os.environ, file_actions=[(os.POSIX_SPAWN_DUP2, there.fileno(), 0),
                                                       (os.POSIX_SPAWN_DUP2, sock.fileno(), 9)]
    )
    there.close()
    sock.close()
    succeeds(pid)
    here.close()
    succeeds(program)


def watched(listener):
    """It stays in an epoll set of the master, which hears of every message before it is read."""
    messages = 100

    def waits(channel):
        for sock in take(channel):
            for _ in range(messages):
                assert channel.recv(1) == b"x"
                answer(sock, 1)
            answer(sock)

    near, pid = child(waits)
    sock = accept(listener)
    watch = select.epoll()
    watch.register(sock, select.EPOLLIN | select.EPOLLET)
    give(near, sock)
    sock.close()
    for _ in range(messages):
        assert watch.poll(60)
        near.sendall(b"x")
    succeeds(pid)


def killed(listener):
    """The master is gone before it can close anything."""
    near, pid = child(worker)
    master = os.fork()
    if master == 0:
        sock = accept(listener)
        give(near, sock)
        os.kill(os.getpid(), signal.SIGKILL)
    near.close()
    os.waitpid(master, 0)
    succeeds(pid)


def undone(listener):
    """The worker is gone before it takes it."""

    def dies(channel):
        select.select([channel], [], [])
        os.kill(os.getpid(), signal.SIGKILL)

    near, pid = child(dies)
    sock = accept(listener)
    give(near, sock)
    os.waitpid(pid, 0)
    near.close()
    answer(sock)


def call(port):
    with socket.create_connection(("127.0.0.1", port)) as sock:
        for number in range(ROUNDS):
            message = number.to_bytes(4, "little") * (1 + number * number % 97)
            sock.sendall(len(message).to_bytes(4, "little") + message)
            assert receive(sock, len(message)) == message, number
        sock.shutdown(socket.SHUT_WR)
        assert sock.recv(1) == b""
    print("ok")


def main():
    role, *words = sys.argv[1:]
    if role == STRANGER:
        adopt(*words)
    elif role == "call":
        call(int(words[0]))
    else:
        with socket.create_server(("127.0.0.1", int(words[1]))) as listener:
            globals()[words[0]](listener)


main()
