/* zmq rep|req|push|pull ENDPOINT SIZE COUNT: one end of ZeroMQ messages, COUNT of SIZE bytes.
 * rep answers each message of req with the same bytes; push sends to pull. rep and push bind the endpoint and
 * end by themselves; req and pull connect to it and print one line of JSON. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <zmq.h>

static void *open_socket;
static char *message;
static size_t size;

static void fail(const char *what) {
    fprintf(stderr, "zmq: %s: %s\n", what, zmq_strerror(zmq_errno()));
    exit(1);
}

static double now(void) {
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return (double)time.tv_sec + (double)time.tv_nsec / 1e9;
}

static void begin(void) {
    if (zmq_send(open_socket, message, size, 0) < 0)
        fail("send");
}

static void receive(void) {
    int length = zmq_recv(open_socket, message, size, 0);
    if (length < 0)
        fail("receive");
    if ((size_t)length != size) {
        fprintf(stderr, "zmq: a message has %d bytes\n", length);
        exit(1);
    }
}

/* Seconds for COUNT messages after the first, which waits for the connection. */
static double exchange(int type, long count) {
    double start = 0;
    for (long i = 0; i <= count; i++) {
        if (i == 1)
            start = now();
        if (type == ZMQ_REQ || type == ZMQ_PUSH)
            begin();
        if (type != ZMQ_PUSH)
            receive();
        if (type == ZMQ_REP)
            begin();
    }
    return now() - start;
}

static int type_of(const char *name) {
    const char *names[] = {"rep", "req", "push", "pull"};
    const int types[] = {ZMQ_REP, ZMQ_REQ, ZMQ_PUSH, ZMQ_PULL};
    for (int i = 0; i < 4; i++)
        if (strcmp(name, names[i]) == 0)
            return types[i];
    return -1;
}

int main(int argc, char **argv) {
    int type = argc == 5 ? type_of(argv[1]) : -1;
    if (type < 0) {
        fprintf(stderr, "usage: zmq rep|req|push|pull ENDPOINT SIZE COUNT\n");
        return 2;
    }
    size = strtoul(argv[3], NULL, 10);
    long count = strtol(argv[4], NULL, 10);
    message = calloc(1, size);
    void *context = zmq_ctx_new();
    open_socket = zmq_socket(context, type);
    if (!message || !open_socket)
        fail("no memory, or no socket");
    int binds = type == ZMQ_REP || type == ZMQ_PUSH;
    if ((binds ? zmq_bind : zmq_connect)(open_socket, argv[2]) != 0)
        fail(argv[2]);
    double seconds = exchange(type, count);
    if (!binds)
        printf("{\"messages\":%ld,\"seconds\":%.6f}\n", count, seconds);
    /* What is not sent yet is sent before the context ends. */
    zmq_close(open_socket);
    zmq_ctx_term(context);
    free(message);
    return 0;
}
