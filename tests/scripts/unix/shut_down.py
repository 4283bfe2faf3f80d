"""A send sleeps for room; the other end shuts down what it receives, or both ways, or closes: how the send ends."""
import os
import signal
import socket
import time

signal.signal(signal.SIGPIPE, signal.SIG_IGN)


def send_until_it_fails(end):
    try:
        while True:
            end.sendall(bytes(100_000))
    except OSError as error:
        print(type(error).__name__, flush=True)


def sleeps(pid):
    with open(f"/proc/{pid}/stat") as file:
        return file.read().rsplit(")", 1)[1].split()[0] == "S"


def wait_until_it_sleeps(pid):
    asleep = 0
    while asleep < 20:
        asleep = asleep + 1 if sleeps(pid) else 0
        time.sleep(0.005)


def run(ending):
    ours, theirs = socket.socketpair()
    pid = os.fork()
    if pid == 0:
        ours.close()
        for turn in range(2000):
            theirs.sendall(b"ping")
            theirs.recv(4)
        send_until_it_fails(theirs)
        os._exit(0)
    theirs.close()
    for turn in range(2000):
        ours.recv(4)
        ours.sendall(b"pong")
    wait_until_it_sleeps(pid)
    ending(ours)
    os.waitpid(pid, 0)
    ours.close()


run(lambda end: end.shutdown(socket.SHUT_RD))
run(lambda end: end.shutdown(socket.SHUT_RDWR))
run(lambda end: end.close())
