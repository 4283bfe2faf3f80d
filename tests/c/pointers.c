/* Every call that takes a pointer, with pointers that are bad in every way, on every kind of
 * descriptor: the results, what is left to read and what has arrived. With an argument the program
 * has no TCP socket at all. */
#include "pair.h"
#include <linux/sched.h>
#include <linux/sockios.h>
#include <sys/sendfile.h>
#include <sys/un.h>

enum kind { NIL, ODD, LOW, NOTHING, GONE, KERNEL, NOWHERE, LAST, READ_ONLY, CUT, BEYOND, KINDS };
static const char *const kinds[KINDS] = {"null", "1",       "low", "no access", "unmapped", "kernel's",
                                         "none", "highest", "r/o", "cut",       "beyond"};
static enum kind the_kind;
static char *two_pages, *read_only, *no_access, *beyond;
enum { PAGE = 4096 };

static char *map(size_t size, int file) {
    void *at = mmap(NULL, size, PROT_READ | PROT_WRITE, file < 0 ? MAP_PRIVATE | MAP_ANONYMOUS : MAP_SHARED, file, 0);
    CHECK(at != MAP_FAILED);
    return at;
}
static void make_memory(void) {
    int file = memfd_create("short", 0);
    CHECK(file >= 0 && ftruncate(file, PAGE) == 0);
    read_only = map(PAGE, -1);
    no_access = map(PAGE, -1);
    CHECK(mprotect(no_access, PAGE, PROT_NONE) == 0);
    two_pages = map(2 * PAGE, -1);
    CHECK(mprotect(two_pages + PAGE, PAGE, PROT_NONE) == 0);
    beyond = map(2 * PAGE, file) + PAGE;
    close(file);
}
/* A pointer of this kind, with as much of the content as has a place there. */
static void *bad(const void *content, size_t size) {
    switch (the_kind) {
    case NIL: return NULL;
    case ODD: return (void *)1;
    case LOW: return (void *)0x1008;
    case NOTHING: return no_access;
    /* Where nobody maps anything. */
    case GONE: return (void *)0x123456000040UL;
    case KERNEL: return (void *)0xffff800000000000UL;
    case NOWHERE: return (void *)0x4141414141414141UL;
    case LAST: return (void *)-9L;
    case READ_ONLY:
        CHECK(mprotect(read_only, PAGE, PROT_READ | PROT_WRITE) == 0);
        memset(read_only, 0, PAGE);
        memcpy(read_only, content, size);
        CHECK(mprotect(read_only, PAGE, PROT_READ) == 0);
        return read_only;
    case CUT:
        memset(two_pages, 0, PAGE);
        memcpy(two_pages + PAGE - size / 2, content, size / 2);
        return two_pages + PAGE - size / 2;
    default: return beyond + 8;
    }
}
#define BAD(value) bad(&(value), sizeof(value))

static int fd, the_set, the_file;
static char room[64];
static struct iovec good = {room, 4};

