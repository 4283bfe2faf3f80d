/* Another thread closes the number that a receive or send sleeps on, or gives it to something else: the call goes on as
 * if nothing had happened, and the connection ends when it returns. Prints what a program sees. */
#include "pair.h"

enum { LIMIT_MS = 300 };

static int one[2], other[2];
static pthread_barrier_t asleep;
static pid_t sleeper;

struct call {
    const char *name;
    ssize_t (*make)(int fd);
    int sends, timed;
};

static char bytes[65536];

static ssize_t receive(int fd) { return recv(fd, bytes, 100, 0); }
static ssize_t receive_all(int fd) { return recv(fd, bytes, 10, MSG_WAITALL); }
static ssize_t receive_none(int fd) { return recv(fd, bytes, 0, 0); }
static ssize_t peek(int fd) { return recv(fd, bytes, 100, MSG_PEEK); }
static ssize_t read_some(int fd) { return read(fd, bytes, 100); }
static ssize_t receive_many(int fd) {
    struct iovec piece = {bytes, 5};
    struct mmsghdr messages[2] = {{.msg_hdr = {.msg_iov = &piece, .msg_iovlen = 1}}};
    messages[1] = messages[0];
    return recvmmsg(fd, messages, 2, 0, NULL);
}
static ssize_t transmit(int fd) { return send(fd, bytes, sizeof bytes, MSG_NOSIGNAL); }

static const struct call CALLS[] = {
    {"recv", receive, 0, 0},        {"timed recv", receive, 0, 1},
    {"all", receive_all, 0, 0},     {"timed all", receive_all, 0, 1},
    {"none", receive_none, 0, 0},   {"timed none", receive_none, 0, 1},
    {"peek", peek, 0, 0},           {"read", read_some, 0, 0},
    {"recvmmsg", receive_many, 0, 0}, {"send", transmit, 1, 0},
    {"timed send", transmit, 1, 1},
};

static void *sleep_in(void *arg) {
    const struct call *call = arg;
    int fd = one[1];
    sleeper = own_tid();
    pthread_barrier_wait(&asleep);
    long begin = now_us();
    ssize_t n = call->make(fd);
    int early = call->timed && now_us() - begin < (LIMIT_MS - 20) * 1000L;
    printf("  %s: %s%s\n", call->name, result(n), early && n < 0 ? ", early" : "");
    return NULL;
}

/* What becomes of the number. */
static void closes(void) { close(one[1]); }
static void becomes_a_file(void) {
    int file = open("/dev/null", O_RDWR);
    dup2(file, one[1]);
    close(file);
}
static void becomes_another(void) {
    send_all(other[0], "other", 5);
    dup2(other[1], one[1]);
}
static int spare = -1;
static void has_a_duplicate(void) {
    spare = dup(one[1]);
    close(one[1]);
}
static void (*const CHANGES[])(void) = {closes, becomes_a_file, becomes_another, has_a_duplicate};

/* What the peer does then. */
static size_t full;
static void sends(void) { send_all(one[0], "hello", 5); }
static void sends_twice(void) {
    send_all(one[0], "hello", 5);
    send_all(one[0], "again", 5);
}
static void ends(void) { shutdown(one[0], SHUT_WR); }
static void drains(void) { drain(one[0], full); }
static void does_nothing(void) {}

static void peer(const char *when) {
    struct pollfd poller = {one[0], POLLIN, 0};
    nap_us(20000);
    poll(&poller, 1, 0);
    printf("  %s: %x\n", when, poller.revents);
}

static void try(const struct call *call, unsigned change, const char *what, void (*act)(void)) {
    struct timeval limit = {0, LIMIT_MS * 1000};
    pthread_t thread;
    printf("%s, change %u, then %s\n", call->name, change, what);
    warm_pair(one);
    warm_pair(other);
    full = call->sends ? fill(one[1]) : 0;
    if (call->timed)
        CHECK(setsockopt(one[1], SOL_SOCKET, call->sends ? SO_SNDTIMEO : SO_RCVTIMEO, &limit, sizeof limit) == 0);
    pthread_barrier_init(&asleep, NULL, 2);
    CHECK(pthread_create(&thread, NULL, sleep_in, (void *)call) == 0);
    pthread_barrier_wait(&asleep);
    await_sleep(sleeper);
    CHANGES[change]();
    if (!call->sends)
        peer("the peer sees");
    act();
    pthread_join(thread, NULL);
    if (!call->sends)
        peer("the peer sees at last");
    char left[16];
    if (CHANGES[change] == becomes_another)
        printf("  the other one: %s\n", result(recv(one[1], left, sizeof left, MSG_DONTWAIT)));
    close(spare);
    spare = -1;
    close(one[0]);
    if (CHANGES[change] == becomes_a_file || CHANGES[change] == becomes_another)
        close(one[1]);
    close_pair(other);
}

int main(void) {
    for (unsigned i = 0; i < sizeof CALLS / sizeof *CALLS; i++)
        for (unsigned change = 0; change < sizeof CHANGES / sizeof *CHANGES; change++) {
            const struct call *call = &CALLS[i];
            if (call->sends) {
                try(call, change, "drains", drains);
            } else {
                try(call, change, "sends", call->make == receive_all || call->make == receive_many ? sends_twice : sends);
                try(call, change, "ends", ends);
            }
            if (call->timed)
                try(call, change, "nothing", does_nothing);
        }
    return 0;
}
