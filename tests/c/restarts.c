/* What a call that SA_RESTART restarts finds when it begins again: other flags, another connection at
 * its number, or none. And what one returns that has moved a part. */
#include "calls.h"
#include <sys/sendfile.h>

typedef void begins(const struct call *);
static pthread_t main_thread;
static int spare[2];

static void nothing(int signal) { (void)signal; }
static void closes(int signal) {
    (void)signal;
    close(the_pair[0]);
}
static void replaces(int signal) {
    (void)signal;
    dup2(spare[0], the_pair[0]);
}
static void install(int signal, void (*handler)(int), int flags) {
    struct sigaction action = {.sa_handler = handler, .sa_flags = flags};
    sigaction(signal, &action, NULL);
}

static int big_file(void) {
    static int file = -1;
    if (file < 0) {
        file = memfd_create("big", 0);
        CHECK(ftruncate(file, 16 << 20) == 0);
    }
    return file;
}
static long call_sendmmsg(void) {
    struct iovec list = {big, sizeof big};
    struct mmsghdr message = {.msg_hdr = {.msg_iov = &list, .msg_iovlen = 1}};
    return sendmmsg(the_pair[0], &message, 1, 0);
}
static long call_sendfile(void) {
    off_t offset = 0;
    return sendfile(the_pair[0], big_file(), &offset, sizeof big);
}
static const struct call further[] = {
    {"sendmmsg", call_sendmmsg, 1, 1},
    {"sendfile", call_sendfile, 1, 1},
};

/* What another thread does to a call asleep. */
static void interrupt(void) {
    await_sleep(getpid());
    pthread_kill(main_thread, SIGUSR1);
}
static void make_nonblocking(void *arg) {
    (void)arg;
    await_sleep(getpid());
    CHECK(fcntl(the_pair[0], F_SETFL, O_NONBLOCK) == 0);
    interrupt();
}
static void make_closed(void *arg) {
    (void)arg;
    await_sleep(getpid());
    closes(0);
    interrupt();
}
static void make_another(void *arg) {
    const struct call *call = arg;
    await_sleep(getpid());
    replaces(0);
    interrupt();
    nap_us(20000);
    if (!call->out)
        send_all(spare[1], "12345678", 8);
}
static void just_interrupt(void *arg) {
    (void)arg;
    interrupt();
}

static void restarted(const struct call *call, const char *how, void (*act)(void *), begins *begin) {
    struct later later;
    warm_pair(spare);
    begin(call);
    later_begin(&later, 1000, act, (void *)call);
    long value = call->run();
    later_end(&later);
    printf("%s, %s: %s\n", call->name, how, result(value));
    /* What has gone by the other connection arrives there. */
    if (act == make_another && call->out && value > 0)
        drain(spare[1], sizeof big);
    ping_pong(spare, 20);
    close_pair(spare);
    close(the_pair[0]);
    close(the_pair[1]);
}

static void each_restarted(const struct call *call) {
    restarted(call, "non-blocking by now", make_nonblocking, begin_call);
    restarted(call, "closed by now", make_closed, begin_call);
    restarted(call, "another by now", make_another, begin_call);
}

/* Calls that sleep in the kernel, which restarts them itself, on a number that then means a connection on rings. */
static void begin_local(const struct call *call) {
    CHECK(socketpair(AF_UNIX, SOCK_STREAM, 0, the_pair) == 0);
    while (call->out && send(the_pair[0], big, sizeof big, MSG_DONTWAIT) > 0) {
    }
}
static void begin_silent(const struct call *call) {
    connect_pair(the_pair);
    if (call->out)
        fill(the_pair[0]);
}
static void begin_on_kernel(const struct call *call) {
    connect_pair(the_pair);
    /* Somebody may want signals from it. */
    CHECK(fcntl(the_pair[0], F_SETOWN, 0) == 0);
    ping_pong(the_pair, 20);
    if (call->out)
        fill(the_pair[0]);
}
static void each_from_kernel(const struct call *call) {
    restarted(call, "from a local socket to another", make_another, begin_local);
    restarted(call, "from a silent connection to another", make_another, begin_silent);
    restarted(call, "from one on the kernel to another", make_another, begin_on_kernel);
    restarted(call, "from one on the kernel to none", make_closed, begin_on_kernel);
}

