/* Where what we keep meets what the kernel does. */
#include <sys/resource.h>

/* Entries of the program's that need no connection complete beside one that waits. */
static void beside_nothing(void)
{
    struct pair p = prompt_pair();

    receive(p.near, 1);
    io_uring_prep_nop(entry(0));
    name_it(2);
    EXPECT(submit(1), 2);
    completes(2, 0, "a nop of the program's");
    EXPECT(send(p.far, "ab", 2, 0), 2);
    completes(1, 2, "and the receive");
    end(&p);
}

/* More completions than the queue has room for: none is lost, and no wait is for more than that. */
static void overflown(void)
{
    struct io_uring_params params = {
        .flags = IORING_SETUP_SINGLE_ISSUER | IORING_SETUP_DEFER_TASKRUN | IORING_SETUP_CQSIZE, .cq_entries = 4};
    struct pair p, q;

    io_uring_queue_exit(&ring);
    EXPECT(io_uring_queue_init_params(4, &ring, &params), 0);
    p = prompt_pair(), q = waiting();
    for (int i = 0; i < 6; i++) {
        transmit(p.near, "ab", 2, 10 + i);
        EXPECT(submit(0), 1);
    }
    EXPECT(submit(5), 0);
    for (int i = 0; i < 6; i++)
        completes(10 + i, 2, "one of six");
    EXPECT(send(q.far, "ab", 2, 0), 2);
    completes(1, 2, "after them");
    end(&p);
    end(&q);
}

/* An eventfd that the program has not registered is none. */
static void unregistered(void)
{
    struct __kernel_timespec time = {.tv_nsec = 20000000};
    struct pair p = waiting();

    io_uring_prep_timeout(entry(0), &time, 0, 0);
    name_it(3);
    EXPECT(submit(1), 1);
    completes(3, -ETIME, "before it");
    EXPECT(io_uring_unregister_eventfd(&ring), -ENXIO);
    io_uring_prep_timeout(entry(0), &time, 0, 0);
    name_it(3);
    EXPECT(submit(1), 1);
    completes(3, -ETIME, "after it");
    EXPECT(send(p.far, "ab", 2, 0), 2);
    completes(1, 2, "unregistered");
    end(&p);
}

/* One entry that only the kernel can do, and one that could be served: in their order. */
static void in_order(void)
{
    struct pair p = prompt_pair();
    struct iovec part = {.iov_base = "a", .iov_len = 1};
    struct msghdr message = {.msg_iov = &part, .msg_iovlen = 1};

    io_uring_prep_sendmsg(entry(0), p.near, &message, 0);
    name_it(1);
    transmit(p.near, "b", 1, 2);
    EXPECT(submit(2), 2);
    completes(1, 1, "the first");
    completes(2, 1, "the second");
    EXPECT(recv(p.far, bytes, 2, MSG_WAITALL), 2);
    expect(memcmp(bytes, "ab", 2), 0, "in order");
    end(&p);
}

static struct pair held;

static void submit_another(int signal)
{
    (void)signal;
    EXPECT(send(held.far, "ab", 2, 0), 2);
    io_uring_prep_nop(entry(0));
    name_it(7);
    EXPECT(io_uring_submit(&ring), 1);
}

/* A handler uses the io_uring that its thread waits for. */
static void in_handler(void)
{
    struct sigaction action = {.sa_handler = submit_another};
    struct itimerval time = {.it_value.tv_usec = 30000};

    held = prompt_pair();
    sigaction(SIGALRM, &action, NULL);
    receive(held.near, 1);
    setitimer(ITIMER_REAL, &time, NULL);
    EXPECT(submit(1), 1);
    completes(7, 0, "the handler's");
    completes(1, 2, "the receive");
    end(&held);
}

/* A jump away from a wait for two, when one has come. */
static void jumped_with_one(void)
{
    struct sigaction action = {.sa_handler = jump};
    struct itimerval time = {.it_value.tv_usec = 50000};
    struct pair p = waiting(), q = prompt_pair();

    receive(q.near, 2);
    EXPECT(submit(0), 1);
    EXPECT(send(p.far, "ab", 2, 0), 2);
    sigaction(SIGALRM, &action, NULL);
    if (!sigsetjmp(away, 1)) {
        setitimer(ITIMER_REAL, &time, NULL);
        io_uring_submit_and_wait(&ring, 2);
        expect(0, 1, "jumped");
    }
    completes(1, 2, "what had come");
    EXPECT(send(q.far, "abc", 3, 0), 3);
    completes(2, 3, "what comes");
    end(&p);
    end(&q);
}

