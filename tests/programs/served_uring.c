/* Receives and sends of an io_uring with IORING_SETUP_DEFER_TASKRUN, which may be served from rings: served_uring STEP [SEED]
 *
 * Each step has a connection of its own, both of whose ends are here: the io_uring works on the near one, plain calls on the
 * far one. What is not as it must be is printed, and the program fails. */
#define _GNU_SOURCE
#include "served_uring/entries.h"
#include "served_uring/made.h"
#include "served_uring/signals.h"
#include "served_uring/corners.h"
#include "served_uring/soak.h"
#include "served_uring/watched.h"

static void echo(void)
{
    struct pair p = prompt_pair();

    for (int i = 0; i < 1000; i++) {
        unsigned char out = 7, in = 7;

        receive(p.near, 1);
        if (i % 2)
            EXPECT(io_uring_submit(&ring), 1);
        say(p.far, 100 + i % 50, &out);
        if (!(i % 2))
            EXPECT(io_uring_submit_and_wait(&ring, 1), 1);
        completes(1, 100 + i % 50, "echo: receive");
        transmit(p.near, bytes, 100 + i % 50, 2);
        EXPECT(io_uring_submit_and_wait(&ring, 1), 1);
        completes(2, 100 + i % 50, "echo: send");
        hear(p.far, 100 + i % 50, &in, "echo");
    }
    end(&p);
}

/* READ and WRITE, and what the other calls take in between. */
static void mixed(void)
{
    struct pair p = prompt_pair();

    for (int i = 0; i < 200; i++) {
        unsigned char out = 3, in = 3;
        struct io_uring_sqe *sqe;

        say(p.far, 10, &out);
        sqe = entry(0);
        io_uring_prep_read(sqe, p.near, bytes, sizeof bytes, i % 2 ? 0 : -1);
        EXPECT(submit(1), 1);
        completes(0, 10, "read");
        sqe = entry(0);
        io_uring_prep_write(sqe, p.near, bytes, 10, 0);
        EXPECT(submit(1), 1);
        completes(0, 10, "write");
        hear(p.far, 10, &in, "write");
        receive(p.near, 1);
        EXPECT(submit(0), 1);
        EXPECT(send(p.far, "ab", 2, 0), 2);
        EXPECT(recv(p.near, bytes, 2, 0), 2);
        EXPECT(send(p.far, "cde", 3, 0), 3);
        completes(1, 3, "what was left");
        expect(memcmp(bytes, "cde", 3), 0, "what was left");
    }
    end(&p);
}

static void cancelled(void)
{
    struct pair p = waiting();

    io_uring_prep_cancel64(entry(0), 1, 0);
    EXPECT(submit(0), 1);
    completes(0, 0, "cancel");
    completes(1, -ECANCELED, "cancelled");
    exchange(&p, 5, "after the cancel");
    end(&p);
}

static void ended(void)
{
    struct pair p = waiting(), q = waiting(), r = waiting();

    EXPECT(shutdown(p.near, SHUT_RD), 0);
    completes(1, 0, "shut down");
    EXPECT(close(q.far), 0);
    completes(1, 0, "closed");
    EXPECT(shutdown(r.far, SHUT_WR), 0);
    completes(1, 0, "shut down by the other end");
    transmit(r.near, "abc", 3, 2);
    EXPECT(submit(1), 1);
    completes(2, 3, "the other direction");
    EXPECT(recv(r.far, bytes, 9, 0), 3);
    EXPECT(shutdown(r.near, SHUT_WR), 0);
    transmit(r.near, "abc", 3, 2);
    EXPECT(submit(1), 1);
    completes(2, -EPIPE, "after its end");
    end(&p);
    close(q.near);
    end(&r);
}

/* The operation keeps the connection. */
static void closed_number(void)
{
    struct pair p = waiting();

    EXPECT(close(p.near), 0);
    EXPECT(send(p.far, "ab", 2, 0), 2);
    completes(1, 2, "of a closed number");
    EXPECT(recv(p.far, bytes, 1, 0), 0);
    close(p.far);
}

