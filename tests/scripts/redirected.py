"""Two connections from one local port: one is led by the kernel's rules to the server that the other has called.

In a network namespace of its own. To the server the first looks as if it were the second."""
import os
import socket
import subprocess

CALLED, LED_TO, LOCAL, ROUNDS = 7001, 7002, 7003, 200
RULES = f"""table ip redirected {{
    chain output {{
        type nat hook output priority -100
        tcp dport {CALLED} redirect to :{LED_TO}
    }}
}}
"""


def serve(listener):
    ends = [listener.accept()[0] for _ in range(2)]
    for _ in range(ROUNDS):
        for end in ends:
            end.sendall(b"%s!" % end.recv(100))


def connect(port):
    end = socket.socket()
    end.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    end.settimeout(10)
    end.bind(("127.0.0.1", LOCAL))
    end.connect(("127.0.0.1", port))
    return end


subprocess.run(["ip", "link", "set", "lo", "up"], check=True)
subprocess.run(["nft", "-f", "-"], input=RULES, text=True, check=True)
listener = socket.create_server(("127.0.0.1", LED_TO))
if (server := os.fork()) == 0:
    serve(listener)
    os._exit(0)
listener.close()
ends = {b"redirected": connect(CALLED), b"direct": connect(LED_TO)}
for number in range(ROUNDS):
    for name, end in ends.items():
        text = b"%s %d" % (name, number)
        end.sendall(text)
        answer = end.recv(100)
        assert answer == text + b"!", (text, answer)
for end in ends.values():
    end.close()
assert os.waitpid(server, 0)[1] == 0
print("ok")
