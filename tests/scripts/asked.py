"""A server that watches many connections, and its client, which gets each of them ready for the link while the server
does nothing with it:
asked.py serve PORT COUNT threads|poll|select|epoll|edge|sets
asked.py call HOST PORT COUNT [THREADS]"""

import select
import socket
import sys
import threading
import time

# Long enough for what daemons have to tell each other.
PAUSE = 0.3
SETS = 4
# Only the first one is answered.
QUESTION, REMARK = b"?", b"."


def watching(streams, way):
    """A function that gives the descriptors that can be read."""
    if way == "select":
        return lambda: select.select(streams, [], [])[0]
    if way == "poll":
        watch, events = select.poll(), select.POLLIN
    else:
        watch, events = select.epoll(), select.EPOLLIN | (select.EPOLLET if way == "edge" else 0)
    for stream in streams:
        watch.register(stream, events)
    return lambda: [number for number, _ in watch.poll()]


def answer(stream):
    """Takes a piece; whether there was one."""
    piece = stream.recv(100)
    if piece == QUESTION:
        stream.sendall(piece)
    return piece


def answer_all(stream):
    while answer(stream):
        pass


def answer_some(streams, way):
    ready = watching(list(streams), way)
    while all([answer(streams[number]) for number in ready()]):
        pass


def run_together(function, arguments):
    threads = [threading.Thread(target=function, args=each) for each in arguments]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


def serve(port, count, way):
    with socket.create_server(("::", int(port)), family=socket.AF_INET6, dualstack_ipv6=True) as listener:
        streams = {stream.fileno(): stream for stream in (listener.accept()[0] for _ in range(int(count)))}
    if way == "threads":
        run_together(answer_all, [[stream] for stream in streams.values()])
    elif way == "sets":
        # Some threads, each with a set of its own.
        numbers = list(streams)
        parts = [{number: streams[number] for number in numbers[first::SETS]} for first in range(SETS)]
        run_together(answer_some, [[part, "epoll"] for part in parts])
    else:
        answer_some(streams, way)


def ask(stream):
    stream.sendall(QUESTION)
    assert stream.recv(1) == QUESTION


def ask_each(streams):
    for stream in streams:
        ask(stream)


def call(host, port, count, threads="1"):
    first, *others = [socket.create_connection((host, int(port))) for _ in range(int(count))]
    # Both daemons are shown all of them.
    for stream in others:
        stream.sendall(REMARK)
    time.sleep(PAUSE)
    # Who has a call to make hears for all what they say.
    for _ in range(100):
        ask(first)
    # Twice, for a thread that slept in the kernel all the time has not heard of it.
    for _ in range(2):
        time.sleep(PAUSE)
        if threads == "1":
            ask_each(others)
        else:
            run_together(ask_each, [[others[number :: int(threads)]] for number in range(int(threads))])


{"serve": serve, "call": call}[sys.argv[1]](*sys.argv[2:])
