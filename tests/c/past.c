/* Bytes that somebody writes past libc, and so past ulsock, to a connection that is on rings: whoever waits is told
 * of them at once, nobody spins, and the stream goes on in both directions. */
#include "peer.h"

enum { LIMIT = 2000 };
static int pair[2];

static void write_past(void *text) {
    long n = strlen(text);
    CHECK(call_past_libc(SYS_write, pair[1], (long)text, n, NULL, 0) == n);
}

/* --- ways to hear of them; what they say --- */

static long by_poll(void) {
    struct pollfd entry = {.fd = pair[0], .events = POLLIN};
    return poll(&entry, 1, LIMIT) == 1 ? entry.revents : -2;
}
static long by_polls(void) {
    long told = 0, end = now_us() + LIMIT * 1000;
    for (struct pollfd entry = {.fd = pair[0], .events = POLLIN}; told == 0 && now_us() < end; nap_us(500)) {
        CHECK(poll(&entry, 1, 0) >= 0);
        told = entry.revents;
    }
    return told;
}
static long by_select(void) {
    fd_set in;
    FD_ZERO(&in);
    FD_SET(pair[0], &in);
    struct timeval time = {LIMIT / 1000, 0};
    return select(pair[0] + 1, &in, NULL, NULL, &time);
}
static long by_set(unsigned events) {
    struct epoll_event event = {.events = events};
    int set = epoll_create1(0);
    CHECK(epoll_ctl(set, EPOLL_CTL_ADD, pair[0], &event) == 0);
    event.events = 0;
    CHECK(epoll_wait(set, &event, 1, LIMIT) >= 0);
    close(set);
    return event.events;
}
static long by_epoll(void) { return by_set(EPOLLIN); }
static long by_edge(void) { return by_set(EPOLLIN | EPOLLET); }
static long by_count(void) {
    int there = 0;
    for (long end = now_us() + LIMIT * 1000; there == 0 && now_us() < end; nap_us(500))
        CHECK(ioctl(pair[0], FIONREAD, &there) == 0);
    return there;
}
static long by_peek(void) {
    char byte;
    return recv(pair[0], &byte, 1, MSG_PEEK);
}
static long by_peeks(void) {
    char byte;
    long n = -1;
    for (long end = now_us() + LIMIT * 1000; n < 0 && now_us() < end; nap_us(500))
        n = recv(pair[0], &byte, 1, MSG_PEEK | MSG_DONTWAIT);
    return n;
}
static long by_empty_receive(void) { return recv(pair[0], NULL, 0, 0); }

static const struct {
    const char *name;
    long (*ask)(void);
} ways[] = {
    {"poll", by_poll},   {"polls without time", by_polls}, {"select", by_select},
    {"epoll", by_epoll}, {"edge", by_edge},                {"FIONREAD", by_count},
    {"peek", by_peek},   {"peeks without time", by_peeks}, {"empty receive", by_empty_receive},
};

/* --- what is the same for all --- */

static long cpu_us(void) {
    struct rusage usage;
    getrusage(RUSAGE_SELF, &usage);
    return (usage.ru_utime.tv_sec + usage.ru_stime.tv_sec) * 1000000L + usage.ru_utime.tv_usec + usage.ru_stime.tv_usec;
}

static void begin(void) {
    struct timeval limit = {LIMIT / 1000, 0};
    warm_pair(pair);
    CHECK(setsockopt(pair[0], SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit) == 0);
}

static void take(int fd, const char *text) {
    char bytes[64] = "";
    for (size_t got = 0; got < strlen(text);) {
        ssize_t n = recv(fd, bytes + got, sizeof bytes - 1 - got, 0);
        CHECK(n > 0);
        got += n;
    }
    CHECK(strcmp(bytes, text) == 0);
}

/* Both directions carry what libc sends. */
static void go_on(void) {
    for (int round = 0; round < 20; round++) {
        send_all(pair[1], "there", 5);
        take(pair[0], "there");
        send_all(pair[0], "back", 4);
        take(pair[1], "back");
    }
    close_pair(pair);
}

static void tell(const char *name, const char *when, long told, long before) {
    printf("%s, %s: %s%s\n", name, when, result(told), cpu_us() - before > LIMIT * 500 ? ", and spun" : "");
}

static void before_asking(int way) {
    begin();
    write_past("K");
    nap_us(20000);
    long before = cpu_us();
    tell(ways[way].name, "before", ways[way].ask(), before);
    take(pair[0], "K");
    go_on();
}

static void while_asking(int way) {
    struct later later;
    begin();
    later_begin(&later, 20000, write_past, "KK");
    long before = cpu_us();
    tell(ways[way].name, "while", ways[way].ask(), before);
    later_end(&later);
    take(pair[0], "KK");
    go_on();
}

/* Too few are in the ring for SO_RCVLOWAT, and enough come past it. */
static void beyond_low_water(int way) {
    int least = 8;
    begin();
    CHECK(setsockopt(pair[0], SOL_SOCKET, SO_RCVLOWAT, &least, sizeof least) == 0);
    send_all(pair[1], "abc", 3);
    nap_us(20000);
    write_past("defghijk");
    long before = cpu_us();
    tell(ways[way].name, "low water", ways[way].ask(), before);
    least = 1;
    CHECK(setsockopt(pair[0], SOL_SOCKET, SO_RCVLOWAT, &least, sizeof least) == 0);
    take(pair[0], "abcdefghijk");
    go_on();
}

/* Receives get them, and nothing else comes between. */
static void receives(void) {
    struct later later;
    begin();
    later_begin(&later, 20000, write_past, "KLM");
    take(pair[0], "KLM");
    later_end(&later);
    go_on();
    begin();
    send_all(pair[1], "ring ", 5);
    write_past("kernel");
    take(pair[0], "ring kernel");
    go_on();
}

int main(void) {
    int count = sizeof ways / sizeof ways[0];
    for (int way = 0; way < count; way++) {
        before_asking(way);
        while_asking(way);
    }
    for (int way = 0; way < 5; way++)
        beyond_low_water(way);
    receives();
    return 0;
}
