"""Pretends to be the daemon of its network namespace: pretender.py RUN_DIR

Says "asked" for each program that comes, and "told KIND" for what that program says.
"""
import os, select, socket, struct, sys

SO_NETNS_COOKIE = 71

netns = struct.unpack("=Q", socket.socket().getsockopt(socket.SOL_SOCKET, SO_NETNS_COOKIE, 8))[0]
path = f"{sys.argv[1]}/nicd.{netns:016x}"
door = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
door.bind(path)
os.chmod(path, 0o666)
door.listen(8)
print("ready", flush=True)
channels = []
while True:
    for ready in select.select([door, *channels], [], [])[0]:
        if ready is door:
            channels.append(door.accept()[0])
            print("asked", flush=True)
            continue
        message = ready.recv(64)
        if message:
            print("told", struct.unpack_from("<H", message)[0], flush=True)
        else:
            channels.remove(ready)
