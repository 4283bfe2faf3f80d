# What gunicorn serves: the same few bytes to everybody.

BODY = b"x" * 612


def answer(_request, start):
    start("200 OK", [("Content-Type", "text/plain"), ("Content-Length", str(len(BODY)))])
    return [BODY]
