"""RabbitMQ's clients: `amqp.py PORT` publishes messages on one connection, each of which is confirmed, consumes them on
another one, and checks every byte."""

import sys

import pika

MESSAGES = 3000


def message(number):
    return number.to_bytes(4, "little") * (1 + number * number % 997)


def main(port):
    at = pika.ConnectionParameters("127.0.0.1", port)
    with pika.BlockingConnection(at) as here, pika.BlockingConnection(at) as there:
        source, sink = here.channel(), there.channel()
        source.queue_declare("queue")
        source.confirm_delivery()
        for number in range(MESSAGES):
            source.basic_publish("", "queue", message(number))
        sink.basic_qos(prefetch_count=50)
        for number, (method, _, body) in enumerate(sink.consume("queue")):
            assert body == message(number), number
            sink.basic_ack(method.delivery_tag)
            if number + 1 == MESSAGES:
                break
        sink.cancel()
    print("ok")


main(int(sys.argv[1]))
