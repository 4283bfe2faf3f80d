# A client that goes through fork and exec with its connection. Each line on its standard input is a step:
#   speak   some hundred messages, each of which must come back as it was sent
#   fork    a child goes on with the connection; the parent waits for it
#   exec    this program becomes itself anew, with the connection
# Every step is acknowledged by its name.
import os
import random
import socket
import sys

ROUNDS = 600


def word():
    line = b""
    while not line.endswith(b"\n"):
        byte = os.read(0, 1)
        if not byte:
            return None
        line += byte
    return line.decode().strip()


def speak(connection):
    for _ in range(ROUNDS):
        message = os.urandom(random.randint(1, 3000))
        connection.sendall(message)
        answer = b""
        while len(answer) < len(message):
            more = connection.recv(len(message) - len(answer))
            assert more, "the end of the stream"
            answer += more
        assert answer == message, "another answer"


port = sys.argv[1]
if len(sys.argv) > 2:
    connection = socket.socket(fileno=int(sys.argv[2]))
    print("exec", flush=True)
else:
    connection = socket.create_connection(("127.0.0.1", int(port)))
while (step := word()) is not None:
    if step == "speak":
        speak(connection)
    elif step == "fork":
        child = os.fork()
        if child:
            connection.close()
            sys.exit(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
    elif step == "exec":
        connection.set_inheritable(True)
        script = os.path.abspath(sys.argv[0])
        os.execv(sys.executable, [sys.executable, script, port, str(connection.fileno())])
    print(step, flush=True)