static long c_recv(void) { return recv(fd, bad("1234", 4), 4, 0); }
static long c_recv_peek(void) { return recv(fd, bad("1234", 4), 4, MSG_PEEK); }
static long c_recv_all(void) { return recv(fd, bad("1234", 4), 4, MSG_WAITALL); }
static long c_recv_trunc(void) { return recv(fd, bad("1234", 4), 4, MSG_TRUNC); }
static long c_read(void) { return read(fd, bad("1234", 4), 4); }
static long c_recvfrom(void) { return recvfrom(fd, bad("1234", 4), 4, 0, NULL, NULL); }
static long c_recvfrom_length(void) {
    struct sockaddr_storage address;
    socklen_t length = sizeof address;
    return recvfrom(fd, room, 4, 0, (struct sockaddr *)&address, BAD(length));
}
static long c_readv_list(void) { return readv(fd, BAD(good), 1); }
static long c_readv(void) {
    struct iovec list[2] = {{bad("12", 2), 2}, {room, 4}};
    return readv(fd, list, 2);
}
static long c_readv_second(void) {
    struct iovec list[2] = {{room, 2}, {bad("12", 2), 2}};
    return readv(fd, list, 2);
}
static long c_preadv2(void) { return preadv2(fd, BAD(good), 1, -1, 0); }
static struct msghdr message(void) { return (struct msghdr){.msg_iov = &good, .msg_iovlen = 1}; }
static long c_recvmsg_header(void) {
    struct msghdr header = message();
    return recvmsg(fd, BAD(header), 0);
}
static long c_recvmsg_list(void) {
    struct msghdr header = {.msg_iov = BAD(good), .msg_iovlen = 1};
    return recvmsg(fd, &header, 0);
}
static long c_recvmsg(void) {
    struct iovec list = {bad("1234", 4), 4};
    struct msghdr header = {.msg_iov = &list, .msg_iovlen = 1};
    return recvmsg(fd, &header, 0);
}
static long c_recvmsg_control(void) {
    struct msghdr header = message();
    header.msg_control = bad(room, 32);
    header.msg_controllen = 32;
    return recvmsg(fd, &header, 0);
}
static long c_recvmmsg(void) {
    struct mmsghdr header = {message(), 0};
    return recvmmsg(fd, BAD(header), 1, MSG_DONTWAIT, NULL);
}
static long c_recvmmsg_time(void) {
    struct mmsghdr header = {message(), 0};
    struct timespec time = {1, 0};
    return syscall(SYS_recvmmsg, fd, &header, 1, MSG_DONTWAIT, BAD(time));
}
static long c_send(void) { return send(fd, bad("1234", 4), 4, 0); }
static long c_write(void) { return write(fd, bad("1234", 4), 4); }
static long c_sendto(void) { return sendto(fd, bad("1234", 4), 4, 0, NULL, 0); }
static long c_sendto_address(void) {
    struct sockaddr_in address = {.sin_family = AF_INET};
    return the_kind == NIL ? 0 : sendto(fd, "1234", 4, 0, BAD(address), sizeof address);
}
static long c_writev_list(void) { return writev(fd, BAD(good), 1); }
static long c_writev(void) {
    struct iovec list[2] = {{bad("12", 2), 2}, {room, 4}};
    return writev(fd, list, 2);
}
static long c_writev_second(void) {
    struct iovec list[2] = {{room, 2}, {bad("12", 2), 2}};
    return writev(fd, list, 2);
}
static long c_pwritev2(void) { return pwritev2(fd, BAD(good), 1, -1, 0); }
static long c_sendmsg_header(void) {
    struct msghdr header = message();
    return sendmsg(fd, BAD(header), 0);
}
static long c_sendmsg_list(void) {
    struct msghdr header = {.msg_iov = BAD(good), .msg_iovlen = 1};
    return sendmsg(fd, &header, 0);
}
static long c_sendmsg(void) {
    struct iovec list = {bad("1234", 4), 4};
    struct msghdr header = {.msg_iov = &list, .msg_iovlen = 1};
    return sendmsg(fd, &header, 0);
}
static long c_sendmsg_control(void) {
    char rights[CMSG_SPACE(sizeof(int))] = {0};
    struct msghdr header = message();
    header.msg_control = rights;
    header.msg_controllen = sizeof rights;
    struct cmsghdr *head = CMSG_FIRSTHDR(&header);
    *head = (struct cmsghdr){CMSG_LEN(sizeof(int)), SOL_SOCKET, SCM_RIGHTS};
    memcpy(CMSG_DATA(head), &the_file, sizeof(int));
    header.msg_control = BAD(rights);
    return sendmsg(fd, &header, 0);
}
static long c_sendmmsg(void) {
    struct mmsghdr header = {message(), 0};
    return sendmmsg(fd, BAD(header), 1, 0);
}
static long c_sendfile(void) {
    off_t offset = 1;
    return the_kind == NIL ? 0 : sendfile(fd, the_file, BAD(offset), 4);
}
static long c_poll(void) {
    struct pollfd entry = {fd, POLLIN, 0};
    return poll(BAD(entry), 1, 50);
}
static long c_ppoll_time(void) {
    struct timespec time = {0, 1000000};
    struct pollfd entry = {fd, POLLIN, 0};
    return the_kind == NIL ? 0 : syscall(SYS_ppoll, &entry, 1, BAD(time), NULL, 8);
}
static long c_ppoll_mask(void) {
    unsigned long mask = 0;
    struct pollfd entry = {fd, POLLIN, 0};
    return syscall(SYS_ppoll, &entry, 1, &(struct timespec){0, 0}, BAD(mask), 8);
}
/* No more than one word: the kernel looks at as many as the table of descriptors has. */
static unsigned long with_fd(void) {
    CHECK(fd < 64);
    return fd < 0 ? 0 : 1UL << fd;
}
static long c_select(void) {
    struct timeval time = {0, 50000};
    unsigned long set = with_fd();
    return select(64, BAD(set), NULL, NULL, &time);
}
static long c_select_write(void) {
    struct timeval time = {0, 50000};
    unsigned long set = with_fd(), other = set;
    return select(64, (fd_set *)&other, BAD(set), NULL, &time);
}
static long c_select_time(void) {
    struct timeval time = {0, 50000};
    unsigned long set = with_fd();
    return the_kind == NIL ? 0 : syscall(SYS_select, fd + 1, &set, NULL, NULL, BAD(time));
}
static long c_pselect_time(void) {
    struct timespec time = {0, 50000};
    unsigned long set = with_fd();
    return the_kind == NIL ? 0 : syscall(SYS_pselect6, fd + 1, &set, NULL, NULL, BAD(time), NULL);
}
static long c_pselect_mask(void) {
    size_t mask[2] = {0, 8};
    unsigned long set = with_fd();
    return syscall(SYS_pselect6, fd + 1, &set, NULL, NULL, &(struct timespec){0, 0}, BAD(mask));
}
static long c_epoll_add(void) {
    struct epoll_event event = {.events = EPOLLIN, .data.u64 = 0xa5c396e100000001};
    epoll_ctl(the_set, EPOLL_CTL_DEL, fd, NULL);
    long value = epoll_ctl(the_set, EPOLL_CTL_ADD, fd, BAD(event));
    int error = errno;
    if (value < 0)
        epoll_ctl(the_set, EPOLL_CTL_ADD, fd, &event);
    errno = error;
    return value;
}
static long c_epoll_mod(void) {
    struct epoll_event event = {.events = EPOLLIN};
    return epoll_ctl(the_set, EPOLL_CTL_MOD, fd, BAD(event));
}
static long c_epoll_del(void) {
    struct epoll_event event = {.events = EPOLLIN};
    long value = epoll_ctl(the_set, EPOLL_CTL_DEL, fd, BAD(event));
    epoll_ctl(the_set, EPOLL_CTL_ADD, fd, &event);
    return value;
}
static long c_epoll_wait(void) {
    struct epoll_event event = {0};
    return epoll_wait(the_set, BAD(event), 1, 20);
}
static long c_epoll_many(void) {
    static struct epoll_event events[64];
    return epoll_wait(the_set, BAD(events), 64, 20);
}
static long c_epoll_mask(void) {
    struct epoll_event event;
    unsigned long mask = 0;
    return syscall(SYS_epoll_pwait, the_set, &event, 1, 20, BAD(mask), 8);
}
static long c_epoll_time(void) {
    struct epoll_event event;
    struct timespec time = {0, 0};
    return the_kind == NIL ? 0 : syscall(SYS_epoll_pwait2, the_set, &event, 1, BAD(time), NULL, 8);
}
static long c_getsockopt(void) {
    int value = 0;
    socklen_t length = sizeof value;
    return getsockopt(fd, SOL_SOCKET, SO_ERROR, BAD(value), &length);
}
static long c_getsockopt_length(void) {
    int value = 0;
    socklen_t length = sizeof value;
    return getsockopt(fd, SOL_SOCKET, SO_ERROR, &value, BAD(length));
}
static long c_tcp_info(void) {
    struct tcp_info info = {0};
    socklen_t length = sizeof info;
    return getsockopt(fd, IPPROTO_TCP, TCP_INFO, BAD(info), &length);
}
static long c_nodelay(void) {
    int on = 1;
    return setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, BAD(on), sizeof on);
}
static long c_recv_timeout(void) {
    struct timeval time = {0, 0};
    return setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, BAD(time), sizeof time);
}
static long c_timestamps(void) {
    int off = 0;
    return setsockopt(fd, SOL_SOCKET, SO_RCVLOWAT, BAD(off), sizeof off);
}
static long c_getsockname(void) {
    struct sockaddr_storage address = {0};
    socklen_t length = sizeof address;
    return getsockname(fd, BAD(address), &length);
}
static long c_getpeername_length(void) {
    struct sockaddr_storage address = {0};
    socklen_t length = sizeof address;
    return getpeername(fd, (struct sockaddr *)&address, BAD(length));
}
static long c_inq(void) {
    int value = 0;
    return ioctl(fd, FIONREAD, BAD(value));
}
static long c_outq(void) {
    int value = 0;
    return ioctl(fd, TIOCOUTQ, BAD(value));
}
static long c_nonblock(void) {
    int off = 0;
    return ioctl(fd, FIONBIO, BAD(off));
}
static long c_at_mark(void) {
    int value = 0;
    return ioctl(fd, SIOCATMARK, BAD(value));
}
static long c_connect(void) {
    struct sockaddr_in address = {.sin_family = AF_INET};
    return the_kind == READ_ONLY ? 0 : connect(fd, BAD(address), sizeof address);
}
static long c_bind(void) {
    struct sockaddr_in address = {.sin_family = AF_INET};
    return the_kind == READ_ONLY ? 0 : bind(fd, BAD(address), sizeof address);
}
/* A new connection each time; an accept that fails at the end has lost it. */
static long accept_with(struct sockaddr *address, socklen_t *length) {
    struct sockaddr_storage name;
    socklen_t size = sizeof name;
    int pair = -1, listener = fd;
    if (fd >= 0 && getsockname(fd, (struct sockaddr *)&name, &size) == 0 && name.ss_family != AF_UNIX) {
        struct sockaddr_in here = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
        int kind = 0;
        getsockopt(fd, SOL_SOCKET, SO_TYPE, &kind, &(socklen_t){sizeof kind});
        listener = socket(AF_INET, kind, 0);
        size = sizeof here;
        bind(listener, (struct sockaddr *)&here, sizeof here);
        if (listen(listener, 4) == 0) {
            getsockname(listener, (struct sockaddr *)&here, &size);
            pair = socket(AF_INET, SOCK_STREAM, 0);
            CHECK(connect(pair, (struct sockaddr *)&here, size) == 0);
        }
    }
    int new = accept(listener, address, length), error = errno;
    if (new < 0 && pair >= 0)
        printf(" (%d)", (int)recv(pair, room, 1, 0));
    if (new >= 0)
        close(new);
    if (pair >= 0)
        close(pair);
    if (listener != fd)
        close(listener);
    errno = error;
    return new >= 0 ? 0 : new;
}
static long c_accept(void) {
    struct sockaddr_storage address = {0};
    socklen_t length = sizeof address;
    return accept_with(BAD(address), &length);
}
static long c_accept_length(void) {
    struct sockaddr_storage address;
    socklen_t length = sizeof address;
    return accept_with((struct sockaddr *)&address, BAD(length));
}
static long c_limit(void) {
    struct rlimit limit;
    getrlimit(RLIMIT_NOFILE, &limit);
    return the_kind == NIL ? 0 : setrlimit(RLIMIT_NOFILE, BAD(limit));
}
static long c_limit_old(void) {
    struct rlimit limit = {0, 0};
    return prlimit(0, RLIMIT_NOFILE, NULL, BAD(limit));
}
static long c_limit_space(void) {
    struct rlimit limit = {RLIM_INFINITY, RLIM_INFINITY};
    return syscall(SYS_prlimit64, 0, RLIMIT_AS, BAD(limit), NULL);
}
static long c_clone3(void) {
    struct clone_args none = {.exit_signal = 1000};
    return syscall(SYS_clone3, BAD(none), sizeof none);
}
static long c_pipe(void) {
    int pair[2] = {0, 0};
    return pipe(BAD(pair));
}
static long c_socketpair(void) {
    int pair[2] = {0, 0};
    return socketpair(AF_UNIX, SOCK_STREAM, 0, BAD(pair));
}

