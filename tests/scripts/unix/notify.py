"""The sockets that stay on the kernel: systemd's notifications, which are datagrams with credentials, and pairs of datagram and
sequenced packet sockets. Prints what was received."""

import array
import os
import socket
import struct
import subprocess

STATES = ["--ready", "--status=working", "--ready --status=done WATCHDOG=1"]


def notified(name: str) -> None:
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as ear:
        ear.setsockopt(socket.SOL_SOCKET, socket.SO_PASSCRED, 1)
        ear.settimeout(10)
        ear.bind("\0" + name[1:] if name[0] == "@" else name)
        for state in STATES:
            child = subprocess.Popen(["systemd-notify", *state.split()], env=os.environ | {"NOTIFY_SOCKET": name})
            # It waits until the descriptor that comes with its second message is closed.
            for _ in range(2):
                data, control, _, _ = ear.recvmsg(4096, 1024)
                told = {kind: value for _, kind, value in control}
                for fd in array.array("i", told.get(socket.SCM_RIGHTS, b"")):
                    os.close(fd)
                pid, uid, _ = struct.unpack("3i", told[socket.SCM_CREDENTIALS])
                # The command speaks for the one that has started it.
                print(name[0], data, pid in (child.pid, os.getpid()), uid == os.getuid())
            print(child.wait())


def pairs(kind: int) -> None:
    here, there = socket.socketpair(socket.AF_UNIX, kind)
    for length in range(0, 30_000, 500):
        there.send(bytes([length % 256]) * (length + 1))
        data = here.recv(length // 2 + 1)
        assert data == bytes([length % 256]) * (length // 2 + 1), "the rest of a message is gone"
        socket.send_fds(here, [b"%d" % length], [0])
        data, fds, _, _ = socket.recv_fds(there, 100, 3)
        assert data == b"%d" % length and len(fds) == 1
        os.close(fds[0])
    print(socket.SocketKind(kind).name)


notified(os.path.abspath("notify"))
notified(f"@tests-{os.getpid()}")
pairs(socket.SOCK_DGRAM)
pairs(socket.SOCK_SEQPACKET)
