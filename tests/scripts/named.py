"""Talks to itself by TCP under a name of its own choice (hexadecimal bytes), says so, and waits for its input's end."""

import ctypes
import socket
import sys

PR_SET_NAME = 15

ctypes.CDLL(None).prctl(PR_SET_NAME, bytes.fromhex(sys.argv[1]), 0, 0, 0)
listener = socket.create_server(("127.0.0.1", 0))
near = socket.create_connection(listener.getsockname())
far, _ = listener.accept()
for _ in range(20):
    near.send(b"x")
    far.recv(1)
print("named", flush=True)
sys.stdin.read()
