/* Pointers that cannot be good: null and low ones, the kernel's half, ranges that wrap, and bad
 * vectors, messages, lists and sets. EFAULT, and nothing is lost. */
#include "calls.h"
#include <sys/ioctl.h>
#include <sys/sendfile.h>

static void *const bad[] = {NULL,
                            (void *)8,
                            (void *)0x1000,
                            (void *)0xffffUL,
                            (void *)0x800000000000UL,
                            (void *)0x4141414141414141UL,
                            (void *)0xffff800000000000UL,
                            (void *)-9L,
                            (void *)-1L};
enum { BAD = sizeof bad / sizeof *bad };
static char room[64];
static void *the_bad;

static long f_recv(void) { return recv(the_pair[0], the_bad, 8, 0); }
static long f_peek(void) { return recv(the_pair[0], the_bad, 8, MSG_PEEK); }
static long f_waitall(void) { return recv(the_pair[0], the_bad, 4, MSG_WAITALL); }
static long f_read(void) { return read(the_pair[0], the_bad, 8); }
static long f_recvfrom(void) { return recvfrom(the_pair[0], the_bad, 8, 0, NULL, NULL); }
static long f_readv(void) {
    struct iovec list[2] = {{the_bad, 4}, {room, 4}};
    return readv(the_pair[0], list, 2);
}
static long f_readv_second(void) {
    struct iovec list[2] = {{room, 2}, {the_bad, 4}};
    return readv(the_pair[0], list, 2);
}
static long f_readv_unused(void) {
    struct iovec list[3] = {{the_bad, 0}, {room, 4}, {the_bad, 4}};
    return readv(the_pair[0], list, 3);
}
static long f_readv_list(void) { return readv(the_pair[0], the_bad, 2); }
static long f_recvmsg(void) {
    struct iovec list = {the_bad, 8};
    struct msghdr message = {.msg_iov = &list, .msg_iovlen = 1};
    return recvmsg(the_pair[0], &message, 0);
}
static long f_recvmsg_list(void) {
    struct msghdr message = {.msg_iov = the_bad, .msg_iovlen = 1};
    return recvmsg(the_pair[0], &message, 0);
}
static long f_recvmsg_header(void) { return recvmsg(the_pair[0], the_bad, 0); }
static long f_recvmmsg(void) { return recvmmsg(the_pair[0], the_bad, 1, 0, NULL); }
static long f_send(void) { return send(the_pair[0], the_bad, 8, 0); }
static long f_write(void) { return write(the_pair[0], the_bad, 8); }
static long f_sendto(void) { return sendto(the_pair[0], the_bad, 8, 0, NULL, 0); }
static long f_writev(void) {
    struct iovec list[2] = {{the_bad, 4}, {room, 4}};
    return writev(the_pair[0], list, 2);
}
static long f_writev_list(void) { return writev(the_pair[0], the_bad, 2); }
static long f_sendmsg(void) {
    struct iovec list = {the_bad, 8};
    struct msghdr message = {.msg_iov = &list, .msg_iovlen = 1};
    return sendmsg(the_pair[0], &message, 0);
}
static long f_sendmsg_list(void) {
    struct msghdr message = {.msg_iov = the_bad, .msg_iovlen = 1};
    return sendmsg(the_pair[0], &message, 0);
}
static long f_sendmsg_header(void) { return sendmsg(the_pair[0], the_bad, 0); }
static long f_sendmmsg(void) { return sendmmsg(the_pair[0], the_bad, 1, 0); }
static long f_sendfile(void) {
    static int file = -1;
    if (file < 0)
        file = open("/proc/self/exe", O_RDONLY);
    return the_bad ? sendfile(the_pair[0], file, the_bad, 8) : -2;
}
static long f_poll(void) { return poll(the_bad, 1, 1000); }
static long f_select(void) { return the_bad ? select(the_pair[0] + 1, the_bad, NULL, NULL, NULL) : -2; }
static long f_epoll_wait(void) {
    need_set();
    return epoll_wait(the_set, the_bad, 4, 1000);
}
static long f_epoll_add(void) {
    need_set();
    return epoll_ctl(the_set, EPOLL_CTL_MOD, the_pair[0], the_bad);
}
static long f_fionread(void) { return ioctl(the_pair[0], FIONREAD, the_bad); }
static long f_fionbio(void) { return ioctl(the_pair[0], FIONBIO, the_bad); }
static long f_setsockopt(void) { return setsockopt(the_pair[0], SOL_SOCKET, SO_RCVTIMEO, the_bad, 16); }
static long f_lowat(void) { return setsockopt(the_pair[0], SOL_SOCKET, SO_RCVLOWAT, the_bad, 4); }
static const struct {
    const char *name;
    long (*run)(void);
} tries[] = {
    {"recv", f_recv},
    {"recv, peeking", f_peek},
    {"recv, waiting for all", f_waitall},
    {"read", f_read},
    {"recvfrom", f_recvfrom},
    {"readv", f_readv},
    {"readv, second", f_readv_second},
    {"readv, list", f_readv_list},
    {"recvmsg", f_recvmsg},
    {"recvmsg, list", f_recvmsg_list},
    {"recvmsg, header", f_recvmsg_header},
    {"recvmmsg", f_recvmmsg},
    {"send", f_send},
    {"write", f_write},
    {"sendto", f_sendto},
    {"writev", f_writev},
    {"writev, list", f_writev_list},
    {"sendmsg", f_sendmsg},
    {"sendmsg, list", f_sendmsg_list},
    {"sendmsg, header", f_sendmsg_header},
    {"sendmmsg", f_sendmmsg},
    {"sendfile", f_sendfile},
    {"poll", f_poll},
    {"select", f_select},
    {"epoll_wait", f_epoll_wait},
    {"epoll_ctl", f_epoll_add},
    {"FIONREAD", f_fionread},
    {"FIONBIO", f_fionbio},
    {"SO_RCVTIMEO", f_setsockopt},
    {"SO_RCVLOWAT", f_lowat},
};

