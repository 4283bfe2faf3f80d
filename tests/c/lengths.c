/* Lengths that no buffer has: negative ones, ones beyond user space, ones that the kernel cuts; for each call that
 * moves bytes. Prints what a program sees. */
#include "pair.h"
#include <sys/personality.h>
#include <sys/sendfile.h>

/* Of the buffer that all lengths begin at: larger than what the kernel moves at once. */
static const size_t MAPPED = 3UL << 30;
static const char *where;
static int one[2];

static void say(const char *what, size_t length, long value) {
    printf("%s %s of %zx: %s\n", where, what, length, value > 64 ? "much" : result(value));
}

static void reset(void) {
    static char bytes[65536];
    nap_us(1000);
    for (int idle = 0; idle < 3; idle++)
        while (recv(one[1], bytes, sizeof bytes, MSG_DONTWAIT) > 0)
            idle = 0;
}

#define IN(what, call)                                                                             \
    do {                                                                                           \
        reset();                                                                                   \
        say("nothing: " what, length, call);                                                       \
        send_all(one[0], "abcd", 4);                                                               \
        nap_us(300);                                                                               \
        say(what, length, call);                                                                   \
    } while (0)

static void receives(char *bytes, size_t length) {
    int fd = one[1];
    struct iovec whole = {bytes, length}, two[2] = {{bytes, 2}, {bytes, length}};
    struct msghdr message = {.msg_iov = &whole, .msg_iovlen = 1};
    struct msghdr both = {.msg_iov = two, .msg_iovlen = 2};
    struct mmsghdr messages = {.msg_hdr = message};
    IN("read", read(fd, bytes, length));
    IN("recv", recv(fd, bytes, length, 0));
    IN("peek", recv(fd, bytes, length, MSG_PEEK));
    IN("truncated", recv(fd, bytes, length, MSG_TRUNC));
    IN("recvfrom", recvfrom(fd, bytes, length, 0, NULL, NULL));
    IN("readv", readv(fd, &whole, 1));
    IN("readv of two", readv(fd, two, 2));
    IN("preadv2", preadv2(fd, &whole, 1, -1, 0));
    IN("recvmsg", recvmsg(fd, &message, 0));
    IN("recvmsg of two", recvmsg(fd, &both, 0));
    IN("recvmmsg", recvmmsg(fd, &messages, 1, 0, NULL));
}

#define OUT(what, call)                                                                            \
    do {                                                                                           \
        say(what, length, call);                                                                   \
        reset();                                                                                   \
    } while (0)

static void sends(char *bytes, size_t length) {
    int fd = one[0];
    struct iovec whole = {bytes, length}, two[2] = {{bytes, 2}, {bytes, length}};
    struct msghdr message = {.msg_iov = &whole, .msg_iovlen = 1};
    struct mmsghdr messages = {.msg_hdr = message};
    reset();
    OUT("write", write(fd, bytes, length));
    OUT("send", send(fd, bytes, length, 0));
    OUT("writev", writev(fd, &whole, 1));
    OUT("writev of two", writev(fd, two, 2));
    OUT("sendmsg", sendmsg(fd, &message, 0));
    OUT("sendmmsg", sendmmsg(fd, &messages, 1, 0));
}

static void from_a_file(size_t length) {
    FILE *file = tmpfile();
    CHECK(file && fwrite("0123456789", 10, 1, file) == 1 && fflush(file) == 0);
    int fd = fileno(file);
    off_t at = 1;
    say("sendfile at the end", length, sendfile(one[0], fd, NULL, length));
    CHECK(lseek(fd, 0, SEEK_SET) == 0);
    say("sendfile at the beginning", length, sendfile(one[0], fd, NULL, length));
    say("sendfile further on", length, sendfile(one[0], fd, &at, length));
    reset();
    fclose(file);
}

/* Whether a long range that begins on the stack ends in user space depends on where the stack is. */
static void fix_addresses(char **argv) {
    int now = personality(0xffffffff);
    if (now & ADDR_NO_RANDOMIZE)
        return;
    CHECK(personality(now | ADDR_NO_RANDOMIZE) >= 0);
    execv("/proc/self/exe", argv);
    CHECK(0);
}

int main(int argc, char **argv) {
    static const size_t lengths[] = {-1,         (size_t)INT64_MAX + 1, INT64_MAX,  1UL << 47,
                                     1UL << 46, 1UL << 40,             0x7ffff001, 0x7fffffff};
    char on_stack[64];
    (void)argc;
    fix_addresses(argv);
    char *low = mmap((void *)(1L << 44), MAPPED, PROT_READ | PROT_WRITE,
                     MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    CHECK(low == (char *)(1L << 44));
    warm_pair(one);
    CHECK(fcntl(one[0], F_SETFL, O_NONBLOCK) == 0 && fcntl(one[1], F_SETFL, O_NONBLOCK) == 0);
    for (unsigned i = 0; i < sizeof lengths / sizeof *lengths; i++) {
        where = "low";
        receives(low, lengths[i]);
        sends(low, lengths[i]);
        from_a_file(lengths[i]);
        /* The end of user space is near. */
        where = "high";
        receives(on_stack, lengths[i]);
    }
    close_pair(one);
    return 0;
}