static void beside_others(void)
{
    struct __kernel_timespec time = {.tv_nsec = 20000000};
    struct pair p = waiting();
    int ends[2];

    io_uring_prep_timeout(entry(0), &time, 0, 0);
    name_it(3);
    EXPECT(submit(1), 1);
    completes(3, -ETIME, "timeout");
    EXPECT(pipe(ends), 0);
    io_uring_prep_read(entry(0), ends[0], bytes, 9, 0);
    EXPECT(submit(0), 1);
    EXPECT(write(ends[1], "x", 1), 1);
    EXPECT(submit(1), 0);
    completes(0, 1, "pipe");
    EXPECT(send(p.far, "ab", 2, 0), 2);
    completes(1, 2, "beside others");
    end(&p);
}

static void two(void)
{
    struct io_uring_cqe *cqe;
    unsigned long first;
    struct pair p = waiting();

    io_uring_prep_nop(entry(0));
    receive(p.near, 2);
    EXPECT(submit(0), 2);
    completes(0, 0, "nop");
    EXPECT(send(p.far, "ab", 2, 0), 2);
    /* Usually the later one. */
    expect(io_uring_wait_cqe(&ring, &cqe), 0, "the first");
    expect(cqe->res, 2, "the first");
    first = cqe->user_data;
    io_uring_cqe_seen(&ring, cqe);
    EXPECT(send(p.far, "abc", 3, 0), 3);
    completes(3 - first, 3, "the second");
    end(&p);
}

static void several(void)
{
    struct pair p = waiting(), q = waiting();

    EXPECT(send(p.far, "ab", 2, 0), 2);
    EXPECT(send(q.far, "ab", 2, 0), 2);
    EXPECT(io_uring_submit_and_wait(&ring, 2), 0);
    expect(io_uring_cq_ready(&ring), 2, "two at once");
    completes(1, 2, "one of two");
    completes(1, 2, "two of two");
    end(&p);
    end(&q);
}

static void nonblocking(void)
{
    struct pair p = prompt_pair();

    EXPECT(fcntl(p.near, F_SETFL, O_NONBLOCK), 0);
    receive(p.near, 1);
    EXPECT(submit(0), 1);
    EXPECT(send(p.far, "ab", 2, 0), 2);
    completes(1, 2, "waits all the same");
    exchange(&p, 5, "after it");
    end(&p);
}

static void linked(void)
{
    struct pair p = prompt_pair();

    transmit(p.near, "ab", 2, 1);
    ring.sq.sqes[(ring.sq.sqe_tail - 1) & *ring.sq.kring_mask].flags |= IOSQE_IO_LINK;
    receive(p.near, 2);
    EXPECT(submit(0), 2);
    completes(1, 2, "the first of a chain");
    EXPECT(send(p.far, "abc", 3, 0), 3);
    completes(2, 3, "the second of a chain");
    end(&p);
}

static void forked(void)
{
    struct pair p = waiting();
    pid_t child = fork();

    if (!child) {
        EXPECT(send(p.far, "ab", 2, 0), 2);
        _exit(0);
    }
    completes(1, 2, "from a child");
    EXPECT(waitpid(child, NULL, 0), child);
    end(&p);
}

/* More than fits, and nobody reads. */
static void much(void)
{
    static char many[8 << 20];
    struct pair p = prompt_pair();
    long sent = 0, got = 0;
    pid_t child;

    while (sent < (long)sizeof many) {
        struct io_uring_cqe *cqe;

        transmit(p.near, many, sizeof many - sent, 1);
        if (sent == 0 && !(child = fork())) {
            close(p.near);
            usleep(50000);
            while (got < (long)sizeof many) {
                int n = recv(p.far, many, sizeof many, 0);
                expect(n > 0, 1, "much");
                got += n;
            }
            _exit(0);
        }
        EXPECT(submit(1), 1);
        EXPECT(io_uring_wait_cqe(&ring, &cqe), 0);
        expect(cqe->res > 0, 1, "much");
        sent += cqe->res;
        io_uring_cqe_seen(&ring, cqe);
    }
    int status;
    EXPECT(waitpid(child, &status, 0), child);
    EXPECT(status, 0);
    end(&p);
}

/* By the system call itself, which waits for whatever there is. */
static void by_number(void)
{
    struct pair p = waiting();

    EXPECT(send(p.far, "ab", 2, 0), 2);
    EXPECT(syscall(SYS_io_uring_enter, ring.ring_fd, 0, 1, IORING_ENTER_GETEVENTS, NULL, 0), 0);
    completes(1, 2, "by the system call");
    end(&p);
}

