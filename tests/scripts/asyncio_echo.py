"""asyncio on both ends: `serve PORT` echoes until SIGINT, `call PORT` checks 50 connections at once."""

import asyncio
import random
import signal
import sys

CONNECTIONS = 50
ROUNDS = 40
SIZES = [1, 10, 100, 1000, 10_000, 200_000]


async def echo(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    while data := await reader.read(65536):
        writer.write(data)
        await writer.drain()
    writer.close()
    await writer.wait_closed()


async def serve(port: int) -> None:
    stop = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGINT, stop.set)
    async with await asyncio.start_server(echo, "127.0.0.1", port):
        await stop.wait()


async def connection(port: int, number: int) -> None:
    chance = random.Random(number)
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    for _ in range(ROUNDS):
        message = chance.randbytes(chance.choice(SIZES))
        writer.write(message)
        assert await reader.readexactly(len(message)) == message
    writer.write_eof()
    assert await reader.read() == b""
    writer.close()
    await writer.wait_closed()


async def call(port: int) -> None:
    await asyncio.gather(*(connection(port, number) for number in range(CONNECTIONS)))
    print("ok")


asyncio.run({"serve": serve, "call": call}[sys.argv[1]](int(sys.argv[2])))
