/* Every call that can block on a connection, in one form: it waits on pair[0]. */
#include "pair.h"

static int the_pair[2];

static long call_recv(void) {
    char byte[8];
    return recv(the_pair[0], byte, sizeof byte, 0);
}
static long call_read(void) {
    char byte[8];
    return read(the_pair[0], byte, sizeof byte);
}
static long call_readv(void) {
    char byte[8];
    struct iovec list[2] = {{byte, 4}, {byte + 4, 4}};
    return readv(the_pair[0], list, 2);
}
static long call_recvfrom(void) {
    char byte[8];
    return recvfrom(the_pair[0], byte, sizeof byte, 0, NULL, NULL);
}
static long call_recvmsg(void) {
    char byte[8];
    struct iovec list = {byte, 8};
    struct msghdr message = {.msg_iov = &list, .msg_iovlen = 1};
    return recvmsg(the_pair[0], &message, 0);
}
static long call_recvmmsg(void) {
    char byte[8];
    struct iovec list = {byte, 8};
    struct mmsghdr message = {.msg_hdr = {.msg_iov = &list, .msg_iovlen = 1}};
    return recvmmsg(the_pair[0], &message, 1, 0, NULL);
}
static long call_poll(void) {
    struct pollfd entry = {the_pair[0], POLLIN, 0};
    return poll(&entry, 1, -1);
}
static long call_poll_time(void) {
    struct pollfd entry = {the_pair[0], POLLIN, 0};
    return poll(&entry, 1, 10000);
}
static long call_poll_two(void) {
    struct pollfd entry[2] = {{the_pair[0], POLLIN, 0}, {the_pair[1], POLLIN, 0}};
    return poll(entry, 2, -1);
}
static long call_ppoll(void) {
    struct pollfd entry = {the_pair[0], POLLIN, 0};
    return ppoll(&entry, 1, NULL, NULL);
}
static long call_select(void) {
    fd_set set;
    FD_ZERO(&set);
    FD_SET(the_pair[0], &set);
    return select(the_pair[0] + 1, &set, NULL, NULL, NULL);
}
static long call_pselect(void) {
    fd_set set;
    sigset_t none;
    sigemptyset(&none);
    FD_ZERO(&set);
    FD_SET(the_pair[0], &set);
    return pselect(the_pair[0] + 1, &set, NULL, NULL, NULL, &none);
}
static int the_set = -1;
static void need_set(void) {
    if (the_set >= 0)
        return;
    struct epoll_event event = {.events = EPOLLIN};
    the_set = epoll_create1(0);
    CHECK(epoll_ctl(the_set, EPOLL_CTL_ADD, the_pair[0], &event) == 0);
}
static long call_epoll_wait(void) {
    struct epoll_event event;
    need_set();
    return epoll_wait(the_set, &event, 1, -1);
}
static long call_epoll_pwait(void) {
    struct epoll_event event;
    sigset_t none;
    sigemptyset(&none);
    need_set();
    return epoll_pwait(the_set, &event, 1, -1, &none);
}
/* The senders find the connection full. */
static char big[1 << 16];
static long call_send(void) { return send(the_pair[0], big, sizeof big, 0); }
static long call_write(void) { return write(the_pair[0], big, sizeof big); }
static long call_writev(void) {
    struct iovec list[2] = {{big, sizeof big / 2}, {big, sizeof big / 2}};
    return writev(the_pair[0], list, 2);
}
static long call_sendmsg(void) {
    struct iovec list = {big, sizeof big};
    struct msghdr message = {.msg_iov = &list, .msg_iovlen = 1};
    return sendmsg(the_pair[0], &message, 0);
}
static long call_poll_out(void) {
    struct pollfd entry = {the_pair[0], POLLOUT, 0};
    return poll(&entry, 1, -1);
}

struct call {
    const char *name;
    long (*run)(void);
    int out;
    int moves; /* bytes, where the rest only wait */
};

static const struct call calls[] = {
    {"recv", call_recv, 0, 1},
    {"read", call_read, 0, 1},
    {"readv", call_readv, 0, 1},
    {"recvfrom", call_recvfrom, 0, 1},
    {"recvmsg", call_recvmsg, 0, 1},
    {"recvmmsg", call_recvmmsg, 0, 1},
    {"poll", call_poll, 0, 0},
    {"poll with a timeout", call_poll_time, 0, 0},
    {"poll of two", call_poll_two, 0, 0},
    {"ppoll", call_ppoll, 0, 0},
    {"select", call_select, 0, 0},
    {"pselect", call_pselect, 0, 0},
    {"epoll_wait", call_epoll_wait, 0, 0},
    {"epoll_pwait", call_epoll_pwait, 0, 0},
    {"send", call_send, 1, 1},
    {"write", call_write, 1, 1},
    {"writev", call_writev, 1, 1},
    {"sendmsg", call_sendmsg, 1, 1},
    {"poll for writing", call_poll_out, 1, 0},
};

#define EACH_CALL(call) (const struct call *call = calls; call < calls + sizeof calls / sizeof *calls; call++)

/* A warm pair of which `call` will block. */
static size_t the_fill;
static inline void begin_call(const struct call *call) {
    warm_pair(the_pair);
    the_fill = call->out ? fill(the_pair[0]) : 0;
}
/* Takes what is there; kernel TCP moves bytes on by itself for a while. */
static inline void empty(int end) {
    char bytes[4096];
    for (int idle = 0; idle < 4; idle++) {
        while (recv(the_pair[end], bytes, sizeof bytes, MSG_DONTWAIT) > 0)
            idle = 0;
        nap_us(2000);
    }
}
/* Takes what is there, checks that the connection still works, and closes it. */
static inline void end_call(size_t left_to_read) {
    drain(the_pair[1], left_to_read);
    ping_pong(the_pair, 20);
    if (the_set >= 0)
        close(the_set);
    the_set = -1;
    close_pair(the_pair);
}
