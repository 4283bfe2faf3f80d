/* Connections beside an io_uring: beside_uring HOW SCENARIO
 *
 * HOW says who makes the system calls of io_uring: liburing, or libc's syscall. The io_uring is made first. Then each step
 * has a connection of its own, both of whose ends are here, and which has carried enough by plain calls to be accelerated.
 * What is not as it must be is printed, and the program fails. */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <liburing.h>
#include <poll.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <unistd.h>

enum { WARM = 60, ENTRIES = 64, SIZE = 4096 };

static int by_liburing;
static struct io_uring ring;
static int listener;
static struct sockaddr_in address = {.sin_family = AF_INET};

static void expect(long is, long wanted, const char *what)
{
    if (is != wanted) {
        fprintf(stderr, "%s: %ld, not %ld (errno %d)\n", what, is, wanted, errno);
        exit(1);
    }
}

#define EXPECT(is, wanted) expect(is, wanted, #is)

static void make_ring(unsigned flags)
{
    struct io_uring_params p = {.flags = flags};
    int fd;

    if (by_liburing) {
        EXPECT(io_uring_queue_init(ENTRIES, &ring, flags), 0);
        return;
    }
    fd = syscall(SYS_io_uring_setup, ENTRIES, &p);
    expect(fd >= 0, 1, "io_uring_setup");
    EXPECT(io_uring_queue_mmap(fd, &p, &ring), 0);
}

static int publish(struct io_uring *to)
{
    struct io_uring_sq *sq = &to->sq;
    unsigned tail = *sq->ktail;

    for (; sq->sqe_head != sq->sqe_tail; sq->sqe_head++, tail++)
        sq->array[tail & *sq->kring_mask] = sq->sqe_head & *sq->kring_mask;
    __atomic_store_n(sq->ktail, tail, __ATOMIC_RELEASE);
    return tail - __atomic_load_n(sq->khead, __ATOMIC_ACQUIRE);
}

static int submit(unsigned wait)
{
    if (by_liburing)
        return wait ? io_uring_submit_and_wait(&ring, wait) : io_uring_submit(&ring);
    return syscall(SYS_io_uring_enter, ring.ring_fd, publish(&ring), wait, wait ? IORING_ENTER_GETEVENTS : 0, NULL, 0);
}

static struct io_uring_sqe *entry(unsigned long name)
{
    struct io_uring_sqe *sqe = io_uring_get_sqe(&ring);

    if (!sqe)
        exit(2);
    memset(sqe, 0, sizeof *sqe);
    sqe->user_data = name;
    return sqe;
}

/* The result of the entry of this name; others are kept for later. */
static int result_of(unsigned long name)
{
    static struct { unsigned long name; int result, used; } kept[256];
    struct io_uring_cqe *cqe;

    for (int i = 0; i < 256; i++)
        if (kept[i].used && kept[i].name == name)
            return kept[i].used = 0, kept[i].result;
    for (;;) {
        if (io_uring_peek_cqe(&ring, &cqe)) {
            EXPECT(syscall(SYS_io_uring_enter, ring.ring_fd, 0, 1, IORING_ENTER_GETEVENTS, NULL, 0), 0);
            continue;
        }
        unsigned long found = cqe->user_data;
        int result = cqe->res;
        io_uring_cqe_seen(&ring, cqe);
        if (found == name)
            return result;
        for (int i = 0; i < 256; i++)
            if (!kept[i].used) {
                kept[i].name = found, kept[i].result = result, kept[i].used = 1;
                break;
            }
    }
}

/* One entry, waited for. */
static int one(struct io_uring_sqe *sqe)
{
    unsigned long name = sqe->user_data;

    EXPECT(submit(1), 1);
    return result_of(name);
}

struct pair { int near, far; unsigned char out, in; };

static void listen_here(void)
{
    socklen_t length = sizeof address;

    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    listener = socket(AF_INET, SOCK_STREAM, 0);
    EXPECT(bind(listener, (void *)&address, length), 0);
    EXPECT(listen(listener, 64), 0);
    EXPECT(getsockname(listener, (void *)&address, &length), 0);
}