/* A thread whose call has been restarted on another connection is cancelled in it. */
static atomic_int cleaned;
static void clean(void *arg) {
    (void)arg;
    cleaned = 1;
}
static void *receiver(void *tid) {
    atomic_store((atomic_int *)tid, own_tid());
    pthread_cleanup_push(clean, NULL);
    call_recv();
    pthread_cleanup_pop(0);
    return NULL;
}
static void cancelled(const char *how, begins *begin) {
    pthread_t thread;
    atomic_int tid = 0;
    void *end;
    warm_pair(spare);
    begin(calls);
    cleaned = 0;
    CHECK(pthread_create(&thread, NULL, receiver, &tid) == 0);
    while (!tid)
        nap_us(100);
    await_sleep(tid);
    replaces(0);
    pthread_kill(thread, SIGUSR1);
    await_sleep(tid);
    pthread_cancel(thread);
    pthread_join(thread, &end);
    printf("recv, cancelled after a restart from %s: %s, %s\n", how, end == PTHREAD_CANCELED ? "cancelled" : "returned",
           cleaned ? "cleaned" : "not cleaned");
    ping_pong(spare, 20);
    close_pair(spare);
    close_pair(the_pair);
}

/* More than any buffer holds. */
static long long_send(void) {
    static char *bytes;
    if (!bytes)
        bytes = calloc(64, 1 << 20);
    return send(the_pair[0], bytes, 64 << 20, 0);
}
static long long_sendfile(void) {
    off_t offset = 0;
    CHECK(ftruncate(big_file(), 64 << 20) == 0);
    return sendfile(the_pair[0], big_file(), &offset, 64 << 20);
}
static void in_part(const char *name, long (*run)(void), int flags) {
    struct later later;
    warm_pair(the_pair);
    install(SIGUSR1, nothing, flags);
    later_begin(&later, 1000, just_interrupt, NULL);
    long sent = run();
    later_end(&later);
    printf("%s, %s: %s\n", name, flags ? "restarts" : "interrupts",
           sent > 0 && sent < 64 << 20 ? "a part" : result(sent));
    if (sent > 0)
        drain(the_pair[1], sent);
    ping_pong(the_pair, 20);
    close_pair(the_pair);
}

/* A handler that takes the number away, in a process with one thread. */
static void by_handler(const char *how, void (*handler)(int), int flags, begins *begin) {
    struct itimerval soon = {.it_value = {0, 50000}};
    warm_pair(spare);
    begin(calls);
    send_all(spare[1], "abc", 3);
    install(SIGALRM, handler, flags);
    setitimer(ITIMER_REAL, &soon, NULL);
    long value = call_recv();
    printf("recv, %s by its handler, %s: %s\n", how, flags ? "restarts" : "interrupts", result(value));
    close(the_pair[0]);
    close(the_pair[1]);
    close_pair(spare);
}

int main(void) {
    main_thread = pthread_self();
    setvbuf(stdout, NULL, _IOLBF, 0);
    by_handler("closed", closes, 0, begin_call);
    by_handler("closed", closes, SA_RESTART, begin_call);
    by_handler("another", replaces, 0, begin_call);
    by_handler("another", replaces, SA_RESTART, begin_call);
    by_handler("another than a local socket", replaces, SA_RESTART, begin_local);
    by_handler("another than a silent connection", replaces, SA_RESTART, begin_silent);
    install(SIGUSR1, nothing, SA_RESTART);
    for EACH_CALL (call)
        if (call->moves)
            each_restarted(call);
    each_restarted(&further[0]);
    each_restarted(&further[1]);
    for EACH_CALL (call)
        if (call->moves)
            each_from_kernel(call);
    each_from_kernel(&further[0]);
    each_from_kernel(&further[1]);
    cancelled("a local socket", begin_local);
    cancelled("a silent connection", begin_silent);
    for (int flags = 0;; flags = SA_RESTART) {
        in_part("send", long_send, flags);
        in_part("sendfile", long_sendfile, flags);
        if (flags)
            return 0;
    }
}
