"""gRPC: `serve PORT` answers each request with its own bytes; `call PORT` asks a thousand times, with messages of all sizes."""

import sys
from concurrent import futures

import grpc

LARGEST = 3 << 20


class Echo(grpc.GenericRpcHandler):
    def service(self, details):
        return grpc.unary_unary_rpc_method_handler(lambda request, context: request)


def serve(port):
    server = grpc.server(futures.ThreadPoolExecutor(2), handlers=[Echo()])
    assert server.add_insecure_port(f"127.0.0.1:{port}") == port
    server.start()
    sys.stdin.read()
    server.stop(0).wait()


def call(port):
    with grpc.insecure_channel(f"127.0.0.1:{port}") as channel:
        echo = channel.unary_unary("/tests/echo")
        for round in range(1000):
            request = bytes([round % 256]) * round
            assert echo(request, timeout=20) == request
        request = bytes(range(256)) * (LARGEST // 256)
        assert echo(request, timeout=20) == request
    print("ok")


{"serve": serve, "call": call}[sys.argv[1]](int(sys.argv[2]))