/* Bytes of a direction count up, so that one that is lost, doubled or out of order shows. */
static void fill(unsigned char *bytes, int n, unsigned char *next)
{
    for (int i = 0; i < n; i++)
        bytes[i] = (*next)++;
}

static void check(const unsigned char *bytes, int n, unsigned char *next, const char *what)
{
    for (int i = 0; i < n; i++)
        if (bytes[i] != (*next)++) {
            fprintf(stderr, "%s: byte %d of %d is %d, not %d\n", what, i, n, bytes[i], (unsigned char)(*next - 1));
            exit(1);
        }
}

static void say(int fd, int n, unsigned char *next)
{
    unsigned char bytes[SIZE];

    fill(bytes, n, next);
    EXPECT(send(fd, bytes, n, 0), n);
}

static void hear(int fd, int n, unsigned char *next, const char *what)
{
    unsigned char bytes[SIZE];

    for (int done = 0, k; done < n; done += k) {
        k = recv(fd, bytes, n - done, 0);
        expect(k > 0, 1, what);
        check(bytes, k, next, what);
    }
}

static unsigned char heard_out, heard_in;

static void exchange(struct pair *p, int rounds, const char *what)
{
    unsigned char out = heard_out, in = heard_in;

    for (int i = 0; i < rounds; i++) {
        say(p->near, 40 + i % 7, &p->out);
        hear(p->far, 40 + i % 7, &out, what);
        say(p->far, 30 + i % 5, &p->in);
        hear(p->near, 30 + i % 5, &in, what);
    }
    heard_out = out, heard_in = in;
}

static struct pair connect_pair(void)
{
    struct pair p = {0};

    p.near = socket(AF_INET, SOCK_STREAM, 0);
    EXPECT(connect(p.near, (void *)&address, sizeof address), 0);
    p.far = accept(listener, NULL, NULL);
    expect(p.far >= 0, 1, "accept");
    heard_out = heard_in = 0;
    exchange(&p, WARM, "warm up");
    return p;
}

static void end(struct pair *p)
{
    close(p->near);
    close(p->far);
}

/* ---- Only files, pipes and nothing: no connection is touched. */
static void files(void)
{
    struct pair p = connect_pair();
    unsigned char bytes[64];
    char name[] = "/tmp/beside-XXXXXX";
    int file = mkstemp(name), ends[2];

    unlink(name);
    EXPECT(pipe(ends), 0);
    for (int i = 0; i < 200; i++) {
        io_uring_prep_write(entry(1), file, "0123456789", 10, 0);
        ring.sq.sqes[(ring.sq.sqe_tail - 1) & *ring.sq.kring_mask].user_data = 1;
        io_uring_prep_nop(entry(2));
        ring.sq.sqes[(ring.sq.sqe_tail - 1) & *ring.sq.kring_mask].user_data = 2;
        EXPECT(submit(2), 2);
        EXPECT(result_of(1), 10);
        EXPECT(result_of(2), 0);
        struct io_uring_sqe *sqe = entry(0);
        io_uring_prep_read(sqe, file, bytes, 10, 0);
        sqe->user_data = 3;
        EXPECT(one(sqe), 10);
        EXPECT(memcmp(bytes, "0123456789", 10), 0);
        exchange(&p, 2, "beside files");
    }
    end(&p);
}

/* ---- EPOLL_CTL */
static struct io_uring_sqe *ctl(unsigned long name, int set, int op, int fd, struct epoll_event *event)
{
    struct io_uring_sqe *sqe = entry(name);

    io_uring_prep_epoll_ctl(sqe, set, fd, op, event);
    sqe->user_data = name;
    return sqe;
}

static void wait_for(int set, int fd, const char *what)
{
    struct epoll_event event;

    expect(epoll_wait(set, &event, 1, 5000), 1, what);
    expect(event.data.fd, fd, what);
}

