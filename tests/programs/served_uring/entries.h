/* Entries of an io_uring, and what becomes of them. */
#include <netinet/tcp.h>

#include "../beside_uring/ends.h"

static unsigned char bytes[SIZE];

/* The next completion must be this one. */
static void completes(unsigned long name, int result, const char *what)
{
    struct io_uring_cqe *cqe;

    expect(io_uring_wait_cqe(&ring, &cqe), 0, what);
    expect(cqe->user_data, name, what);
    expect(cqe->res, result, what);
    io_uring_cqe_seen(&ring, cqe);
}

/* The latest entry: liburing's functions have overwritten its name. */
static void name_it(unsigned long name)
{
    ring.sq.sqes[(ring.sq.sqe_tail - 1) & *ring.sq.kring_mask].user_data = name;
}

static void receive(int fd, unsigned long name)
{
    io_uring_prep_recv(entry(0), fd, bytes, sizeof bytes, 0);
    name_it(name);
}

static void transmit(int fd, const void *from, int n, unsigned long name)
{
    io_uring_prep_send(entry(0), fd, from, n, 0);
    name_it(name);
}

/* Without Nagle's algorithm, which would hold the second of two messages back. */
static struct pair prompt_pair(void)
{
    struct pair p = connect_pair();
    int yes = 1;

    EXPECT(setsockopt(p.near, IPPROTO_TCP, TCP_NODELAY, &yes, sizeof yes), 0);
    EXPECT(setsockopt(p.far, IPPROTO_TCP, TCP_NODELAY, &yes, sizeof yes), 0);
    return p;
}

/* A receive that finds nothing yet. */
static struct pair waiting(void)
{
    struct pair p = prompt_pair();

    receive(p.near, 1);
    EXPECT(io_uring_submit(&ring), 1);
    return p;
}
