"""Handlers, EINTR, restart and masks."""
import os
import signal
import socket
import threading
import time

seen = []
print(signal.signal(signal.SIGUSR1, lambda number, frame: seen.append(number)))
left, right = socket.socketpair()


def later(*actions):
    def run():
        for action in actions:
            time.sleep(0.1)
            action()

    threading.Thread(target=run).start()


later(lambda: os.kill(os.getpid(), signal.SIGUSR1), lambda: left.send(b"after the signal"))
print(right.recv(99), seen)


class Interrupted(Exception):
    pass


def interrupt(number, frame):
    raise Interrupted


signal.signal(signal.SIGALRM, interrupt)
signal.setitimer(signal.ITIMER_REAL, 0.1)
try:
    right.recv(1)
except Interrupted:
    print("interrupted")
signal.siginterrupt(signal.SIGALRM, False)
print(signal.getsignal(signal.SIGALRM) is interrupt, signal.getsignal(signal.SIGINT) is signal.default_int_handler)
signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGUSR1])
os.kill(os.getpid(), signal.SIGUSR1)
print(signal.sigpending(), signal.sigwait([signal.SIGUSR1]), len(seen))
try:
    signal.signal(signal.SIGKILL, signal.SIG_IGN)
except OSError as error:
    print(error.errno)
signal.signal(signal.SIGTERM, signal.SIG_DFL)
print("last", flush=True)
os.kill(os.getpid(), signal.SIGTERM)
