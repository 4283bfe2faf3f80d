/* Signals on arrival: SIGIO and its like by O_ASYNC, F_SETOWN, F_SETSIG and FIOASYNC, SIGURG, and
 * programs that are driven by them: sigsuspend, sigwaitinfo, signalfd. */
#include "pair.h"
#include <sys/ioctl.h>

static int the_pair[2];

static atomic_int ios, urgents;
static volatile int info_fd, info_code;
static volatile long info_band;
static void on_io(int signal, siginfo_t *info, void *context) {
    (void)signal, (void)context;
    info_fd = info->si_fd;
    info_code = info->si_code;
    info_band = info->si_band;
    ios++;
}
static void on_urgent(int signal) {
    (void)signal;
    urgents++;
}
static void install(int signal) {
    struct sigaction action = {.sa_sigaction = on_io, .sa_flags = SA_SIGINFO | SA_RESTART};
    CHECK(sigaction(signal, &action, NULL) == 0);
}
static int some(atomic_int *count) {
    for (int turns = 0; turns < 50 && !*count; turns++)
        nap_us(2000);
    return *count > 0;
}
static void add_flag(int fd, int flag) { CHECK(fcntl(fd, F_SETFL, fcntl(fd, F_GETFL) | flag) == 0); }

/* --- each way to ask for it --- */

static void by_flag(int fd) {
    CHECK(fcntl(fd, F_SETOWN, getpid()) == 0);
    add_flag(fd, O_ASYNC);
}
static void flag_first(int fd) {
    add_flag(fd, O_ASYNC);
    CHECK(fcntl(fd, F_SETOWN, getpid()) == 0);
}
static void by_request(int fd) {
    int on = 1;
    CHECK(fcntl(fd, F_SETOWN, getpid()) == 0);
    CHECK(ioctl(fd, FIOASYNC, &on) == 0);
}
static void owner_by_request(int fd) {
    int pid = getpid(), on = 1;
    CHECK(ioctl(fd, FIOSETOWN, &pid) == 0);
    CHECK(ioctl(fd, FIOASYNC, &on) == 0);
}
static void to_thread(int fd) {
    struct f_owner_ex owner = {F_OWNER_TID, own_tid()};
    CHECK(fcntl(fd, F_SETOWN_EX, &owner) == 0);
    add_flag(fd, O_ASYNC);
}
static void to_group(int fd) {
    CHECK(fcntl(fd, F_SETOWN, -getpgrp()) == 0);
    add_flag(fd, O_ASYNC);
}
static void with_signal(int fd) {
    CHECK(fcntl(fd, F_SETOWN, getpid()) == 0);
    CHECK(fcntl(fd, F_SETSIG, SIGRTMIN + 2) == 0);
    add_flag(fd, O_ASYNC);
}
static void by_duplicate(int fd) {
    int other = dup(fd);
    by_flag(other);
    close(other);
}
static const struct {
    const char *name;
    void (*ask)(int fd);
} ways[] = {
    {"flag", by_flag},     {"flag first", flag_first},   {"request", by_request},     {"owner by request", owner_by_request},
    {"thread", to_thread}, {"process group", to_group}, {"own signal", with_signal}, {"duplicate", by_duplicate},
};

static void arrivals(const char *name, int unread) {
    char byte;
    /* What is there already is no arrival. */
    nap_us(5000);
    ios = 0;
    send_all(the_pair[1], "1", 1);
    int came = some(&ios);
    int right_fd = info_fd == the_pair[0];
    drain(the_pair[0], 1 + unread);
    nap_us(5000);
    ios = 0;
    long none = recv(the_pair[0], &byte, 1, MSG_DONTWAIT);
    printf("%s: %d, fd %d, code %d, then %s", name, came, info_code == SI_KERNEL ? -1 : right_fd, info_code, result(none));
    /* The way out has its signals too. */
    size_t filled = fill(the_pair[0]);
    nap_us(10000);
    ios = 0;
    drain(the_pair[1], filled);
    printf(", room %d", some(&ios));
    ios = 0;
    shutdown(the_pair[1], SHUT_WR);
    printf(", end %d, %ld\n", some(&ios), (long)recv(the_pair[0], &byte, 1, 0));
    close_pair(the_pair);
}

/* On a connection that is there; on one with something unread; on one that is yet to connect. */
static void asked_for(void) {
    for (size_t i = 0; i < sizeof ways / sizeof *ways; i++) {
        warm_pair(the_pair);
        ways[i].ask(the_pair[0]);
        arrivals(ways[i].name, 0);
        warm_pair(the_pair);
        send_all(the_pair[1], "123", 3);
        nap_us(2000);
        ways[i].ask(the_pair[0]);
        arrivals(ways[i].name, 3);
    }
}
static void before_connect(void) {
    for (size_t i = 0; i < sizeof ways / sizeof *ways; i++) {
        struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
        socklen_t length = sizeof address;
        int listener = socket(AF_INET, SOCK_STREAM, 0);
        CHECK(bind(listener, (struct sockaddr *)&address, sizeof address) == 0 && listen(listener, 4) == 0);
        CHECK(getsockname(listener, (struct sockaddr *)&address, &length) == 0);
        ways[i].ask(listener);
        the_pair[0] = socket(AF_INET, SOCK_STREAM, 0);
        ways[i].ask(the_pair[0]);
        CHECK(connect(the_pair[0], (struct sockaddr *)&address, sizeof address) == 0);
        the_pair[1] = accept(listener, NULL, NULL);
        printf("accepted with %d, ", (fcntl(the_pair[1], F_GETFL) & O_ASYNC) != 0);
        close(listener);
        ping_pong(the_pair, 100);
        arrivals("before connect", 0);
    }
}
/* Only an owner: no signals but for urgent data; and asked for and taken back. */
static void owner_alone(void) {
    char bytes[4];
    struct sigaction action = {.sa_handler = on_urgent, .sa_flags = SA_RESTART};
    sigaction(SIGURG, &action, NULL);
    for (int taken_back = 0; taken_back < 2; taken_back++) {
        warm_pair(the_pair);
        CHECK(fcntl(the_pair[0], F_SETOWN, getpid()) == 0);
        if (taken_back) {
            add_flag(the_pair[0], O_ASYNC);
            CHECK(fcntl(the_pair[0], F_SETFL, fcntl(the_pair[0], F_GETFL) & ~O_ASYNC) == 0);
        }
        nap_us(5000);
        ios = urgents = 0;
        ping_pong(the_pair, 20);
        int before = ios;
        CHECK(send(the_pair[1], "ab", 2, MSG_OOB) == 2);
        int came = some(&urgents);
        printf("owner: %d, urgent %d, then %d, %ld\n", before, came, (int)ios, (long)recv(the_pair[0], bytes, 4, MSG_OOB));
        drain(the_pair[0], 1);
        close_pair(the_pair);
    }
}

