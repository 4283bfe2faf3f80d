"""poll, select and epoll over sockets and pipes, with and without timeouts."""
import select
import socket
import threading
import time

listener = socket.create_server(("127.0.0.1", 0))
client = socket.create_connection(listener.getsockname())
server, _ = listener.accept()


def timed(wait):
    start = time.monotonic()
    events = wait()
    return events, round(time.monotonic() - start, 1) >= 0.1


poll = select.poll()
poll.register(server, select.POLLIN)
epoll = select.epoll()
epoll.register(server, select.EPOLLIN)
waits = {
    "poll": (lambda: bool(poll.poll(100)), lambda: bool(poll.poll())),
    "select": (lambda: any(select.select([server], [], [], 0.1)), lambda: any(select.select([server], [], []))),
    "epoll": (lambda: bool(epoll.poll(0.1)), lambda: bool(epoll.poll())),
}
for name, (until, forever) in waits.items():
    print(name, timed(until))
    threading.Timer(0.1, lambda: client.send(b"x")).start()
    print(name, timed(forever), server.recv(9))

epoll.modify(server, select.EPOLLIN | select.EPOLLET)
client.send(b"edge")
print(len(epoll.poll(1)), len(epoll.poll(0)))
epoll.unregister(server)
print(epoll.poll(0))
print(select.select([server], [client], [], 0)[0] == [server])
try:
    select.select([server], [], [], -1)
except ValueError as error:
    print(error)
client.close()
print(server.recv(9), poll.poll(0)[0][1] & select.POLLIN, server.recv(9))