static void sets(void)
{
    enum { PAIRS = 6 };
    struct pair p[PAIRS];
    unsigned char out[PAIRS], in[PAIRS];
    struct epoll_event event[PAIRS], none;
    int set = epoll_create1(EPOLL_CLOEXEC);

    for (int i = 0; i < PAIRS; i++) {
        p[i] = connect_pair();
        out[i] = heard_out, in[i] = heard_in;
        event[i].events = EPOLLIN;
        event[i].data.fd = p[i].near;
        ctl(100 + i, set, EPOLL_CTL_ADD, p[i].near, &event[i]);
    }
    EXPECT(submit(PAIRS), PAIRS);
    for (int i = 0; i < PAIRS; i++)
        EXPECT(result_of(100 + i), 0);
    for (int round = 0; round < 100; round++) {
        int i = round % PAIRS;

        EXPECT(epoll_wait(set, &none, 1, 0), 0);
        say(p[i].far, 50, &p[i].in);
        wait_for(set, p[i].near, "ring member");
        hear(p[i].near, 50, &in[i], "in a set");
        say(p[i].near, 60, &p[i].out);
        hear(p[i].far, 60, &out[i], "in a set");
    }
    /* Errors, each with a plain NOP behind it: that one is not affected. */
    EXPECT(one(ctl(200, set, EPOLL_CTL_ADD, p[0].near, &event[0])), -EEXIST);
    EXPECT(one(ctl(201, set, EPOLL_CTL_MOD, p[0].far, &event[0])), -ENOENT);
    EXPECT(one(ctl(202, set, EPOLL_CTL_DEL, p[0].far, NULL)), -ENOENT);
    EXPECT(one(ctl(203, set, EPOLL_CTL_ADD, 999, &event[0])), -EBADF);
    EXPECT(one(ctl(204, 999, EPOLL_CTL_ADD, p[0].far, &event[0])), -EBADF);
    EXPECT(one(ctl(205, listener, EPOLL_CTL_ADD, p[0].far, &event[0])), -EINVAL);
    EXPECT(one(ctl(206, set, 77, p[0].near, &event[0])), -EINVAL);
    EXPECT(one(ctl(207, set, EPOLL_CTL_MOD, p[0].near, (void *)8)), -EFAULT);
    /* Changed, taken out, put in again, in one batch. */
    event[1].events = EPOLLIN | EPOLLOUT | EPOLLET;
    ctl(210, set, EPOLL_CTL_MOD, p[1].near, &event[1]);
    ctl(211, set, EPOLL_CTL_DEL, p[2].near, NULL);
    ctl(212, set, EPOLL_CTL_DEL, p[3].near, NULL);
    ctl(213, set, EPOLL_CTL_ADD, p[3].near, &event[3]);
    EXPECT(submit(4), 4);
    for (int i = 0; i < 4; i++)
        EXPECT(result_of(210 + i), 0);
    wait_for(set, p[1].near, "changed member");
    EXPECT(epoll_wait(set, &none, 1, 0), 0);
    say(p[2].far, 10, &p[2].in);
    EXPECT(epoll_wait(set, &none, 1, 100), 0);
    hear(p[2].near, 10, &in[2], "taken out");
    say(p[3].far, 10, &p[3].in);
    wait_for(set, p[3].near, "put in again");
    hear(p[3].near, 10, &in[3], "put in again");
    for (int i = 0; i < PAIRS; i++) {
        heard_out = out[i], heard_in = in[i];
        exchange(&p[i], 20, "after");
        end(&p[i]);
    }
    close(set);
}

