/* liburing serve HOST PORT CONNECTIONS: accepts, receives and sends back by entries of an io_uring, and ends with the last
 * connection.
 * liburing ask HOST PORT CONNECTIONS COUNT: makes COUNT round trips of 64 bytes by plain calls, and prints one line of
 * JSON. */
#include <arpa/inet.h>
#include <liburing.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <time.h>
#include <unistd.h>

enum { SIZE = 64, ROOM = 4096, MOST = 1024 };
enum { ACCEPT, RECEIVE, SEND };

static struct io_uring ring;
static char room[MOST][ROOM];

static void fail(const char *what) {
    perror(what);
    exit(1);
}

static struct sockaddr_in address_of(const char *host, const char *port) {
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_port = htons(atoi(port))};
    if (inet_pton(AF_INET, host, &address.sin_addr) != 1)
        fail(host);
    return address;
}

static void without_delay(int fd) {
    int yes = 1;
    if (setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &yes, sizeof yes) != 0)
        fail("TCP_NODELAY");
}

static struct io_uring_sqe *entry(int what, int fd) {
    struct io_uring_sqe *entry = io_uring_get_sqe(&ring);
    if (!entry) {
        io_uring_submit(&ring);
        entry = io_uring_get_sqe(&ring);
    }
    entry->user_data = (unsigned long)fd << 8 | what;
    return entry;
}

static void receive(int fd) {
    struct io_uring_sqe *it = entry(RECEIVE, fd);
    unsigned long name = it->user_data;
    if (fd >= MOST) {
        fprintf(stderr, "liburing: too many connections\n");
        exit(1);
    }
    io_uring_prep_recv(it, fd, room[fd], ROOM, 0);
    it->user_data = name;
}

static void send_back(int fd, int length) {
    struct io_uring_sqe *it = entry(SEND, fd);
    unsigned long name = it->user_data;
    io_uring_prep_send(it, fd, room[fd], length, 0);
    it->user_data = name;
}

/* How many connections have ended by this completion. */
static int completed(const struct io_uring_cqe *cqe) {
    int fd = cqe->user_data >> 8;
    switch (cqe->user_data & 255) {
    case ACCEPT:
        if (cqe->res < 0)
            return 0;
        without_delay(cqe->res);
        receive(cqe->res);
        return 0;
    case RECEIVE:
        if (cqe->res > 0) {
            send_back(fd, cqe->res);
            return 0;
        }
        close(fd);
        return 1;
    default:
        receive(fd);
        return 0;
    }
}

static void serve(struct sockaddr_in address, int connections) {
    int listener = socket(AF_INET, SOCK_STREAM, 0), yes = 1;
    setsockopt(listener, SOL_SOCKET, SO_REUSEADDR, &yes, sizeof yes);
    if (io_uring_queue_init(256, &ring, IORING_SETUP_SINGLE_ISSUER | IORING_SETUP_DEFER_TASKRUN) < 0)
        fail("io_uring_queue_init");
    if (bind(listener, (void *)&address, sizeof address) != 0 || listen(listener, 128) != 0)
        fail("listen");
    struct io_uring_sqe *it = io_uring_get_sqe(&ring);
    io_uring_prep_multishot_accept(it, listener, NULL, NULL, 0);
    it->user_data = ACCEPT;
    for (int ended = 0; ended < connections;) {
        struct io_uring_cqe *cqe;
        unsigned head, count = 0;
        io_uring_submit_and_wait(&ring, 1);
        io_uring_for_each_cqe(&ring, head, cqe) {
            ended += completed(cqe);
            count++;
        }
        io_uring_cq_advance(&ring, count);
    }
}

static double now(void) {
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return (double)time.tv_sec + (double)time.tv_nsec / 1e9;
}

static void ask(int fd) {
    char message[SIZE] = {0};
    if (send(fd, message, SIZE, 0) != SIZE)
        fail("send");
}

static void answered(int fd) {
    char message[SIZE];
    if (recv(fd, message, SIZE, MSG_WAITALL) != SIZE)
        fail("recv");
}

static int connected(const struct sockaddr_in *address) {
    int fd = socket(AF_INET, SOCK_STREAM, 0);
    if (connect(fd, (const void *)address, sizeof *address) != 0)
        fail("connect");
    without_delay(fd);
    return fd;
}

/* Each connection has one question under way. */
static void ask_all(const int *fds, int connections, long count) {
    struct epoll_event events[MOST];
    int set = epoll_create1(0);
    long begun = connections, ended = 0;
    for (int i = 0; i < connections; i++) {
        struct epoll_event event = {.events = EPOLLIN, .data.fd = fds[i]};
        epoll_ctl(set, EPOLL_CTL_ADD, fds[i], &event);
        ask(fds[i]);
    }
    while (ended < begun) {
        int ready = epoll_wait(set, events, MOST, -1);
        for (int i = 0; i < ready; i++) {
            answered(events[i].data.fd);
            ended++;
            if (begun < count) {
                ask(events[i].data.fd);
                begun++;
            }
        }
    }
    close(set);
}

int main(int argc, char **argv) {
    int serves = argc == 5 && strcmp(argv[1], "serve") == 0;
    if (!serves && (argc != 6 || strcmp(argv[1], "ask") != 0 || atoi(argv[4]) >= MOST)) {
        fprintf(stderr, "usage: liburing serve HOST PORT CONNECTIONS | ask HOST PORT CONNECTIONS COUNT\n");
        return 2;
    }
    struct sockaddr_in address = address_of(argv[2], argv[3]);
    if (serves) {
        serve(address, atoi(argv[4]));
        return 0;
    }
    int fds[MOST] = {0}, connections = atoi(argv[4]);
    long count = atol(argv[5]);
    for (int i = 0; i < connections; i++)
        fds[i] = connected(&address);
    ask_all(fds, connections, connections);
    double start = now();
    if (connections > 1)
        ask_all(fds, connections, count);
    else
        for (long i = 0; i < count; i++) {
            ask(fds[0]);
            answered(fds[0]);
        }
    printf("{\"messages\":%ld,\"seconds\":%.6f}\n", count, now() - start);
    return 0;
}
