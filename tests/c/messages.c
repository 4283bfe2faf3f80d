/* Calls that move many messages (recvmmsg, sendmmsg): their time limits, counts, ends and errors; and names of
 * messages that cannot be. Prints what a program sees. */
#include "pair.h"

enum { MANY = 1100 };

static void say(const char *what, long value) { printf("%s: %s\n", what, result(value)); }

static void number(const char *what, long value) { printf("  %s %ld\n", what, value); }

/* So many messages of `size` bytes each, over one buffer. */
static struct mmsghdr *messages(int count, size_t size) {
    static char bytes[1 << 20];
    static struct mmsghdr all[MANY];
    static struct iovec pieces[MANY];
    CHECK(count <= MANY);
    for (int i = 0; i < count; i++) {
        pieces[i] = (struct iovec){bytes, size};
        all[i] = (struct mmsghdr){.msg_hdr = {.msg_iov = &pieces[i], .msg_iovlen = 1}};
    }
    return all;
}

static void leftover(int fd) {
    int left = -1;
    CHECK(ioctl(fd, FIONREAD, &left) == 0);
    number("left", left);
}

/* Bytes for the other end, which are there when this returns. */
static void put(const int pair[2], const char *text) {
    send_all(pair[0], text, strlen(text));
    nap_us(3000);
}

static void bad_times(void) {
    static const struct timespec times[] = {{-1, 0}, {0, -1}, {0, 1000000000}, {-1, -1}, {5, 1L << 40}};
    for (unsigned i = 0; i < sizeof times / sizeof *times; i++) {
        int pair[2];
        warm_pair(pair);
        struct timespec time = times[i];
        say("a bad time, nothing there", recvmmsg(pair[1], messages(2, 10), 2, MSG_DONTWAIT, &time));
        put(pair, "abc");
        say("a bad time, bytes there", recvmmsg(pair[1], messages(2, 10), 2, 0, &time));
        number("unchanged", time.tv_sec == times[i].tv_sec && time.tv_nsec == times[i].tv_nsec);
        leftover(pair[1]);
        close(pair[1]);
        say("a bad time, no socket", recvmmsg(pair[1], messages(2, 10), 2, 0, &time));
        close(pair[0]);
    }
}

static void time_left(void) {
    int pair[2];
    warm_pair(pair);
    put(pair, "abcde");
    struct timespec time = {5, 0};
    say("one message within five seconds", recvmmsg(pair[1], messages(1, 1), 1, 0, &time));
    number("whole seconds left", time.tv_sec);
    time = (struct timespec){0, 0};
    say("no time", recvmmsg(pair[1], messages(3, 1), 3, 0, &time));
    number("seconds left", time.tv_sec);
    time = (struct timespec){0, 1};
    say("hardly any time", recvmmsg(pair[1], messages(3, 1), 3, 0, &time));
    number("nanoseconds left", time.tv_nsec);
    time = (struct timespec){INT64_MAX, 999999999};
    say("for ever", recvmmsg(pair[1], messages(2, 1), 2, 0, &time));
    number("beyond the end", time.tv_sec > INT64_MAX - (1L << 40));
    time = (struct timespec){7, 7};
    say("nothing there", recvmmsg(pair[1], messages(2, 1), 2, MSG_DONTWAIT, &time));
    number("unchanged", time.tv_sec == 7 && time.tv_nsec == 7);
    close_pair(pair);
}

static void counts(void) {
    static char text[MANY + 1];
    memset(text, 'x', MANY);
    int pair[2];
    warm_pair(pair);
    put(pair, "abc");
    say("wait for one, of five", recvmmsg(pair[1], messages(5, 1), 5, MSG_WAITFORONE, NULL));
    put(pair, text);
    say("more than 1024", recvmmsg(pair[1], messages(MANY, 1), MANY, MSG_WAITFORONE, NULL));
    leftover(pair[1]);
    say("none at all", recvmmsg(pair[1], messages(1, 1), 0, 0, NULL));
    say("more than 1024 to send", sendmmsg(pair[0], messages(MANY, 1), MANY, 0));
    drain(pair[1], 1024);
    say("none to send", sendmmsg(pair[0], messages(1, 1), 0, 0));
    struct mmsghdr *big = messages(100, 1 << 20);
    long sent = sendmmsg(pair[0], big, 100, MSG_DONTWAIT);
    number("some, not all", sent > 0 && sent < 100);
    for (long i = 0; i + 1 < sent; i++)
        CHECK(big[i].msg_len == 1 << 20);
    close_pair(pair);
}

static void reset_peer(void *arg) {
    struct linger hard = {1, 0};
    CHECK(setsockopt(*(int *)arg, SOL_SOCKET, SO_LINGER, &hard, sizeof hard) == 0);
    close(*(int *)arg);
}

static void close_peer(void *arg) { close(*(int *)arg); }

static void ends(void) {
    int pair[2];
    struct later later;
    struct mmsghdr *all = messages(3, 4);
    warm_pair(pair);
    put(pair, "abcd");
    later_begin(&later, 30000, close_peer, &pair[0]);
    say("a message and the end", recvmmsg(pair[1], all, 3, 0, NULL));
    number("first", all[0].msg_len);
    number("last", all[2].msg_len);
    later_end(&later);
    close(pair[1]);
    warm_pair(pair);
    put(pair, "abcd");
    later_begin(&later, 30000, reset_peer, &pair[0]);
    say("a message and a reset", recvmmsg(pair[1], messages(3, 4), 3, 0, NULL));
    later_end(&later);
    say("the reset", recv(pair[1], all, 1, 0));
    say("and the end", recv(pair[1], all, 1, 0));
    close(pair[1]);
}

static void names(void) {
    int pair[2];
    char bytes[16], name[64];
    struct iovec piece = {bytes, 4};
    struct msghdr message = {.msg_iov = &piece, .msg_iovlen = 1, .msg_namelen = 55};
    warm_pair(pair);
    put(pair, "abcdefghijklmnop");
    say("no name, of some length", recvmsg(pair[1], &message, 0));
    number("length", message.msg_namelen);
    say("to no name, of some length", sendmsg(pair[1], &message, 0));
    message.msg_name = name;
    say("a name", recvmsg(pair[1], &message, 0));
    number("length", message.msg_namelen);
    message.msg_namelen = -1;
    say("a name of negative length", recvmsg(pair[1], &message, 0));
    say("to a name of negative length", sendmsg(pair[1], &message, 0));
    message.msg_name = NULL;
    say("no name, of negative length", recvmsg(pair[1], &message, 0));
    socklen_t length = -1;
    say("room of negative length", recvfrom(pair[1], bytes, 2, 0, (void *)name, &length));
    number("length", (int)length);
    leftover(pair[1]);
    static const socklen_t lengths[] = {-1, 129, 128, 16, 2, 0};
    struct sockaddr_storage address = {.ss_family = AF_INET};
    for (unsigned i = 0; i < sizeof lengths / sizeof *lengths; i++)
        say("an address of some length", sendto(pair[1], bytes, 2, 0, (void *)&address, lengths[i]));
    say("none, of some length", sendto(pair[1], bytes, 2, 0, NULL, 4711));
    close_pair(pair);
}

int main(void) {
    bad_times();
    time_left();
    counts();
    ends();
    names();
    return 0;
}
