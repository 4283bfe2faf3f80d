/* awake recv|read|readv|poll|select|set|kept|rhythm: waits on connections that kernel TCP carries; the test counts how often
 * a thread of the program gives way, which only one does that waits awake. */
#include "pair.h"

enum { WAITS = 100, LATER_US = 1000, RHYTHM_US = 3000000 };

static int sender;
static sem_t wanted;

/* Each byte comes when whoever waits for it has looked for a while. */
static void *send_later(void *unused) {
    char byte = 1;
    for (int i = 0; i < WAITS; i++) {
        sem_wait(&wanted);
        nap_us(LATER_US);
        send_all(sender, &byte, 1);
    }
    return unused;
}

static void take(int fd) {
    char byte;
    CHECK(recv(fd, &byte, 1, 0) == 1);
}

static void by_read(int fd) {
    char byte;
    CHECK(read(fd, &byte, 1) == 1);
}

static void by_readv(int fd) {
    char byte;
    struct iovec piece = {&byte, 1};
    CHECK(readv(fd, &piece, 1) == 1);
}

static void by_poll(int fd) {
    struct pollfd entry = {.fd = fd, .events = POLLIN};
    CHECK(poll(&entry, 1, -1) == 1 && entry.revents == POLLIN);
    take(fd);
}

static void by_select(int fd) {
    fd_set set;
    FD_ZERO(&set);
    FD_SET(fd, &set);
    CHECK(select(fd + 1, &set, NULL, NULL, NULL) == 1 && FD_ISSET(fd, &set));
    take(fd);
}

static void by_set(int fd) {
    static int set = -1;
    struct epoll_event event = {.events = EPOLLIN};
    if (set < 0) {
        set = epoll_create1(0);
        CHECK(epoll_ctl(set, EPOLL_CTL_ADD, fd, &event) == 0);
    }
    CHECK(epoll_wait(set, &event, 1, -1) == 1 && event.events == EPOLLIN);
    take(fd);
}

/* A read with flags that no kernel has: ulsock leaves a connection alone for good where a program makes it, and has found that
 * out after these round trips. */
static void leave_alone(const int pair[2]) {
    char byte;
    struct iovec piece = {&byte, 1};
    for (int end = 0; end < 2; end++)
        CHECK(preadv2(pair[end], &piece, 1, -1, 1 << 30) < 0);
    ping_pong(pair, 1000);
}

static void *echo(void *arg) {
    int fd = *(int *)arg;
    char bytes[MESSAGE];
    ssize_t n;
    while ((n = recv(fd, bytes, sizeof bytes, 0)) > 0)
        send_all(fd, bytes, n);
    return NULL;
}

/* Each end waits for the other's answer, one after the other without a pause. */
static void in_rhythm(void) {
    int pair[2];
    char bytes[MESSAGE] = {0};
    pthread_t thread;
    connect_pair(pair);
    CHECK(pthread_create(&thread, NULL, echo, &pair[1]) == 0);
    for (long end = now_us() + RHYTHM_US; now_us() < end;) {
        send_all(pair[0], bytes, sizeof bytes);
        recv_all(pair[0], bytes, sizeof bytes);
    }
    shutdown(pair[0], SHUT_WR);
    pthread_join(thread, NULL);
    close_pair(pair);
}

static void waits(void (*wait_for)(int), int left_alone) {
    int pair[2];
    pthread_t thread;
    connect_pair(pair);
    if (left_alone)
        leave_alone(pair);
    sender = pair[1];
    CHECK(sem_init(&wanted, 0, 0) == 0 && pthread_create(&thread, NULL, send_later, NULL) == 0);
    for (int i = 0; i < WAITS; i++) {
        sem_post(&wanted);
        wait_for(pair[0]);
    }
    pthread_join(thread, NULL);
    close_pair(pair);
}

int main(int argc, char **argv) {
    static const struct {
        const char *name;
        void (*wait_for)(int);
    } ways[] = {{"recv", take},       {"read", by_read}, {"readv", by_readv}, {"poll", by_poll},
                {"select", by_select}, {"set", by_set},   {"kept", take}};
    CHECK(argc == 2);
    if (strcmp(argv[1], "rhythm") == 0)
        in_rhythm();
    for (size_t i = 0; i < sizeof ways / sizeof ways[0]; i++) {
        if (strcmp(argv[1], ways[i].name) == 0)
            waits(ways[i].wait_for, strcmp(argv[1], "kept") == 0);
    }
    printf("done\n");
    return 0;
}
