"""What web servers on Unix sockets serve, for WSGI (`app`) and ASGI (`asgi`), or by themselves: `web_app.py PATH` is an
HTTP server at PATH, or at an abstract name after an `@`.

GET /sized/N gives N bytes with their length, /chunked/N without it; POST /echo gives the body back; /error raises, /kill
kills the process before it answers and /half amid its answer."""

import http.server
import os
import signal
import socketserver
import sys

PIECE = 30_000


def content(length: int) -> bytes:
    pattern = bytes((7 * number + number // 256) % 256 for number in range(4096))
    return (pattern * (length // len(pattern) + 1))[:length]


def pieces(length: int):
    whole = content(length)
    return (whole[at : at + PIECE] for at in range(0, length, PIECE))


def die() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def route(path: str) -> tuple[str, int]:
    words = path.strip("/").split("/")
    return words[0], int(words[1]) if len(words) > 1 else 0


def app(environ, start_response):
    kind, length = route(environ["PATH_INFO"])
    body = environ["wsgi.input"].read() if environ["REQUEST_METHOD"] == "POST" else content(length)
    headers = [] if kind == "chunked" else [("Content-Length", str(len(body)))]
    if kind == "error":
        raise ValueError("asked to")
    if kind == "kill":
        die()
    start_response("200 OK", headers)
    if kind == "half":
        return half(body)
    return pieces(length) if kind == "chunked" else [body]


def half(body: bytes):
    yield body[: len(body) // 2]
    die()


async def asgi(scope, receive, send):
    if scope["type"] != "http":
        return
    kind, length = route(scope["path"])
    body, more = b"", True
    while more:
        event = await receive()
        body += event.get("body", b"")
        more = event.get("more_body", False)
    if kind == "error":
        raise ValueError("asked to")
    if kind == "kill":
        die()
    body = body if scope["method"] == "POST" else content(length)
    headers = [] if kind == "chunked" else [(b"content-length", str(len(body)).encode())]
    await send({"type": "http.response.start", "status": 200, "headers": headers})
    if kind == "half":
        await send({"type": "http.response.body", "body": body[: len(body) // 2], "more_body": True})
        die()
    if kind == "chunked":
        for piece in pieces(length):
            await send({"type": "http.response.body", "body": piece, "more_body": True})
        body = b""
    await send({"type": "http.response.body", "body": body})


class Handler(http.server.BaseHTTPRequestHandler):
    """The same without a framework."""

    protocol_version = "HTTP/1.1"

    def log_message(self, *_) -> None:
        pass

    def address_string(self) -> str:
        return "unix"

    def do_GET(self) -> None:
        kind, length = route(self.path)
        self.answer(kind, content(length))

    def do_POST(self) -> None:
        self.answer("sized", self.rfile.read(int(self.headers["Content-Length"])))

    do_PUT = do_POST

    def answer(self, kind: str, body: bytes) -> None:
        if kind == "error":
            self.send_error(500)
            return
        self.send_response(200)
        if kind == "chunked":
            self.send_header("Transfer-Encoding", "chunked")
            self.end_headers()
            for piece in pieces(len(body)):
                self.wfile.write(b"%x\r\n%s\r\n" % (len(piece), piece))
            self.wfile.write(b"0\r\n\r\n")
            return
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)


class Server(socketserver.ThreadingUnixStreamServer):
    daemon_threads = True
    request_queue_size = 64


if __name__ == "__main__":
    name = sys.argv[1]
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
    # Proxies under other users connect, too.
    os.umask(0)
    server = Server("\0" + name[1:] if name[0] == "@" else name, Handler)
    server.serve_forever(0.05)
