/* Signals at the very moment at which a thread goes to sleep, again and again: the handler returns, or
 * jumps out of the call. What is sent afterwards must wake the sleeper all the same, and no byte may be
 * missing. argv[1]: seconds. */
#include "pair.h"

enum { MOST = 120 };
static int pair[2], set;
static sigjmp_buf out;
static volatile sig_atomic_t may_jump, handled;
static atomic_long wanted, done;
static const char *volatile way_name;

static void handler(int signal) {
    (void)signal;
    handled++;
    if (may_jump)
        siglongjmp(out, 1);
}

/* One signal, so many microseconds from now; none if 0. */
static void tick(long us) {
    struct itimerval timer = {{0, 0}, {0, us}};
    setitimer(ITIMER_REAL, &timer, NULL);
}

/* --- the ways to wait; none of them takes a byte, so that a jump loses none --- */

static long by_recv(void) {
    char byte;
    return recv(pair[0], &byte, 1, MSG_PEEK);
}
static long by_poll(void) {
    struct pollfd entry = {pair[0], POLLIN, 0};
    return poll(&entry, 1, -1);
}
static long by_ppoll(void) {
    struct pollfd entry = {pair[0], POLLIN, 0};
    sigset_t none;
    sigemptyset(&none);
    return ppoll(&entry, 1, NULL, &none);
}
static long by_select(void) {
    fd_set fds;
    FD_ZERO(&fds);
    FD_SET(pair[0], &fds);
    return select(pair[0] + 1, &fds, NULL, NULL, NULL);
}
static long by_epoll_wait(void) {
    struct epoll_event event;
    return epoll_wait(set, &event, 1, -1);
}
static const struct {
    const char *name;
    long (*wait)(void);
} ways[] = {{"recv", by_recv}, {"poll", by_poll}, {"ppoll", by_ppoll}, {"select", by_select}, {"epoll_wait", by_epoll_wait}};
enum { WAYS = sizeof ways / sizeof *ways };

static void message(long number, unsigned char *bytes, size_t *size) {
    *size = 8 + (size_t)number % (MOST - 8);
    memset(bytes, (int)number, *size);
    memcpy(bytes, &number, sizeof number);
}

/* Sends the message that is wanted, some time later: mostly when the signal has come. */
static void *feed(void *arg) {
    unsigned state = 7;
    unsigned char bytes[MOST];
    size_t size;
    (void)arg;
    for (long number = 1;; number++) {
        while (wanted < number)
            if (wanted < 0)
                return NULL;
        for (long until = now_us() + 30 + rand_r(&state) % 90; now_us() < until;) {
        }
        message(number, bytes, &size);
        send_all(pair[1], bytes, size);
    }
}

/* A message that nobody comes for within this time is one that did not wake its sleeper. */
static void *watch(void *arg) {
    (void)arg;
    for (long last = -1, stuck = 0; wanted >= 0; nap_us(100000)) {
        stuck = last == done ? stuck + 1 : 0;
        last = done;
        if (stuck == 50) {
            printf("%s sleeps on: message %ld did not wake it\n", way_name, last + 1);
            fflush(stdout);
            _exit(1);
        }
    }
    return NULL;
}

static void take(long number) {
    unsigned char expected[MOST], came[MOST];
    size_t size;
    message(number, expected, &size);
    recv_all(pair[0], came, size);
    CHECK(memcmp(came, expected, size) == 0);
}

int main(int argc, char **argv) {
    double seconds = argc > 1 ? atof(argv[1]) : 3;
    struct sigaction action = {.sa_handler = handler};
    struct epoll_event event = {.events = EPOLLIN};
    sigset_t alarm;
    pthread_t threads[2];
    volatile unsigned state = 1;
    volatile long jumps = 0, interrupted = 0;
    warm_pair(pair);
    set = epoll_create1(0);
    CHECK(epoll_ctl(set, EPOLL_CTL_ADD, pair[0], &event) == 0);
    sigemptyset(&alarm);
    sigaddset(&alarm, SIGALRM);
    pthread_sigmask(SIG_BLOCK, &alarm, NULL);
    CHECK(pthread_create(&threads[0], NULL, feed, NULL) == 0);
    CHECK(pthread_create(&threads[1], NULL, watch, NULL) == 0);
    pthread_sigmask(SIG_UNBLOCK, &alarm, NULL);
    volatile long number = 0, end = now_us() + (long)(seconds * 1e6);
    while (now_us() < end) {
        volatile int way = (int)(number % WAYS);
        unsigned dice = state;
        long us = 1 + rand_r(&dice) % 70;
        int jump = rand_r(&dice) % 3 == 0, restart = rand_r(&dice) % 2;
        state = dice;
        way_name = ways[way].name;
        action.sa_flags = restart ? SA_RESTART : 0;
        sigaction(SIGALRM, &action, NULL);
        wanted = ++number;
        if (sigsetjmp(out, 1) == 0) {
            may_jump = jump;
            tick(us);
        } else {
            jumps++;
        }
        /* After the one signal of this round there is none: only the message ends the wait. */
        long n = ways[way].wait();
        CHECK(n == 1 || (n < 0 && errno == EINTR));
        if (n < 0) {
            interrupted++;
            CHECK(ways[way].wait() == 1);
        }
        may_jump = 0;
        tick(0);
        take(number);
        done = number;
    }
    wanted = -1;
    pthread_join(threads[0], NULL);
    pthread_join(threads[1], NULL);
    int tried = number > 200 && handled > 100 && jumps > 10 && interrupted > 10;
    printf("%s\n", tried ? "every message woke its sleeper" : "too few signals");
    ping_pong(pair, 20);
    return 0;
}
