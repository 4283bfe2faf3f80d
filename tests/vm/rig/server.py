"""An ivshmem server: gives every machine the same memory and everybody's doorbells.

The protocol is QEMU's (docs/specs/ivshmem-spec.rst): numbers of 8 bytes over a Unix socket, some with
a descriptor. No number is ever used again: QEMU 7.2 has freed what it kept for it."""

import os
import selectors
import socket
import struct
import threading

VERSION = 0
VECTORS = 1
MEMORY = -1


def send(peer, number, fd=None):
    fds = [] if fd is None else [fd]
    socket.send_fds(peer, [struct.pack("<q", number)], fds)


def has_ended(peer):
    try:
        return not peer.recv(8)
    except ConnectionResetError:
        # It was killed with something unread.
        return True


class Server(threading.Thread):
    def __init__(self, path, size):
        super().__init__(daemon=True)
        self.memory = os.memfd_create("ivshmem")
        os.ftruncate(self.memory, size)
        self.listener = socket.socket(socket.AF_UNIX)
        self.listener.bind(str(path))
        self.listener.listen()
        self.wake, self.woken = socket.socketpair()
        self.peers = {}
        self.next = 0
        self.start()

    def join_peer(self, peer):
        number, self.next = self.next, self.next + 1
        bells = [os.eventfd(0, os.EFD_NONBLOCK) for _ in range(VECTORS)]
        send(peer, VERSION)
        send(peer, number)
        send(peer, MEMORY, self.memory)
        for other, (other_peer, other_bells) in self.peers.items():
            for bell in bells:
                send(other_peer, number, bell)
            for bell in other_bells:
                send(peer, other, bell)
        for bell in bells:
            send(peer, number, bell)
        self.peers[number] = (peer, bells)
        return number

    def drop(self, number):
        peer, bells = self.peers.pop(number)
        peer.close()
        for bell in bells:
            os.close(bell)
        for other, _ in self.peers.values():
            try:
                send(other, number)
            except OSError:
                # It is about to be dropped as well.
                pass

    def run(self):
        waiting = selectors.DefaultSelector()
        waiting.register(self.listener, selectors.EVENT_READ)
        waiting.register(self.woken, selectors.EVENT_READ)
        while True:
            for key, _ in waiting.select():
                if key.fileobj is self.woken:
                    return
                if key.fileobj is self.listener:
                    peer, _ = self.listener.accept()
                    waiting.register(peer, selectors.EVENT_READ, self.join_peer(peer))
                elif has_ended(key.fileobj):
                    waiting.unregister(key.fileobj)
                    self.drop(key.data)

    def stop(self):
        self.wake.close()
        self.join()
        self.listener.close()
        for number in list(self.peers):
            self.drop(number)
        os.close(self.memory)