/* --- programs that are driven by these signals --- */

enum { MESSAGES = 60 };
static void *send_slowly(void *arg) {
    (void)arg;
    for (int i = 0; i < MESSAGES; i++) {
        char message[MESSAGE];
        memset(message, i, sizeof message);
        send_all(the_pair[1], message, sizeof message);
        if (i % 4 == 0)
            nap_us(500);
    }
    shutdown(the_pair[1], SHUT_WR);
    return NULL;
}
/* All that is there; the end of the stream? */
static long taken;
static int take_all(void) {
    char bytes[100];
    for (;;) {
        ssize_t n = recv(the_pair[0], bytes, sizeof bytes, MSG_DONTWAIT);
        CHECK(n >= 0 || errno == EAGAIN);
        if (n <= 0)
            return n == 0;
        for (ssize_t i = 0; i < n; i++, taken++)
            CHECK(bytes[i] == (char)(taken / MESSAGE));
    }
}
static int await_by(int kind, const sigset_t *set) {
    struct timespec limit = {5, 0};
    struct signalfd_siginfo info;
    siginfo_t sig;
    switch (kind) {
    case 0: {
        sigset_t others;
        sigfillset(&others);
        sigdelset(&others, SIGIO);
        sigdelset(&others, SIGALRM);
        return sigsuspend(&others);
    }
    case 1: return sigtimedwait(set, &sig, &limit) == SIGIO ? 0 : -1;
    default: {
        static int fd = -1;
        if (fd < 0)
            fd = signalfd(-1, set, SFD_CLOEXEC);
        struct pollfd entry = {fd, POLLIN, 0};
        CHECK(poll(&entry, 1, 5000) == 1);
        return read(fd, &info, sizeof info) == sizeof info && info.ssi_signo == SIGIO ? 0 : -1;
    }
    }
}
static void driven(int kind) {
    pthread_t thread;
    sigset_t set;
    warm_pair(the_pair);
    sigemptyset(&set);
    sigaddset(&set, SIGIO);
    pthread_sigmask(SIG_BLOCK, &set, NULL);
    by_flag(the_pair[0]);
    taken = 0;
    pthread_create(&thread, NULL, send_slowly, NULL);
    alarm(20);
    while (!take_all())
        await_by(kind, &set);
    alarm(0);
    pthread_join(thread, NULL);
    printf("driven %d: %ld\n", kind, taken);
    close_pair(the_pair);
    struct timespec none = {0, 0};
    while (sigtimedwait(&set, NULL, &none) > 0) {
    }
    pthread_sigmask(SIG_UNBLOCK, &set, NULL);
}
/* By its own signal, with the number of the socket in it: the reader of many connections. */
static void driven_by_number(void) {
    enum { PAIRS = 4 };
    int pairs[PAIRS][2], got[PAIRS] = {0};
    sigset_t set;
    sigemptyset(&set);
    sigaddset(&set, SIGRTMIN + 2);
    pthread_sigmask(SIG_BLOCK, &set, NULL);
    for (int i = 0; i < PAIRS; i++) {
        warm_pair(pairs[i]);
        with_signal(pairs[i][0]);
        add_flag(pairs[i][0], O_NONBLOCK);
    }
    for (int i = 0; i < 40; i++) {
        send_all(pairs[i % PAIRS][1], "x", 1);
        for (int left = 1; left;) {
            struct timespec limit = {5, 0};
            siginfo_t info;
            char byte;
            CHECK(sigtimedwait(&set, &info, &limit) == SIGRTMIN + 2);
            for (int k = 0; k < PAIRS; k++)
                while (info.si_fd == pairs[k][0] && recv(pairs[k][0], &byte, 1, 0) == 1)
                    got[k]++, left = 0;
        }
    }
    printf("driven by number: %d %d %d %d\n", got[0], got[1], got[2], got[3]);
    for (int i = 0; i < PAIRS; i++)
        close_pair(pairs[i]);
}

int main(void) {
    /* A group of its own: one of the ways is to signal the whole of it. */
    setpgid(0, 0);
    setvbuf(stdout, NULL, _IOLBF, 0);
    install(SIGIO);
    install(SIGRTMIN + 2);
    asked_for();
    before_connect();
    owner_alone();
    for (int kind = 0; kind < 3; kind++)
        driven(kind);
    driven_by_number();
    return 0;
}