/* ---- Chains and drains with EPOLL_CTL: the kernel does those that are not the first. */
static void chains(void)
{
    struct pair p = connect_pair(), q = connect_pair();
    struct epoll_event event = {.events = EPOLLIN, .data.fd = p.near}, other = {.events = EPOLLIN, .data.fd = q.near}, none;
    struct io_uring_sqe *sqe;
    int set = epoll_create1(0), ends[2];
    char byte;

    EXPECT(pipe2(ends, O_NONBLOCK), 0);
    /* The first of a chain is ours; one that fails breaks it. */
    sqe = ctl(1, set, EPOLL_CTL_DEL, p.near, NULL);
    sqe->flags |= IOSQE_IO_LINK;
    ctl(2, set, EPOLL_CTL_ADD, p.near, &event);
    EXPECT(submit(2), 2);
    EXPECT(result_of(1), -ENOENT);
    EXPECT(result_of(2), -ECANCELED);
    say(p.far, 5, &p.in);
    EXPECT(epoll_wait(set, &none, 1, 50), 0);
    /* An entry before it fails: it is not done. */
    sqe = entry(3);
    io_uring_prep_read(sqe, -1, &byte, 1, 0);
    sqe->user_data = 3;
    sqe->flags |= IOSQE_IO_LINK;
    ctl(4, set, EPOLL_CTL_ADD, p.near, &event);
    EXPECT(submit(2), 2);
    EXPECT(result_of(3), -EBADF);
    EXPECT(result_of(4), -ECANCELED);
    EXPECT(epoll_wait(set, &none, 1, 50), 0);
    /* One that succeeds later. */
    sqe = entry(5);
    io_uring_prep_poll_add(sqe, ends[0], POLLIN);
    sqe->user_data = 5;
    sqe->flags |= IOSQE_IO_LINK;
    ctl(6, set, EPOLL_CTL_ADD, p.near, &event);
    EXPECT(submit(0), 2);
    EXPECT(epoll_wait(set, &none, 1, 50), 0);
    EXPECT(write(ends[1], "x", 1), 1);
    EXPECT(result_of(5), POLLIN);
    EXPECT(result_of(6), 0);
    wait_for(set, p.near, "later");
    /* A drain waits for what is under way, and what is behind it for the drain. */
    EXPECT(read(ends[0], &byte, 1), 1);
    sqe = entry(7);
    io_uring_prep_poll_add(sqe, ends[0], POLLIN);
    sqe->user_data = 7;
    sqe = entry(8);
    io_uring_prep_nop(sqe);
    sqe->user_data = 8;
    sqe->flags |= IOSQE_IO_DRAIN;
    ctl(9, set, EPOLL_CTL_ADD, q.near, &other);
    EXPECT(submit(0), 3);
    say(q.far, 5, &q.in);
    wait_for(set, p.near, "the other one");
    EXPECT(epoll_ctl(set, EPOLL_CTL_DEL, p.near, NULL), 0);
    EXPECT(epoll_wait(set, &none, 1, 50), 0);
    EXPECT(write(ends[1], "x", 1), 1);
    EXPECT(result_of(7), POLLIN);
    EXPECT(result_of(8), 0);
    EXPECT(result_of(9), 0);
    wait_for(set, q.near, "after the drain");
    end(&p);
    end(&q);
    close(set);
}

/* ---- Every operation on a connection that has bytes to be read: they come exactly, by the io_uring and by calls. */
static int received(int kind, int fd, unsigned char *into, int n)
{
    struct iovec iov = {into, n};
    struct msghdr message = {.msg_iov = &iov, .msg_iovlen = 1};
    struct io_uring_sqe *sqe = entry(0);
    int ends[2], got;

    switch (kind) {
    case 0: io_uring_prep_recv(sqe, fd, into, n, 0); break;
    case 1: io_uring_prep_read(sqe, fd, into, n, 0); break;
    case 2: io_uring_prep_readv(sqe, fd, &iov, 1, 0); break;
    case 3: io_uring_prep_recvmsg(sqe, fd, &message, 0); break;
    case 4:
        io_uring_prep_poll_add(sqe, fd, POLLIN);
        sqe->user_data = 50;
        EXPECT(one(sqe) & POLLIN, POLLIN);
        return recv(fd, into, n, 0);
    case 5:
        EXPECT(pipe(ends), 0);
        io_uring_prep_splice(sqe, fd, -1, ends[1], -1, n, 0);
        sqe->user_data = 50;
        got = one(sqe);
        if (got > 0)
            EXPECT(read(ends[0], into, got), got);
        close(ends[0]);
        close(ends[1]);
        return got;
    case 6:
        EXPECT(io_uring_register_files(&ring, &fd, 1), 0);
        io_uring_prep_recv(sqe, 0, into, n, 0);
        sqe->flags |= IOSQE_FIXED_FILE;
        sqe->user_data = 50;
        got = one(sqe);
        EXPECT(io_uring_unregister_files(&ring), 0);
        return got;
    case 7: io_uring_prep_recv(sqe, fd, into, n, 0); sqe->flags |= IOSQE_ASYNC; break;
    default: exit(2);
    }
    sqe->user_data = 50;
    return one(sqe);
}

