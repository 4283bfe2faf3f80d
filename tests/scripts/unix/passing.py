"""Descriptors and credentials amid the bytes of a connection: `passing.py serve PATH WHAT` and `passing.py call PATH WHAT` with
"descriptors" or "credentials", which has both. Each end sends and demands that what belongs to a message comes with the
message's first byte, as unix(7) says. Long runs of bytes without control data lie between, so that a connection leaves the kernel and comes back
again and again."""

import array
import os
import random
import socket
import struct
import sys
import threading

MESSAGES = 60
PLAIN = [1, 100, 4000, 70_000]
CREDENTIALS = struct.Struct("3i")
PATIENCE = 20


SEED = 5
CONNECTIONS = 3
with_credentials = sys.argv[3] == "credentials"


def plan(seed: int) -> list[tuple[int, int, bool]]:
    """Messages: bytes, descriptors, and whether it says who sends."""
    chance = random.Random(seed)
    messages = []
    for _ in range(MESSAGES):
        messages += [(chance.choice(PLAIN), 0, False) for _ in range(chance.randrange(30))]
        messages.append((chance.choice([1, 5, 3000]), chance.randrange(4), with_credentials and chance.random() < 0.3))
    return messages


# Repeats itself after a number of bytes that divides nothing else here.
PERIOD = 7 * 256
PATTERN = bytes(number * 131 // 7 % 256 for number in range(PERIOD)) * 100


def content(at: int, length: int) -> bytes:
    return PATTERN[at % PERIOD :][:length]


def send(sock: socket.socket, seed: int) -> None:
    at = 0
    for number, (length, count, says) in enumerate(plan(seed)):
        data = content(at, length)
        at += length
        control = []
        pipes = [os.pipe() for _ in range(count)]
        for order, (_, write) in enumerate(pipes):
            os.write(write, b"%d.%d" % (number, order))
            os.close(write)
        if count:
            control.append((socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", [read for read, _ in pipes])))
        if says:
            own = CREDENTIALS.pack(os.getpid(), os.getuid(), os.getgid())
            control.append((socket.SOL_SOCKET, socket.SCM_CREDENTIALS, own))
        sent = sock.sendmsg([data], control)
        sock.sendall(data[sent:])
        for read, _ in pipes:
            os.close(read)
    sock.shutdown(socket.SHUT_WR)


def receive(sock: socket.socket, seed: int, peer: int) -> str:
    chance = random.Random(~seed)
    messages, starts, at = plan(seed), [], 0
    for length, _, _ in messages:
        starts.append(at)
        at += length
    total, position, given, said = at, 0, 0, 0
    expected = [(start, number) for number, start in enumerate(starts) if messages[number][1]]
    while True:
        most = chance.choice([1, 50, 5000, 100_000])
        data, control, flags, _ = sock.recvmsg(most, 4096)
        assert not flags & socket.MSG_CTRUNC, "control data was cut"
        if not data:
            break
        assert data == content(position, len(data)), f"other bytes at {position}"
        fds = []
        for level, kind, value in control:
            if kind == socket.SCM_RIGHTS:
                fds = list(array.array("i", value))
            else:
                pid, uid, _ = CREDENTIALS.unpack(value)
                assert (level, kind) == (socket.SOL_SOCKET, socket.SCM_CREDENTIALS)
                # The kernel's own notes are of the same sender.
                assert (pid, uid) == (peer, os.getuid()), f"{pid} {uid} at {position}"
                said += 1
        inside = [number for start, number in expected if position <= start < position + len(data)]
        position += len(data)
        assert len(inside) <= 1, "descriptors of two messages at once"
        wanted = [b"%d.%d" % (number, order) for number in inside for order in range(messages[number][1])]
        assert [os.read(fd, 20) for fd in fds] == wanted, f"before {position}"
        for fd in fds:
            os.close(fd)
        given += len(fds)
    assert position == total
    assert bool(said) == with_credentials, f"{said} have said who they are"
    return f"{total} bytes, {given} descriptors"


def both(sock: socket.socket, own: int, other: int) -> None:
    """Sends by one plan and receives by the other."""
    sock.settimeout(PATIENCE)
    # Each knows the other's number before; SO_PEERCRED would be the listener's.
    sock.sendall(struct.pack("i", os.getpid()))
    peer = struct.unpack("i", sock.recv(4, socket.MSG_WAITALL))[0]
    sender = threading.Thread(target=send, args=(sock, own), daemon=True)
    sender.start()
    print(receive(sock, other, peer), flush=True)
    sender.join(PATIENCE)
    sock.close()


def unix() -> socket.socket:
    """Has to be asked for credentials before the peer sends: what was sent before has none."""
    sock = socket.socket(socket.AF_UNIX)
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_PASSCRED, with_credentials)
    return sock


def main(role: str, path: str, _: str) -> None:
    ear = unix()
    if role == "serve":
        ear.bind(path)
        ear.listen()
    for seed in range(SEED, SEED + CONNECTIONS):
        if role == "serve":
            both(ear.accept()[0], seed, -seed)
        else:
            sock = unix()
            sock.connect(path)
            both(sock, -seed, seed)


main(*sys.argv[1:])
