/* An io_uring, and connections whose bytes count up, so that one that is lost, doubled or out of order shows. */
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <liburing.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
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
    unsigned flags = wait ? IORING_ENTER_GETEVENTS : 0, ready = ring.sq.sqe_tail - ring.sq.sqe_head;
    int result;

    if (by_liburing)
        return wait ? io_uring_submit_and_wait(&ring, wait) : io_uring_submit(&ring);
    if (!(ring.flags & IORING_SETUP_SQPOLL))
        return syscall(SYS_io_uring_enter, ring.ring_fd, publish(&ring), wait, flags, NULL, 0);
    /* The kernel's thread takes them, perhaps all before the call. */
    publish(&ring);
    result = syscall(SYS_io_uring_enter, ring.ring_fd, ready, wait, flags | IORING_ENTER_SQ_WAKEUP, NULL, 0);
    return result < 0 ? result : (int)ready;
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

/* At the address that is known, or any. */
static void open_listener(void)
{
    int yes = 1;

    listener = socket(AF_INET, SOCK_STREAM, 0);
    EXPECT(setsockopt(listener, SOL_SOCKET, SO_REUSEADDR, &yes, sizeof yes), 0);
    EXPECT(bind(listener, (void *)&address, sizeof address), 0);
    EXPECT(listen(listener, 64), 0);
}

static void listen_here(void)
{
    socklen_t length = sizeof address;

    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    open_listener();
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