#define TRY(name) {#name, c_##name}
static const struct {
    const char *name;
    long (*run)(void);
} tries[] = {
    TRY(recv), TRY(recv_peek), TRY(recv_all), TRY(recv_trunc), TRY(read), TRY(recvfrom), TRY(recvfrom_length),
    TRY(readv_list), TRY(readv), TRY(readv_second), TRY(preadv2), TRY(recvmsg_header), TRY(recvmsg_list),
    TRY(recvmsg), TRY(recvmsg_control), TRY(recvmmsg), TRY(recvmmsg_time), TRY(send), TRY(write), TRY(sendto),
    TRY(sendto_address), TRY(writev_list), TRY(writev), TRY(writev_second), TRY(pwritev2), TRY(sendmsg_header),
    TRY(sendmsg_list), TRY(sendmsg), TRY(sendmmsg), TRY(sendfile), TRY(poll), TRY(ppoll_time), TRY(ppoll_mask),
    TRY(select), TRY(select_write), TRY(select_time), TRY(pselect_time), TRY(pselect_mask), TRY(epoll_add),
    TRY(epoll_mod), TRY(epoll_del), TRY(epoll_wait), TRY(epoll_many), TRY(epoll_mask), TRY(epoll_time),
    TRY(getsockopt), TRY(getsockopt_length), TRY(tcp_info), TRY(nodelay), TRY(recv_timeout), TRY(timestamps),
    TRY(getsockname), TRY(getpeername_length), TRY(inq), TRY(outq), TRY(nonblock), TRY(at_mark), TRY(connect),
    TRY(bind), TRY(accept), TRY(accept_length), TRY(limit), TRY(limit_old), TRY(limit_space), TRY(clone3),
    TRY(pipe), TRY(socketpair), TRY(sendmsg_control),
};