static void poll_removed(void)
{
    struct pair p = prompt_pair();

    io_uring_prep_poll_add(entry(0), p.near, POLLIN);
    name_it(1);
    EXPECT(submit(0), 1);
    io_uring_prep_poll_remove(entry(0), 1);
    name_it(2);
    EXPECT(submit(0), 1);
    completes(2, 0, "removed");
    completes(1, -ECANCELED, "the poll");
    end(&p);
}

/* A multishot receive behind a plain one of the same connection: each gets its turn. */
static void behind_one(void)
{
    static char pool[4][64];
    struct pair p = waiting();
    struct io_uring_cqe *cqe;
    int first = 0;

    io_uring_prep_provide_buffers(entry(0), pool, 64, 4, 1, 0);
    name_it(5);
    EXPECT(submit(1), 1);
    completes(5, 0, "buffers");
    io_uring_prep_recv_multishot(entry(0), p.near, NULL, 0, 0);
    ring.sq.sqes[(ring.sq.sqe_tail - 1) & *ring.sq.kring_mask].flags |= IOSQE_BUFFER_SELECT;
    ring.sq.sqes[(ring.sq.sqe_tail - 1) & *ring.sq.kring_mask].buf_group = 1;
    name_it(2);
    EXPECT(submit(0), 1);
    for (int i = 0; i < 4; i++) {
        EXPECT(send(p.far, "ab", 2, 0), 2);
        EXPECT(io_uring_wait_cqe(&ring, &cqe), 0);
        expect(cqe->res, 2, "in turn");
        first += cqe->user_data == 1;
        io_uring_cqe_seen(&ring, cqe);
    }
    expect(first, 1, "the plain one");
    end(&p);
}

/* In one batch: a receive that is kept, one that the kernel gets behind what was kept of its connection, and one more. */
static void mixed_batch(void)
{
    struct pair p = prompt_pair(), q = waiting(), r = prompt_pair();
    struct iovec part = {.iov_base = "xyz", .iov_len = 3};
    struct msghdr message = {.msg_iov = &part, .msg_iovlen = 1};

    receive(p.near, 2);
    io_uring_prep_sendmsg(entry(0), q.near, &message, 0);
    name_it(3);
    receive(r.near, 4);
    EXPECT(submit(1), 3);
    completes(3, 3, "by the kernel");
    EXPECT(send(q.far, "a", 1, 0), 1);
    completes(1, 1, "what was kept");
    EXPECT(send(p.far, "ab", 2, 0), 2);
    completes(2, 2, "before it in the batch");
    EXPECT(send(r.far, "abc", 3, 0), 3);
    completes(4, 3, "behind it");
    end(&p);
    end(&q);
    end(&r);
}

/* No descriptor is left for anybody. */
static void without_numbers(void)
{
    struct pair p = waiting();
    struct rlimit limit = {.rlim_cur = 40, .rlim_max = 40};

    EXPECT(setrlimit(RLIMIT_NOFILE, &limit), 0);
    while (dup(0) >= 0)
        ;
    EXPECT(send(p.far, "ab", 2, 0), 2);
    completes(1, 2, "without numbers");
    end(&p);
}

static int closing;

static void *close_soon(void *none)
{
    usleep(50000);
    EXPECT(close(closing), 0);
    return none;
}

/* Another thread closes the number while its thread waits. */
static void closed_meanwhile(void)
{
    struct __kernel_timespec time = {.tv_nsec = 300000000};
    struct pair p = prompt_pair();
    struct timespec begun, ended_at;
    struct io_uring_cqe *cqe;
    pthread_t thread;

    closing = p.near;
    receive(p.near, 1);
    EXPECT(pthread_create(&thread, NULL, close_soon, NULL), 0);
    clock_gettime(CLOCK_MONOTONIC, &begun);
    EXPECT(io_uring_submit_and_wait_timeout(&ring, &cqe, 1, &time, NULL), 1);
    clock_gettime(CLOCK_MONOTONIC, &ended_at);
    expect(ended_at.tv_sec - begun.tv_sec < 2, 1, "not much longer");
    EXPECT(pthread_join(thread, NULL), 0);
    EXPECT(send(p.far, "ab", 2, 0), 2);
    completes(1, 2, "of a closed number");
    EXPECT(recv(p.far, bytes, 1, 0), 0);
    close(p.far);
}
