"""One thread waits in its first receive from before the connection has rings, while another one sends a stream. The answer
comes when all of it has arrived."""
import socket
import threading
import time

STREAM, PIECE = 64_000_000, 8_000
ANSWER = bytes(range(250)) * 4_000


def serve(listener):
    end, _ = listener.accept()
    left = STREAM
    while left:
        left -= len(end.recv(min(left, 65536)))
    end.sendall(ANSWER)
    end.shutdown(socket.SHUT_WR)


def read(end, into):
    while part := end.recv(65536):
        into.extend(part)


def main():
    listener = socket.create_server(("127.0.0.1", 0))
    server = threading.Thread(target=serve, args=[listener])
    server.start()
    end = socket.create_connection(listener.getsockname())
    end.settimeout(None)
    got = bytearray()
    reader = threading.Thread(target=read, args=[end, got], daemon=True)
    reader.start()
    time.sleep(0.1)
    for _ in range(STREAM // PIECE):
        end.sendall(bytes(PIECE))
    reader.join(20)
    assert not reader.is_alive(), f"{len(got)} bytes of the answer, and no end"
    assert got == ANSWER, f"{len(got)} bytes of the answer, not as they were sent"
    print("ok")


main()
