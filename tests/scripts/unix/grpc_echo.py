"""gRPC by a Unix socket: `grpc_echo.py serve ADDRESS` answers each request with its own bytes until its stdin ends, `grpc_echo.py
call ADDRESS` asks a few hundred times, with messages of all sizes and a stream each way. An address is as gRPC has it:
unix:PATH or unix-abstract:NAME."""

import hashlib
import sys
from concurrent import futures

import grpc

CALLS = 300
LARGEST = 3 << 20
STREAMED = 200


class Echo(grpc.GenericRpcHandler):
    def service(self, details):
        if details.method == "/tests/stream":
            return grpc.stream_stream_rpc_method_handler(lambda requests, context: requests)
        return grpc.unary_unary_rpc_method_handler(lambda request, context: request)


def serve(address):
    server = grpc.server(futures.ThreadPoolExecutor(4), handlers=[Echo()])
    assert server.add_insecure_port(address)
    server.start()
    sys.stdin.read()
    server.stop(0).wait()


def call(address):
    with grpc.insecure_channel(address) as channel:
        echo = channel.unary_unary("/tests/echo")
        for size in [*range(CALLS), LARGEST]:
            request = bytes([size % 256]) * size
            assert echo(request, timeout=20) == request
        sent = [bytes([number]) * (number * 100) for number in range(STREAMED)]
        back = list(channel.stream_stream("/tests/stream")(iter(sent), timeout=20))
        assert back == sent
        print(len(back), hashlib.sha256(b"".join(back)).hexdigest())


{"serve": serve, "call": call}[sys.argv[1]](sys.argv[2])