/* What was there before is still there, and the connection works. */
static void still_there(const char *expected) {
    char got[16];
    long n = recv(the_pair[0], got, sizeof got, MSG_DONTWAIT);
    CHECK(n == (long)strlen(expected) && memcmp(got, expected, n) == 0);
    CHECK(recv(the_pair[1], got, sizeof got, MSG_DONTWAIT) < 0 && errno == EAGAIN);
    ping_pong(the_pair, 2);
}
static void with_data(void) {
    for (size_t i = 0; i < sizeof tries / sizeof *tries; i++) {
        printf("%s:", tries[i].name);
        warm_pair(the_pair);
        for (int k = 0; k < BAD; k++) {
            send_all(the_pair[1], "abcd", 4);
            struct pollfd entry = {the_pair[0], POLLIN, 0};
            CHECK(poll(&entry, 1, 1000) == 1);
            the_bad = bad[k];
            errno = 0;
            long value = tries[i].run();
            printf(" %s", value == -2 ? "-" : result(value));
            still_there("abcd");
        }
        printf("\n");
        end_call(0);
    }
}

static void send_later(void *arg) {
    (void)arg;
    await_sleep(getpid());
    send_all(the_pair[1], "abcd", 4);
}
/* Without data: refused at once, or when there is some. */
static void without_data(void) {
    static const int some[] = {0, 5, 8, 24};
    for (size_t i = 0; i < sizeof some / sizeof *some; i++) {
        for (int k = 0; k < BAD; k += 3) {
            struct later later;
            warm_pair(the_pair);
            the_bad = bad[k];
            later_begin(&later, 1000, send_later, NULL);
            long value = tries[some[i]].run();
            const char *text = result(value);
            printf("%s, without data: %s, there %ld\n", tries[some[i]].name, text,
                   (long)recv(the_pair[0], room, 8, MSG_DONTWAIT));
            later_end(&later);
            empty(0);
            end_call(0);
        }
    }
}
/* Buffers that are bad behind what is needed; too many; of negative length. */
static void odd_vectors(void) {
    static struct iovec many[1025];
    static volatile size_t below_zero = -5;
    char byte[4];
    warm_pair(the_pair);
    the_bad = (void *)8;
    send_all(the_pair[1], "abcd", 4);
    struct pollfd entry = {the_pair[0], POLLIN, 0};
    CHECK(poll(&entry, 1, 1000) == 1);
    long value = f_readv_unused();
    printf("readv, the bad one unused: %s\n", result(value));
    struct iovec half[2] = {{byte, 4}, {(void *)8, 4}};
    memcpy(byte, "wxyz", 4);
    value = writev(the_pair[0], half, 2);
    printf("writev, the second is bad: %s\n", result(value));
    drain(the_pair[1], value > 0 ? value : 0);
    for (int i = 0; i < 1025; i++)
        many[i] = (struct iovec){byte, 1};
    struct msghdr message = {.msg_iov = many, .msg_iovlen = 1025};
    printf("too many: %s", result(readv(the_pair[0], many, 1025)));
    printf(" %s", result(writev(the_pair[0], many, 1025)));
    printf(" %s", result(recvmsg(the_pair[0], &message, 0)));
    printf(" %s\n", result(sendmsg(the_pair[0], &message, 0)));
    struct iovec negative[2] = {{byte, 4}, {byte, below_zero}};
    message.msg_iov = negative;
    message.msg_iovlen = 2;
    printf("negative: %s", result(readv(the_pair[0], negative, 2)));
    printf(" %s", result(writev(the_pair[0], negative, 2)));
    printf(" %s", result(recvmsg(the_pair[0], &message, 0)));
    printf(" %s", result(sendmsg(the_pair[0], &message, 0)));
    printf(" %s", result(read(the_pair[0], byte, below_zero)));
    printf(" %s\n", result(write(the_pair[0], byte, below_zero)));
    end_call(0);
    /* The address of the sender has nowhere to go: what was received is gone. */
    warm_pair(the_pair);
    struct sockaddr_in address;
    for (int k = 0; k < BAD; k++) {
        send_all(the_pair[1], "abcd", 4);
        CHECK(poll(&entry, 1, 1000) == 1);
        printf("recvfrom, address: %s", result(recvfrom(the_pair[0], room, 8, 0, (struct sockaddr *)&address, bad[k])));
        printf(", then %s\n", result(recv(the_pair[0], room, 8, MSG_DONTWAIT)));
    }
    end_call(0);
    /* Other errors come first. */
    warm_pair(the_pair);
    shutdown(the_pair[0], SHUT_WR);
    printf("after shutdown: %s\n", result(send(the_pair[0], NULL, 8, MSG_NOSIGNAL)));
    close(the_pair[1]);
    nap_us(2000);
    printf("at the end: %s\n", result(recv(the_pair[0], NULL, 8, 0)));
    close(the_pair[0]);
}

int main(void) {
    patience = 1000;
    setvbuf(stdout, NULL, _IOLBF, 0);
    with_data();
    without_data();
    odd_vectors();
    return 0;
}