static void timed(void)
{
    struct __kernel_timespec time = {.tv_nsec = 20000000};
    struct io_uring_cqe *cqe;
    struct pair p = waiting();

    EXPECT(io_uring_wait_cqe_timeout(&ring, &cqe, &time), -ETIME);
    EXPECT(send(p.far, "ab", 2, 0), 2);
    EXPECT(io_uring_wait_cqe_timeout(&ring, &cqe, &time), 0);
    completes(1, 2, "in time");
    end(&p);
}

/* Entries that the program has taken and not filled yet stay where they are. */
static void unfilled(void)
{
    struct pair p = waiting();
    struct io_uring_sqe *mine[ENTRIES];

    for (int i = 0; i < ENTRIES; i++)
        mine[i] = entry(0);
    EXPECT(send(p.far, "ab", 2, 0), 2);
    completes(1, 2, "before the entries");
    for (int i = 0; i < ENTRIES; i++) {
        io_uring_prep_nop(mine[i]);
        mine[i]->user_data = 100 + i;
    }
    expect(io_uring_get_sqe(&ring) == NULL, 1, "full");
    EXPECT(submit(0), ENTRIES);
    for (int i = 0; i < ENTRIES; i++)
        completes(100 + i, 0, "filled later");
    /* More results than places in the queue. */
    receive(p.near, 1);
    EXPECT(submit(0), 1);
    EXPECT(send(p.far, "ab", 2, 0), 2);
    for (int i = 0; i < ENTRIES; i++) {
        io_uring_prep_nop(entry(0));
        name_it(100 + i);
    }
    EXPECT(submit(ENTRIES + 1), ENTRIES);
    expect(io_uring_cq_ready(&ring), ENTRIES + 1, "all of them");
    io_uring_cq_advance(&ring, ENTRIES + 1);
    exchange(&p, 5, "after it");
    end(&p);
}

static void polled(void)
{
    struct pair p = prompt_pair();

    for (int i = 0; i < 50; i++) {
        io_uring_prep_poll_add(entry(0), p.near, POLLIN);
        name_it(1);
        EXPECT(submit(0), 1);
        if (i % 2)
            usleep(1000);
        EXPECT(send(p.far, "ab", 2, 0), 2);
        completes(1, POLLIN, "polled");
        EXPECT(recv(p.near, bytes, sizeof bytes, 0), 2);
        io_uring_prep_poll_add(entry(0), p.near, POLLOUT);
        name_it(2);
        EXPECT(submit(1), 1);
        completes(2, POLLOUT, "polled for room");
    }
    io_uring_prep_poll_add(entry(0), p.near, POLLIN);
    name_it(1);
    EXPECT(submit(0), 1);
    EXPECT(close(p.far), 0);
    completes(1, POLLIN | POLLRDHUP, "the end is told, asked or not");
    close(p.near);
}

static void cancelled_by_fd(void)
{
    struct pair p = waiting(), q = waiting();

    io_uring_prep_cancel_fd(entry(0), p.near, IORING_ASYNC_CANCEL_ALL);
    EXPECT(submit(0), 1);
    completes(0, 1, "cancel by descriptor");
    completes(1, -ECANCELED, "cancelled");
    EXPECT(send(q.far, "ab", 2, 0), 2);
    completes(1, 2, "the other one");
    end(&p);
    end(&q);
}

static void cancelled_at_once(void)
{
    struct pair p = waiting();
    struct io_uring_sync_cancel_reg what = {.addr = 1, .timeout = {-1, -1}};

    EXPECT(io_uring_register_sync_cancel(&ring, &what), 0);
    completes(1, -ECANCELED, "cancelled at once");
    end(&p);
}

static void drained(void)
{
    struct pair p = waiting();
    struct io_uring_cqe *cqe;

    io_uring_prep_nop(entry(0));
    name_it(2);
    ring.sq.sqes[(ring.sq.sqe_tail - 1) & *ring.sq.kring_mask].flags |= IOSQE_IO_DRAIN;
    EXPECT(submit(0), 1);
    expect(io_uring_peek_cqe(&ring, &cqe), -EAGAIN, "too early");
    EXPECT(send(p.far, "ab", 2, 0), 2);
    completes(1, 2, "before the drain");
    completes(2, 0, "after it");
    end(&p);
}