static int sent(int kind, int fd, unsigned char *from, int n)
{
    struct iovec iov = {from, n};
    struct msghdr message = {.msg_iov = &iov, .msg_iovlen = 1};
    struct io_uring_sqe *sqe = entry(0);
    int ends[2], got;

    switch (kind % 6) {
    case 0: io_uring_prep_send(sqe, fd, from, n, 0); break;
    case 1: io_uring_prep_write(sqe, fd, from, n, 0); break;
    case 2: io_uring_prep_writev(sqe, fd, &iov, 1, 0); break;
    case 3: io_uring_prep_sendmsg(sqe, fd, &message, 0); break;
    case 4: io_uring_prep_send(sqe, fd, from, n, 0); sqe->flags |= IOSQE_IO_DRAIN; break;
    case 5:
        EXPECT(pipe(ends), 0);
        EXPECT(write(ends[1], from, n), n);
        io_uring_prep_splice(sqe, ends[0], -1, fd, -1, n, 0);
        sqe->user_data = 51;
        got = one(sqe);
        close(ends[0]);
        close(ends[1]);
        return got;
    }
    sqe->user_data = 51;
    return one(sqe);
}

static void operations(void)
{
    unsigned char bytes[SIZE];

    for (int kind = 0; kind < 8; kind++) {
        struct pair p = connect_pair();
        unsigned char in = heard_in, out = heard_out;
        char what[32];
        int n;

        sprintf(what, "operation %d", kind);
        say(p.far, 3000, &p.in);
        hear(p.near, 100, &in, what);
        n = received(kind, p.near, bytes, 1000);
        expect(n > 0, 1, what);
        check(bytes, n, &in, what);
        hear(p.near, 2900 - n, &in, what);
        say(p.near, 500, &p.out);
        fill(bytes, 700, &p.out);
        expect(sent(kind, p.near, bytes, 700), 700, what);
        say(p.near, 300, &p.out);
        hear(p.far, 1500, &out, what);
        heard_in = in, heard_out = out;
        exchange(&p, 50, what);
        /* And mixed, from here on. */
        for (int i = 0; i < 20; i++) {
            say(p.far, 100, &p.in);
            n = received(kind, p.near, bytes, 60);
            expect(n > 0, 1, what);
            check(bytes, n, &heard_in, what);
            hear(p.near, 100 - n, &heard_in, what);
        }
        end(&p);
    }
}

/* ---- The end of a connection by the io_uring. */
static void endings(void)
{
    unsigned char bytes[SIZE];
    struct io_uring_sqe *sqe;

    for (int kind = 0; kind < 4; kind++) {
        struct pair p = connect_pair();
        unsigned char out = heard_out;
        int n, number = p.near;

        say(p.near, 600, &p.out);
        switch (kind) {
        case 0:
            sqe = entry(0);
            io_uring_prep_shutdown(sqe, p.near, SHUT_WR);
            sqe->user_data = 1;
            EXPECT(one(sqe), 0);
            break;
        case 1:
            sqe = entry(0);
            io_uring_prep_close(sqe, p.near);
            sqe->user_data = 1;
            EXPECT(one(sqe), 0);
            break;
        default:
            /* A chain: what it sends comes, and then the end. Or it breaks, and the descriptor lives on. */
            fill(bytes, 50, &p.out);
            sqe = entry(0);
            io_uring_prep_send(sqe, kind == 2 ? p.near : -1, bytes, 50, 0);
            sqe->flags |= IOSQE_IO_LINK;
            sqe->user_data = 1;
            sqe = entry(0);
            io_uring_prep_close(sqe, p.near);
            sqe->user_data = 2;
            EXPECT(submit(2), 2);
            EXPECT(result_of(1), kind == 2 ? 50 : -EBADF);
            EXPECT(result_of(2), kind == 2 ? 0 : -ECANCELED);
        }
        if (kind == 3) {
            EXPECT(send(p.near, bytes, 50, 0), 50);
            hear(p.far, 650, &out, "after a broken chain");
            EXPECT(close(p.near), 0);
        } else {
            hear(p.far, kind == 2 ? 650 : 600, &out, "before the end");
        }
        EXPECT(recv(p.far, bytes, 1, 0), 0);
        if (kind == 1 || kind == 2) {
            EXPECT(fcntl(number, F_GETFD), -1);
            /* The number is free, and may be another connection. */
            struct pair q = connect_pair();
            exchange(&q, 20, "the next one");
            end(&q);
        } else if (kind == 0) {
            close(p.near);
        }
        close(p.far);
    }
}

