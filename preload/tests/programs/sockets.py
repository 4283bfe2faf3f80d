"""Every way to move bytes and fds over a socket; prints what a correct kernel does."""
import array
import os
import socket
import tempfile
import threading

listener = socket.create_server(("127.0.0.1", 0))
client = socket.create_connection(listener.getsockname())
server, peer = listener.accept()
print(peer == client.getsockname(), server.getpeername() == peer)


def pair(send, receive):
    send()
    return receive()


buffer = bytearray(16)
print(pair(lambda: client.send(b"send"), lambda: server.recv(99)))
print(pair(lambda: client.sendall(b"sendall"), lambda: server.recvfrom(99)[0]))
print(pair(lambda: os.write(client.fileno(), b"write"), lambda: os.read(server.fileno(), 99)))
print(pair(lambda: os.writev(client.fileno(), [b"wri", b"tev"]), lambda: os.readv(server.fileno(), [buffer])), bytes(buffer[:6]))
print(pair(lambda: client.sendmsg([b"send", b"msg"]), lambda: server.recvmsg(99)[0]))
print(pair(lambda: client.send(b"peek"), lambda: server.recv(2, socket.MSG_PEEK)), server.recv(99))
with tempfile.TemporaryFile() as file:
    file.write(b"sendfile")
    file.flush()
    print(os.sendfile(client.fileno(), file.fileno(), 0, 8), server.recv(99))

server.setblocking(False)
try:
    server.recv(1)
except BlockingIOError as error:
    print(error.errno)
server.setblocking(True)
server.settimeout(0.05)
try:
    server.recv(1)
except TimeoutError as error:
    print(type(error).__name__)
server.settimeout(None)

copy = os.dup(client.fileno())
os.dup2(copy, 100)
os.write(100, b"dup2")
os.close(100)
print(server.recv(99))
os.close(copy)
client.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
print(client.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY))

stream = server.makefile("rwb")
client.send(b"a line\n")
print(stream.readline())

left, right = socket.socketpair()
left.sendmsg([b"fd"], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", [client.fileno()]))])
data, control, _, _ = right.recvmsg(9, socket.CMSG_SPACE(4))
passed = socket.socket(fileno=array.array("i", control[0][2])[0])
passed.send(b"passed")
print(data, server.recv(99))
passed.close()

udp = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
udp.bind(("127.0.0.1", 0))
udp.sendto(b"datagram", udp.getsockname())
print(udp.recvfrom(99)[0])

six = socket.create_server(("::1", 0), family=socket.AF_INET6)
other = socket.create_connection(six.getsockname()[:2])
print(six.accept()[1] == other.getsockname())

reader = threading.Thread(target=lambda: print(server.recv(99)))
reader.start()
client.send(b"to a blocked reader")
reader.join()

client.shutdown(socket.SHUT_WR)
print(server.recv(99))
server.close()
stream.close()
print(client.recv(99))
try:
    socket.create_connection(("127.0.0.1", 1))
except ConnectionRefusedError as error:
    print(error.errno)
try:
    os.read(4000, 1)
except OSError as error:
    print(error.errno)
