/* What the C test programs share: a connection with itself that has been warmed up, so that under
 * ulsock it is on rings, and small helpers. The programs know nothing of ulsock; they print what
 * they saw, and the tests compare that with what the kernel alone gives. */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <pthread.h>
#include <semaphore.h>
#include <setjmp.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/select.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <time.h>
#include <ucontext.h>
#include <unistd.h>

#define CHECK(condition)                                                                           \
    do {                                                                                           \
        if (!(condition)) {                                                                        \
            fprintf(stderr, "%s:%d: %s: %s\n", __FILE__, __LINE__, #condition, strerror(errno));   \
            abort();                                                                               \
        }                                                                                          \
    } while (0)

enum { MESSAGE = 64 };

static inline void send_all(int fd, const void *data, size_t size) {
    for (size_t sent = 0; sent < size;) {
        ssize_t n = send(fd, (const char *)data + sent, size - sent, MSG_NOSIGNAL);
        if (n < 0 && errno == EINTR)
            continue;
        CHECK(n > 0);
        sent += n;
    }
}

static inline void recv_all(int fd, void *data, size_t size) {
    for (size_t got = 0; got < size;) {
        ssize_t n = recv(fd, (char *)data + got, size - got, 0);
        if (n < 0 && errno == EINTR)
            continue;
        CHECK(n > 0);
        got += n;
    }
}

/* There and back, `rounds` times. */
static inline void ping_pong(const int pair[2], int rounds) {
    unsigned char out[MESSAGE], in[MESSAGE];
    for (int round = 0; round < rounds; round++) {
        memset(out, round, sizeof out);
        for (int way = 0; way < 2; way++) {
            send_all(pair[way], out, sizeof out);
            recv_all(pair[!way], in, sizeof in);
            CHECK(memcmp(in, out, sizeof in) == 0);
        }
    }
}

static inline void connect_pair(int pair[2]) {
    struct sockaddr_in addr = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t length = sizeof addr;
    int listener = socket(AF_INET, SOCK_STREAM, 0);
    CHECK(listener >= 0 && bind(listener, (struct sockaddr *)&addr, sizeof addr) == 0);
    CHECK(listen(listener, 16) == 0);
    CHECK(getsockname(listener, (struct sockaddr *)&addr, &length) == 0);
    pair[0] = socket(AF_INET, SOCK_STREAM, 0);
    CHECK(connect(pair[0], (struct sockaddr *)&addr, sizeof addr) == 0);
    pair[1] = accept(listener, NULL, NULL);
    CHECK(pair[1] >= 0);
    /* Nagle's algorithm would hold small messages back, and what the tests see with them. */
    int on = 1;
    setsockopt(pair[0], IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
    setsockopt(pair[1], IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
    close(listener);
}

/* A connected pair that has talked enough to be on rings. */
static inline void warm_pair(int pair[2]) {
    connect_pair(pair);
    ping_pong(pair, 100);
}

static inline void close_pair(const int pair[2]) {
    close(pair[0]);
    close(pair[1]);
}

static inline void nap_us(long us) {
    struct timespec time = {us / 1000000, us % 1000000 * 1000};
    while (nanosleep(&time, &time) < 0 && errno == EINTR) {
    }
}

static inline long now_us(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return now.tv_sec * 1000000L + now.tv_nsec / 1000;
}

/* Kernel TCP has sent what is not acknowledged: on a busy machine that takes its time, and makes room. */
static inline int has_in_flight(int fd) {
    struct tcp_info info;
    socklen_t size = sizeof info;
    CHECK(getsockopt(fd, IPPROTO_TCP, TCP_INFO, &info, &size) == 0);
    return info.tcpi_unacked > 0;
}

/* Until the socket takes no more; kernel TCP moves bytes on by itself for a while. */
static inline size_t fill(int fd) {
    static char bytes[65536];
    size_t total = 0;
    for (int idle = 0; idle < 4; idle++) {
        ssize_t n;
        while ((n = send(fd, bytes, sizeof bytes, MSG_DONTWAIT)) > 0) {
            total += n;
            idle = 0;
        }
        CHECK(errno == EAGAIN);
        if (has_in_flight(fd))
            idle = 0;
        nap_us(5000);
    }
    return total;
}

static inline void drain(int fd, size_t size) {
    static __thread char bytes[65536];
    while (size > 0) {
        ssize_t n = recv(fd, bytes, size < sizeof bytes ? size : sizeof bytes, 0);
        if (n < 0 && errno == EINTR)
            continue;
        CHECK(n > 0);
        size -= n;
    }
}

static inline int open_fds(void) {
    int count = 0;
    DIR *folder = opendir("/proc/self/fd");
    while (readdir(folder))
        count++;
    closedir(folder);
    return count;
}

static inline const char *result(long value) {
    static __thread char text[2][64];
    static __thread int which;
    char *to = text[which = !which];
    if (value < 0)
        snprintf(to, sizeof text[0], "%s", strerrorname_np(errno));
    else
        snprintf(to, sizeof text[0], "%ld", value);
    return to;
}

static inline pid_t own_tid(void) { return (pid_t)syscall(SYS_gettid); }

/* Until the thread has been asleep for a while, on a busy machine too; one that spins for ever is
 * given up on, sooner or later. */
static int patience = 40;
static inline void await_sleep(pid_t tid) {
    char path[64], line[256];
    snprintf(path, sizeof path, "/proc/self/task/%d/stat", tid);
    for (int turns = 0, asleep = 0; turns < patience && asleep < 3; turns++) {
        nap_us(4000);
        int fd = open(path, O_RDONLY);
        ssize_t n = fd < 0 ? 0 : read(fd, line, sizeof line - 1);
        close(fd);
        line[n > 0 ? n : 0] = 0;
        char *end = strrchr(line, ')');
        asleep = end && end[2] == 'S' ? asleep + 1 : 0;
    }
}

/* A thread that acts on another after a while. */
struct later {
    pthread_t thread;
    long us;
    void (*act)(void *);
    void *arg;
};

static void *later_run(void *arg) {
    struct later *later = arg;
    sigset_t all;
    sigfillset(&all);
    pthread_sigmask(SIG_BLOCK, &all, NULL);
    nap_us(later->us);
    later->act(later->arg);
    return NULL;
}

static inline void later_begin(struct later *later, long us, void (*act)(void *), void *arg) {
    sigset_t all, old;
    sigfillset(&all);
    pthread_sigmask(SIG_BLOCK, &all, &old);
    *later = (struct later){.us = us, .act = act, .arg = arg};
    CHECK(pthread_create(&later->thread, NULL, later_run, later) == 0);
    pthread_sigmask(SIG_SETMASK, &old, NULL);
}

static inline void later_end(struct later *later) { pthread_join(later->thread, NULL); }