/* How many bytes there are. */
static long left(int at) {
    char bytes[256];
    long total = 0, n;
    while ((n = recv(at, bytes, sizeof bytes, MSG_DONTWAIT)) > 0)
        total += n;
    return total;
}
static void try_all(const char *what, const int pair[2]) {
    fd = pair[0];
    the_set = epoll_create1(0);
    epoll_ctl(the_set, EPOLL_CTL_ADD, fd, &(struct epoll_event){.events = EPOLLIN});
    for (size_t i = 0; i < sizeof tries / sizeof *tries; i++) {
        printf("%s, %s:", what, tries[i].name);
        for (the_kind = 0; the_kind < KINDS; the_kind++) {
            if (fd >= 0) {
                send_all(pair[1], "abcd", 4);
                CHECK(poll(&(struct pollfd){fd, POLLIN, 0}, 1, 1000) == 1);
            }
            errno = 0;
            long value = tries[i].run();
            printf(" %s=%s", kinds[the_kind], result(value));
            if (fd >= 0) {
                nap_us(value > 0 ? 200 : 0);
                long unread = left(fd);
                printf("/%ld/%ld", unread, left(pair[1]));
            }
        }
        printf("\n");
    }
    close(the_set);
}

static void udp_pair(int pair[2]) {
    struct sockaddr_in address[2];
    for (int i = 0; i < 2; i++) {
        socklen_t length = sizeof address[i];
        address[i] = (struct sockaddr_in){.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
        pair[i] = socket(AF_INET, SOCK_DGRAM, 0);
        CHECK(bind(pair[i], (struct sockaddr *)&address[i], length) == 0);
        CHECK(getsockname(pair[i], (struct sockaddr *)&address[i], &length) == 0);
    }
    for (int i = 0; i < 2; i++)
        CHECK(connect(pair[i], (struct sockaddr *)&address[!i], sizeof address[i]) == 0);
}
/* Large sends of which the end is bad: how much goes is the kernel's to choose, but it arrives. */
static void send_large(const int pair[2]) {
    static char got[64 * PAGE];
    char *bytes = map(64 * PAGE, -1);
    for (int i = 0; i < 64 * PAGE; i++)
        bytes[i] = i / 7;
    for (int good_pages = 1; good_pages < 64; good_pages += 9) {
        size_t size = good_pages * PAGE;
        CHECK(mprotect(bytes, 64 * PAGE, PROT_READ | PROT_WRITE) == 0);
        CHECK(mprotect(bytes + size, 64 * PAGE - size, PROT_NONE) == 0);
        long n = send(pair[0], bytes, 64 * PAGE, MSG_DONTWAIT);
        CHECK(n == -1 ? errno == EFAULT : n > 0 && n <= (long)size);
        recv_all(pair[1], got, n > 0 ? n : 0);
        CHECK(n < 0 || memcmp(got, bytes, n) == 0);
        send_all(pair[0], bytes, size);
        n = recv(pair[1], bytes + size - 100, size, MSG_DONTWAIT);
        CHECK(n == -1 ? errno == EFAULT : n > 0 && n <= 100);
        recv_all(pair[1], got, size - (n > 0 ? n : 0));
    }
    munmap(bytes, 64 * PAGE);
}

int main(int argc, char **argv) {
    int none[2] = {-1, -1}, pair[2], on = 1;
    setvbuf(stdout, NULL, _IOLBF, 0);
    make_memory();
    the_file = open(argv[0], O_RDONLY);
    for (int turn = 0; turn < 2; turn++) {
        try_all("no descriptor", none);
        CHECK(socketpair(AF_UNIX, SOCK_STREAM, 0, pair) == 0);
        try_all("Unix", pair);
        CHECK(socketpair(AF_UNIX, SOCK_DGRAM, 0, pair) == 0);
        try_all("Unix messages", pair);
        if (argc > 1)
            return 0;
        udp_pair(pair);
        try_all("UDP", pair);
        connect_pair(pair);
        CHECK(setsockopt(pair[0], SOL_SOCKET, SO_TIMESTAMP, &on, sizeof on) == 0);
        try_all("TCP, by the kernel", pair);
        warm_pair(pair);
        try_all("TCP", pair);
        warm_pair(pair);
        send_large(pair);
        ping_pong(pair, 2000);
    }
    return 0;
}
