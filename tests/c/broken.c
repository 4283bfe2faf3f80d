/* SIGPIPE and EPIPE: each disposition, each call that sends, each way in which a connection breaks. */
#include "pair.h"
#include <sys/sendfile.h>

static int the_pair[2];
static char bytes[256];
static int file;
static long by_send(void) { return send(the_pair[0], bytes, sizeof bytes, 0); }
static long by_quiet_send(void) { return send(the_pair[0], bytes, sizeof bytes, MSG_NOSIGNAL); }
static long by_write(void) { return write(the_pair[0], bytes, sizeof bytes); }
static long by_writev(void) {
    struct iovec list[2] = {{bytes, 100}, {bytes + 100, 100}};
    return writev(the_pair[0], list, 2);
}
static long by_sendmsg(void) {
    struct iovec list = {bytes, sizeof bytes};
    struct msghdr message = {.msg_iov = &list, .msg_iovlen = 1};
    return sendmsg(the_pair[0], &message, 0);
}
static long by_quiet_sendmsg(void) {
    struct iovec list = {bytes, sizeof bytes};
    struct msghdr message = {.msg_iov = &list, .msg_iovlen = 1};
    return sendmsg(the_pair[0], &message, MSG_NOSIGNAL);
}
static long by_sendmmsg(void) {
    struct iovec list = {bytes, sizeof bytes};
    struct mmsghdr message = {.msg_hdr = {.msg_iov = &list, .msg_iovlen = 1}};
    return sendmmsg(the_pair[0], &message, 1, 0);
}
static long by_sendfile(void) {
    off_t at = 0;
    return sendfile(the_pair[0], file, &at, sizeof bytes);
}
static const struct {
    const char *name;
    long (*run)(void);
} senders[] = {
    {"send", by_send},       {"send without signal", by_quiet_send},       {"write", by_write},       {"writev", by_writev},
    {"sendmsg", by_sendmsg}, {"sendmsg without signal", by_quiet_sendmsg}, {"sendmmsg", by_sendmmsg}, {"sendfile", by_sendfile},
};

/* --- how it breaks --- */

static void by_shutdown(void) { shutdown(the_pair[0], SHUT_WR); }
static void by_close(void) { close(the_pair[1]); }
static void by_reset(void) {
    struct linger linger = {1, 0};
    setsockopt(the_pair[1], SOL_SOCKET, SO_LINGER, &linger, sizeof linger);
    close(the_pair[1]);
}
static void by_shut_reading(void) { shutdown(the_pair[1], SHUT_RD); }
static const struct {
    const char *name;
    void (*run)(void);
} ends[] = {{"shutdown", by_shutdown}, {"close", by_close}, {"reset", by_reset}, {"peer reads no more", by_shut_reading}};

static atomic_int handled;
static void count(int signal) {
    (void)signal;
    handled++;
}
static int is_pending(void) {
    sigset_t set;
    sigpending(&set);
    return sigismember(&set, SIGPIPE);
}

/* Three sends after the break; in a child of its own, which one disposition kills. */
static void in_child(int sender, int end, int disposition) {
    static void (*const handlers[])(int) = {SIG_DFL, SIG_IGN, count, SIG_DFL};
    struct sigaction action = {.sa_handler = handlers[disposition]};
    sigset_t set;
    sigemptyset(&set);
    sigaddset(&set, SIGPIPE);
    sigaction(SIGPIPE, &action, NULL);
    if (disposition == 3)
        sigprocmask(SIG_BLOCK, &set, NULL);
    warm_pair(the_pair);
    ends[end].run();
    nap_us(2000);
    for (int turn = 0; turn < 3; turn++) {
        long value = senders[sender].run();
        printf(" %s", result(value));
        fflush(stdout);
        nap_us(2000);
    }
    printf(", handled %d, pending %d", (int)handled, is_pending());
    fflush(stdout);
    _exit(0);
}
static void one(int sender, int end, int disposition) {
    static const char *const names[] = {"default", "ignored", "handled", "blocked"};
    int status;
    printf("%s, %s, %s:", senders[sender].name, ends[end].name, names[disposition]);
    fflush(stdout);
    pid_t child = fork();
    if (child == 0)
        in_child(sender, end, disposition);
    CHECK(waitpid(child, &status, 0) == child);
    printf(", %s %d\n", WIFSIGNALED(status) ? "killed by" : "exit", WIFSIGNALED(status) ? WTERMSIG(status) : WEXITSTATUS(status));
}

/* A sender that waits for room when the connection breaks. */
static void break_later(void *arg) {
    const int *end = arg;
    await_sleep(getpid());
    ends[*end].run();
}
static void while_asleep(int end) {
    struct sigaction action = {.sa_handler = count};
    struct later later;
    sigaction(SIGPIPE, &action, NULL);
    warm_pair(the_pair);
    fill(the_pair[0]);
    handled = 0;
    later_begin(&later, 1000, break_later, &end);
    long value = by_send();
    later_end(&later);
    printf("asleep, %s: %s, handled %d\n", ends[end].name, result(value), (int)handled);
    close(the_pair[0]);
    close(the_pair[1]);
}

int main(void) {
    patience = 1000;
    setvbuf(stdout, NULL, _IOFBF, 1 << 16);
    file = open("/proc/self/exe", O_RDONLY);
    for (int sender = 0; sender < 8; sender++)
        for (int disposition = 0; disposition < 4; disposition++)
            one(sender, sender % 2, disposition);
    for (int end = 0; end < 4; end++)
        for (int disposition = 0; disposition < 4; disposition++)
            one(2, end, disposition);
    while_asleep(0);
    while_asleep(2);
    fflush(stdout);
    return 0;
}
