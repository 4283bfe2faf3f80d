"""What keeps a connection between two hosts from the link:
proposals.py serve PORT answer|talk|listen
proposals.py call HOST PORT bulk|talk|stream"""

import select
import socket
import sys
import time

# Larger than what goes by the link.
BULK = bytes(64 << 10)
# Long enough for what daemons have to tell each other, in seconds.
LONG = 1.0
# A word every millisecond.
WORDS, WORD = 1500, b"monologue"


def receive(stream, count):
    received = bytearray()
    while len(received) < count:
        piece = stream.recv(count - len(received))
        assert piece, "the end"
        received += piece
    return bytes(received)


def answer(stream):
    """One byte for each message, whatever its size: its first bytes say that."""
    while head := stream.recv(4, socket.MSG_WAITALL):
        receive(stream, int.from_bytes(head, "big"))
        stream.sendall(b"!")


def talk(stream):
    """Does not listen before all is said: the other end never finds it where both stand."""
    for _ in range(WORDS):
        stream.sendall(WORD)
        time.sleep(0.001)
    assert receive(stream, WORDS) == b"?" * WORDS


def listen(stream):
    """Every word of a stream, and nothing is answered."""
    received = b""
    while piece := stream.recv(1 << 16):
        received += piece
        whole = len(received) // len(WORD)
        assert received.startswith(WORD * whole), "another word"
        received = received[whole * len(WORD):]
    assert not received, "half a word"


def stream_words(stream):
    """A word every fifth of a millisecond, until told to stop; never reads."""
    while not select.select([sys.stdin], [], [], 0.0002)[0]:
        stream.sendall(WORD)


def serve(port, way):
    with socket.create_server(("::", int(port)), family=socket.AF_INET6, dualstack_ipv6=True) as listener:
        stream = listener.accept()[0]
    {"answer": answer, "talk": talk, "listen": listen}[way](stream)


def ask(stream, message):
    stream.sendall(len(message).to_bytes(4, "big") + message)
    assert receive(stream, 1) == b"!"


def ask_for_long(stream, message):
    end = time.monotonic() + LONG
    while time.monotonic() < end:
        ask(stream, message)


def call(host, port, way):
    with socket.create_connection((host, int(port))) as stream:
        if way == "bulk":
            ask_for_long(stream, BULK)
            print("bulk", flush=True)
            if sys.stdin.readline() == "less\n":
                ask_for_long(stream, b".")
            return
        if way == "stream":
            stream_words(stream)
            return
        start = time.monotonic()
        for _ in range(WORDS):
            stream.sendall(b"?")
            assert receive(stream, len(WORD)) == WORD
        print(round(1000 * (time.monotonic() - start)))


{"serve": serve, "call": call}[sys.argv[1]](*sys.argv[2:])
