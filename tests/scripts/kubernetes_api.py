"""A small API server of Kubernetes, by HTTPS: lists and watches nodes as the real one does, as far as
docs.kubernetes.io/docs/reference/using-api/api-concepts describes it, with pages, bookmarks and 410 Gone.

Arguments: address, port, certificate, key, token, file of the nodes. That file is JSON: {name: annotation or null}; a
change of it is a new version of the nodes. SIGUSR1: what was before is forgotten. SIGUSR2: it answers with errors, or again
well. SIGHUP: the list is empty JSON, or again a list."""

import http.server
import json
import os
import signal
import ssl
import sys
import threading
import time
import urllib.parse

address, port, certificate, key, token, file = sys.argv[1:7]
state = threading.Condition()
version = 1000
oldest = 0
nodes = {}
events = []  # (version, type, object)
snapshots = {}  # the nodes of each version that was listed
fails = False
nonsense = False
asked = []  # what signals have asked for; `follow` does it, because a handler may not wait for the lock


def node(name, annotation, at):
    metadata = {"name": name, "resourceVersion": str(at)}
    if annotation is not None:
        metadata["annotations"] = {"ulsock/peer": annotation, "other": "x"}
    return {"kind": "Node", "metadata": metadata, "status": {"addresses": []}}


def follow():
    global version
    while True:
        try:
            with open(file) as opened:
                wanted = json.load(opened)
        except (OSError, ValueError):
            wanted = nodes
        with state:
            while asked:
                asked.pop(0)()
            for name in sorted(set(nodes) | set(wanted)):
                if name in nodes and name in wanted and nodes[name] == wanted[name]:
                    continue
                version += 1
                kind = "DELETED" if name not in wanted else "MODIFIED" if name in nodes else "ADDED"
                annotation = wanted.get(name, nodes.get(name))
                events.append((version, kind, node(name, annotation, version)))
            nodes.clear()
            nodes.update(wanted)
            state.notify_all()
        time.sleep(0.02)


def forget():
    global oldest, version
    version += 10
    oldest = version
    events.clear()
    print("forgotten", flush=True)


def fail():
    global fails
    fails = not fails
    print("fails", fails, flush=True)


def talk_nonsense():
    global nonsense
    nonsense = not nonsense
    print("nonsense", nonsense, flush=True)


class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def log_message(self, *_):
        pass

    def answer(self, status, value):
        body = json.dumps(value).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def status(self, code, message):
        self.answer(code, {"kind": "Status", "status": "Failure", "code": code, "message": message})

    def do_GET(self):
        url = urllib.parse.urlsplit(self.path)
        query = dict(urllib.parse.parse_qsl(url.query))
        if self.headers.get("Authorization") != f"Bearer {token}":
            return self.status(401, "Unauthorized")
        if url.path != "/api/v1/nodes":
            return self.status(404, "the server could not find the requested resource")
        if fails:
            return self.status(500, "etcdserver: leader changed")
        if query.get("watch"):
            return self.watch(int(query["resourceVersion"]), query.get("allowWatchBookmarks"))
        self.list(query.get("continue"))

    def list(self, after):
        if nonsense:
            return self.answer(200, {})
        # Two on each page, whatever was asked for; all pages are of the version of the first.
        with state:
            at, _, after = after.partition("-") if after else (str(version), "", "")
            listed = snapshots.setdefault(at, dict(nodes))
            names = sorted(name for name in listed if name > after)
            metadata = {"resourceVersion": at}
            if len(names) > 2:
                metadata["continue"] = f"{at}-{names[1]}"
            items = [node(name, listed[name], int(at)) for name in names[:2]]
        print("list", len(items), flush=True)
        self.answer(200, {"kind": "NodeList", "metadata": metadata, "items": items})

    def chunk(self, value):
        line = json.dumps(value).encode() + b"\n"
        # Two pieces, so that lines and pieces are not the same.
        for piece in line[:7], line[7:]:
            self.wfile.write(b"%x\r\n%s\r\n" % (len(piece), piece))

    def watch(self, after, bookmarks):
        print("watch", after, flush=True)
        self.send_response(200)
        self.send_header("Transfer-Encoding", "chunked")
        self.end_headers()
        while True:
            with state:
                if after < oldest:
                    gone = {"kind": "Status", "code": 410, "reason": "Expired", "message": "too old"}
                    self.chunk({"type": "ERROR", "object": gone})
                    break
                news = [event for event in events if event[0] > after]
                if fails:
                    break
                if not news:
                    state.wait(0.2)
            for at, kind, value in news:
                self.chunk({"type": kind, "object": value})
                after = at
            if bookmarks and not news:
                mark = {"kind": "Node", "metadata": {"resourceVersion": str(after)}}
                self.chunk({"type": "BOOKMARK", "object": mark})
        self.wfile.write(b"0\r\n\r\n")


for number, act in (signal.SIGUSR1, forget), (signal.SIGUSR2, fail), (signal.SIGHUP, talk_nonsense):
    signal.signal(number, lambda *_, act=act: asked.append(act))
threading.Thread(target=follow, daemon=True).start()
server = http.server.ThreadingHTTPServer((address, int(port)), Handler)
server.daemon_threads = True
tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
tls.load_cert_chain(certificate, key)
server.socket = tls.wrap_socket(server.socket, server_side=True)
print("serves", os.getpid(), flush=True)
server.serve_forever()