/* ---- Multishot receive into provided buffers, until the peer ends. */
static void shots(void)
{
    struct pair p = connect_pair();
    unsigned char in = heard_in, *buffers = malloc(64 * 256);
    struct io_uring_sqe *sqe = entry(0);
    struct io_uring_cqe *cqe;
    int total = 0, ended = 0;

    io_uring_prep_provide_buffers(sqe, buffers, 256, 64, 1, 0);
    sqe->user_data = 1;
    EXPECT(one(sqe) >= 0, 1);
    say(p.far, 2000, &p.in);
    hear(p.near, 10, &in, "before");
    sqe = entry(0);
    io_uring_prep_recv_multishot(sqe, p.near, NULL, 0, 0);
    sqe->flags |= IOSQE_BUFFER_SELECT;
    sqe->buf_group = 1;
    sqe->user_data = 2;
    EXPECT(submit(0), 1);
    say(p.far, 3000, &p.in);
    shutdown(p.far, SHUT_WR);
    while (!ended) {
        if (io_uring_peek_cqe(&ring, &cqe)) {
            EXPECT(syscall(SYS_io_uring_enter, ring.ring_fd, 0, 1, IORING_ENTER_GETEVENTS, NULL, 0), 0);
            continue;
        }
        expect(cqe->res >= 0, 1, "multishot");
        if (cqe->res > 0)
            check(buffers + 256 * (cqe->flags >> IORING_CQE_BUFFER_SHIFT), cqe->res, &in, "multishot");
        total += cqe->res;
        ended = cqe->res == 0;
        io_uring_cqe_seen(&ring, cqe);
    }
    EXPECT(total, 4990);
    end(&p);
}

/* ---- An epoll set of ours that the io_uring waits for. */
static void waits_for_set(void)
{
    struct pair p = connect_pair();
    struct epoll_event event = {.events = EPOLLIN, .data.fd = p.near};
    unsigned char in = heard_in;
    int set = epoll_create1(0);

    EXPECT(epoll_ctl(set, EPOLL_CTL_ADD, p.near, &event), 0);
    for (int i = 0; i < 30; i++) {
        struct io_uring_sqe *sqe = entry(0);

        io_uring_prep_poll_add(sqe, set, POLLIN);
        sqe->user_data = 1;
        EXPECT(submit(0), 1);
        say(p.far, 20, &p.in);
        EXPECT(result_of(1), POLLIN);
        wait_for(set, p.near, "polled set");
        hear(p.near, 20, &in, "polled set");
    }
    end(&p);
    close(set);
}

/* ---- A connection that the io_uring alone makes and drives. */
static void alone(void)
{
    int near = socket(AF_INET, SOCK_STREAM, 0), far;
    unsigned char bytes[64] = "hello";
    struct io_uring_sqe *sqe = entry(0);

    io_uring_prep_accept(sqe, listener, NULL, NULL, 0);
    sqe->user_data = 1;
    sqe = entry(0);
    io_uring_prep_connect(sqe, near, (void *)&address, sizeof address);
    sqe->user_data = 2;
    EXPECT(submit(0), 2);
    EXPECT(result_of(2), 0);
    far = result_of(1);
    expect(far >= 0, 1, "accept");
    for (int i = 0; i < 100; i++) {
        sqe = entry(0);
        io_uring_prep_send(sqe, near, bytes, 5, 0);
        sqe->user_data = 3;
        EXPECT(one(sqe), 5);
        sqe = entry(0);
        io_uring_prep_recv(sqe, far, bytes, 64, 0);
        sqe->user_data = 4;
        EXPECT(one(sqe), 5);
    }
    close(near);
    close(far);
}

