"""A small memcached client: values of many sizes there and back, pipelined and one by one."""

import socket
import sys


def value(number: int, size: int) -> bytes:
    return bytes((number * 31 + i * 7) & 0xFF for i in range(251)) * (size // 251 + 1)


def main() -> None:
    connection = socket.create_connection((sys.argv[2] if sys.argv[2:] else "127.0.0.1", int(sys.argv[1])))
    stream = connection.makefile("rwb")
    sizes = [1, 10, 100, 1000, 10_000, 100_000, 1_000_000] * 10
    values = [value(n, size)[:size] for n, size in enumerate(sizes)]
    for number, data in enumerate(values):
        stream.write(b"set key%d 0 0 %d\r\n%s\r\n" % (number, len(data), data))
        stream.flush()
        assert stream.readline() == b"STORED\r\n"
    for number in range(len(values)):
        stream.write(b"get key%d\r\n" % number)
    stream.flush()
    for number, data in enumerate(values):
        assert stream.readline() == b"VALUE key%d 0 %d\r\n" % (number, len(data))
        assert stream.read(len(data)) == data
        assert stream.readline() == b"\r\n"
        assert stream.readline() == b"END\r\n"
    print("ok")


main()