/* What an io_uring has not done when it is closed is not done. */
static void left(void)
{
    struct pair p = waiting(), q = waiting();

    io_uring_queue_exit(&ring);
    EXPECT(send(p.far, "abc", 3, 0), 3);
    EXPECT(recv(p.near, bytes, sizeof bytes, 0), 3);
    exchange(&q, 5, "after the exit");
    EXPECT(close(p.near), 0);
    EXPECT(recv(p.far, bytes, 1, 0), 0);
    EXPECT(close(p.far), 0);
    end(&q);
    make_ring(IORING_SETUP_SINGLE_ISSUER | IORING_SETUP_DEFER_TASKRUN);
    p = waiting();
    EXPECT(send(p.far, "ab", 2, 0), 2);
    completes(1, 2, "of the next one");
    end(&p);
}

/* Another wait of the kernel's, and several at once. */
static void several_beside(void)
{
    struct __kernel_timespec time = {.tv_nsec = 30000000};
    struct pair p = waiting();

    io_uring_prep_timeout(entry(0), &time, 0, 0);
    name_it(3);
    EXPECT(send(p.far, "ab", 2, 0), 2);
    EXPECT(submit(2), 1);
    expect(io_uring_cq_ready(&ring), 2, "both");
    completes(1, 2, "the sooner one");
    completes(3, -ETIME, "the later one");
    end(&p);
}

static void timed_submit(void)
{
    struct __kernel_timespec time = {.tv_nsec = 20000000};
    struct io_uring_cqe *cqe;
    struct pair p = prompt_pair();

    receive(p.near, 1);
    EXPECT(io_uring_submit_and_wait_timeout(&ring, &cqe, 1, &time, NULL), 1);
    expect(cqe == NULL, 1, "nothing in time");
    EXPECT(send(p.far, "ab", 2, 0), 2);
    transmit(p.near, "xyz", 3, 2);
    EXPECT(io_uring_submit_and_wait_timeout(&ring, &cqe, 2, &time, NULL), 1);
    expect(io_uring_cq_ready(&ring), 2, "both in time");
    io_uring_cq_advance(&ring, 2);
    end(&p);
}

int main(int argc, char **argv)
{
    static const struct { const char *name; void (*run)(void); } all[] = {
        {"echo", echo}, {"mixed", mixed}, {"cancelled", cancelled}, {"ended", ended}, {"closed", closed_number},
        {"others", beside_others}, {"two", two}, {"several", several}, {"interrupted", interrupted},
        {"nonblocking", nonblocking}, {"linked", linked}, {"forked", forked}, {"much", much}, {"number", by_number},
        {"timed", timed}, {"made", made}, {"made-many", made_many}, {"unfilled", unfilled}, {"poll-ring", polled_ring},
        {"select-ring", selected_ring}, {"epoll-ring", epolled_ring}, {"eventfd", counted_ring}, {"polled", polled},
        {"cancel-fd", cancelled_by_fd}, {"cancel-now", cancelled_at_once}, {"drained", drained}, {"left", left},
        {"jumped", jumped}, {"masked", masked}, {"often", interrupted_often},
        {"several-beside", several_beside}, {"timed-submit", timed_submit},
        {"nop", beside_nothing}, {"overflown", overflown}, {"unregistered", unregistered}, {"in-order", in_order},
        {"in-handler", in_handler}, {"jumped-with-one", jumped_with_one}, {"poll-removed", poll_removed},
        {"behind-one", behind_one}, {"mixed-batch", mixed_batch}, {"numbers", without_numbers}, {"closed-meanwhile", closed_meanwhile}, {"soak", soak},
    };

    if (argc < 2)
        return 2;
    srand(argc > 2 ? atoi(argv[2]) : 1);
    alarm(60);
    by_liburing = 1;
    make_ring(IORING_SETUP_SINGLE_ISSUER | IORING_SETUP_DEFER_TASKRUN);
    listen_here();
    for (unsigned i = 0; i < sizeof all / sizeof *all; i++)
        if (!strcmp(all[i].name, argv[1]))
            return all[i].run(), 0;
    return 2;
}