/* ---- The io_uring has another number, and its first one is closed. */
static void another_number(void)
{
    struct pair p = connect_pair();
    unsigned char in = heard_in, bytes[64];
    int first = ring.ring_fd;

    ring.ring_fd = ring.enter_ring_fd = dup(first);
    EXPECT(close(first), 0);
    exchange(&p, 10, "beside another number");
    in = heard_in;
    say(p.far, 40, &p.in);
    EXPECT(received(0, p.near, bytes, 40), 40);
    check(bytes, 40, &in, "by another number");
    end(&p);
}

/* ---- A child that has inherited the io_uring, and uses it. */
static void child(void)
{
    struct pair p = connect_pair();
    unsigned char in = heard_in, bytes[64];
    int status;
    pid_t pid;

    say(p.far, 40, &p.in);
    pid = fork();
    if (pid == 0) {
        EXPECT(received(0, p.near, bytes, 40), 40);
        check(bytes, 40, &in, "in the child");
        _exit(0);
    }
    EXPECT(waitpid(pid, &status, 0), pid);
    EXPECT(status, 0);
    heard_in += 40;
    exchange(&p, 20, "after the child");
    end(&p);
}

/* ---- Several threads submit to one io_uring: they take turns writing entries, but not entering. */
static pthread_mutex_t turn = PTHREAD_MUTEX_INITIALIZER;
static unsigned char *done_by;

static void *submitter(void *which)
{
    long number = (long)which;
    struct pair *p = &((struct pair *)done_by)[number];
    unsigned char byte;

    for (int i = 0; i < 2000; i++) {
        struct io_uring_sqe *sqe;
        int wanted, enters = 0;

        pthread_mutex_lock(&turn);
        sqe = entry(0);
        if (i % 100 == 50)
            io_uring_prep_send(sqe, p->near, &byte, 1, 0);
        else
            io_uring_prep_nop(sqe);
        byte = p->out;
        if (i % 100 == 50)
            p->out++;
        sqe->flags |= IOSQE_CQE_SKIP_SUCCESS;
        wanted = publish(&ring);
        pthread_mutex_unlock(&turn);
        do {
            if (syscall(SYS_io_uring_enter, ring.ring_fd, wanted, 0, 0, NULL, 0) < 0)
                exit(3);
            wanted = __atomic_load_n(ring.sq.ktail, __ATOMIC_ACQUIRE) - __atomic_load_n(ring.sq.khead, __ATOMIC_ACQUIRE);
        } while (wanted > 0 && ++enters < 1000);
        if (i % 7 == 0) {
            int n = send(p->near, (byte = p->out, &byte), 1, 0);
            if (n != 1)
                exit(4);
            p->out++;
        }
    }
    return NULL;
}

static void threads(void)
{
    enum { THREADS = 4 };
    struct pair p[THREADS];
    unsigned char out[THREADS];
    pthread_t thread[THREADS];

    if (by_liburing)
        return;
    for (long i = 0; i < THREADS; i++) {
        p[i] = connect_pair();
        out[i] = heard_out;
    }
    done_by = (unsigned char *)p;
    for (long i = 0; i < THREADS; i++)
        pthread_create(&thread[i], NULL, submitter, (void *)i);
    for (int i = 0; i < THREADS; i++)
        pthread_join(thread[i], NULL);
    for (int i = 0; i < THREADS; i++) {
        shutdown(p[i].near, SHUT_WR);
        hear(p[i].far, 20 + 286, &out[i], "from threads");
        end(&p[i]);
    }
}

int main(int argc, char **argv)
{
    static const struct { const char *name; void (*run)(void); } all[] = {
        {"files", files}, {"sets", sets}, {"chains", chains}, {"operations", operations}, {"endings", endings},
        {"shots", shots}, {"set", waits_for_set}, {"alone", alone}, {"number", another_number}, {"child", child},
        {"threads", threads},
    };

    if (argc != 3)
        return 2;
    alarm(60);
    by_liburing = !strcmp(argv[1], "liburing");
    make_ring(!strcmp(argv[1], "polled") ? IORING_SETUP_SQPOLL : 0);
    listen_here();
    for (unsigned i = 0; i < sizeof all / sizeof *all; i++)
        if (!strcmp(all[i].name, argv[2]))
            return all[i].run(), 0;
    return 2;
}
