"""Many threads wait for bytes on connections of a link, whose daemon takes no bells of theirs at that moment:
bells.py serve PORT COUNT
bells.py call HOST PORT COUNT recv|poll
The client says when its connections have been used, starts its threads when it is told to, says so, and asks for their
bytes when it is told to."""

import select
import socket
import sys
import threading
import time

# As many as can wait for one connection without the help of the kernel.
THREADS = 8
ROUNDS = 20
PASSES = 5
# Long enough for what daemons have to tell each other, and for threads to fall asleep.
PAUSE = 0.3
QUESTION, GO = b"?", b"!"


def answer(stream):
    while piece := stream.recv(1):
        stream.sendall(piece * THREADS if piece == GO else piece)


def serve(port, count):
    with socket.create_server(("::", int(port)), family=socket.AF_INET6, dualstack_ipv6=True) as listener:
        streams = [listener.accept()[0] for _ in range(int(count))]
    threads = [threading.Thread(target=answer, args=[stream]) for stream in streams]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


def ask(stream):
    for _ in range(ROUNDS):
        stream.sendall(QUESTION)
        assert stream.recv(1) == QUESTION


def wait_for_byte(stream, way):
    if way == "poll":
        watch = select.poll()
        watch.register(stream, select.POLLIN)
        assert watch.poll()
    assert stream.recv(1) == GO


def call(host, port, count, way):
    streams = [socket.create_connection((host, int(port))) for _ in range(int(count))]
    for _ in range(PASSES):
        for stream in streams:
            ask(stream)
        time.sleep(PAUSE)
    print("used", flush=True)
    sys.stdin.readline()
    each = [stream for stream in streams for _ in range(THREADS)]
    threads = [threading.Thread(target=wait_for_byte, args=[stream, way]) for stream in each]
    for thread in threads:
        thread.start()
    time.sleep(PAUSE)
    print("asleep", flush=True)
    sys.stdin.readline()
    for stream in streams:
        stream.sendall(GO)
    for thread in threads:
        thread.join()


{"serve": serve, "call": call}[sys.argv[1]](*sys.argv[2:])
