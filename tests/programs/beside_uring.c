/* Connections beside an io_uring: beside_uring HOW SCENARIO
 *
 * HOW says who makes the system calls of io_uring: liburing, or libc's syscall. The io_uring is made first. Then each step
 * has a connection of its own, both of whose ends are here, and which has carried enough by plain calls to be accelerated.
 * What is not as it must be is printed, and the program fails. */
#define _GNU_SOURCE
#include "beside_uring/ends.h"
#include "beside_uring/sets.h"
#include "beside_uring/operations.h"

/* ---- Only files, pipes and nothing: no connection is touched. */
static void files(void)
{
    struct pair p = connect_pair();
    unsigned char bytes[64];
    char name[] = "/tmp/beside-XXXXXX";
    int file = mkstemp(name), ends[2];

    unlink(name);
    EXPECT(pipe(ends), 0);
    if (by_liburing)
        EXPECT(io_uring_register_ring_fd(&ring), 1);
    for (int i = 0; i < 200; i++) {
        struct io_uring_sqe *sqe = entry(0);

        io_uring_prep_write(sqe, file, "0123456789", 10, 0);
        sqe->user_data = 1;
        sqe = entry(0);
        io_uring_prep_nop(sqe);
        sqe->user_data = 2;
        sqe = entry(0);
        io_uring_prep_write(sqe, ends[1], "01234", 5, 0);
        sqe->user_data = 4;
        EXPECT(submit(3), 3);
        EXPECT(result_of(1), 10);
        EXPECT(result_of(2), 0);
        EXPECT(result_of(4), 5);
        EXPECT(read(ends[0], bytes, 64), 5);
        sqe = entry(0);
        io_uring_prep_read(sqe, file, bytes, 10, 0);
        sqe->user_data = 3;
        EXPECT(one(sqe), 10);
        EXPECT(memcmp(bytes, "0123456789", 10), 0);
        exchange(&p, 2, "beside files");
    }
    end(&p);
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

/* ---- A socket that is in a set before it is connected, and that the io_uring connects, or waits for. */
static void unconnected(void)
{
    for (int kind = 0; kind < 4; kind++) {
        int set = epoll_create1(0), fd = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK, 0), far;
        struct epoll_event event = {.events = EPOLLIN, .data.fd = fd}, none;
        unsigned char out = 0, in = 0, heard = 0, answered = 0;
        struct io_uring_sqe *sqe = entry(0);

        if (kind & 1)
            EXPECT(epoll_ctl(set, EPOLL_CTL_ADD, fd, &event), 0);
        if (kind & 2) {
            io_uring_prep_connect(sqe, fd, (void *)&address, sizeof address);
            sqe->user_data = 1;
            EXPECT(one(sqe), 0);
        } else {
            expect(!connect(fd, (void *)&address, sizeof address) || errno == EINPROGRESS, 1, "connect");
            io_uring_prep_poll_add(sqe, fd, POLLOUT);
            sqe->user_data = 1;
            EXPECT(one(sqe) & POLLOUT, POLLOUT);
        }
        if (!(kind & 1))
            EXPECT(epoll_ctl(set, EPOLL_CTL_ADD, fd, &event), 0);
        far = accept(listener, NULL, NULL);
        for (int i = 0; i < WARM; i++) {
            EXPECT(epoll_wait(set, &none, 1, 0), 0);
            say(far, 40, &in);
            wait_for(set, fd, "after the io_uring");
            hear(fd, 40, &answered, "after the io_uring");
            say(fd, 30, &out);
            hear(far, 30, &heard, "after the io_uring");
        }
        EXPECT(epoll_ctl(set, EPOLL_CTL_DEL, fd, NULL), 0);
        close(fd);
        close(far);
        close(set);
    }
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

/* ---- The peer is stopped, and its bytes are in rings alone, or in a socket. */
static void stopped(void)
{
    unsigned char out = 0, in = 0, bytes[SIZE];
    struct io_uring_sqe *sqe;
    int fd, n, status;
    pid_t pid = fork();

    if (pid == 0) {
        close(listener);
        fd = socket(AF_INET, SOCK_STREAM, 0);
        EXPECT(connect(fd, (void *)&address, sizeof address), 0);
        for (int i = 0; i < WARM; i++) {
            say(fd, 40, &out);
            hear(fd, 30, &in, "in the child");
        }
        say(fd, 3000, &out);
        raise(SIGSTOP);
        hear(fd, 500, &in, "after the stop");
        say(fd, 100, &out);
        _exit(0);
    }
    fd = accept(listener, NULL, NULL);
    for (int i = 0; i < WARM; i++) {
        hear(fd, 40, &in, "in the parent");
        say(fd, 30, &out);
    }
    EXPECT(waitpid(pid, &status, WUNTRACED), pid);
    for (int got = 0; got < 3000; got += n) {
        sqe = entry(0);
        io_uring_prep_recv(sqe, fd, bytes, 1000, 0);
        sqe->user_data = 1;
        n = one(sqe);
        expect(n > 0, 1, "from a stopped peer");
        check(bytes, n, &in, "from a stopped peer");
    }
    /* Whoever stands in for the connection does not hold the listener. */
    close(listener);
    open_listener();
    fill(bytes, 500, &out);
    sqe = entry(0);
    io_uring_prep_send(sqe, fd, bytes, 500, 0);
    sqe->user_data = 2;
    EXPECT(one(sqe), 500);
    EXPECT(kill(pid, SIGCONT), 0);
    hear(fd, 100, &in, "after the stop");
    EXPECT(waitpid(pid, &status, 0), pid);
    EXPECT(status, 0);
    EXPECT(recv(fd, bytes, 1, 0), 0);
    close(fd);
}

/* ---- Another program has inherited the io_uring. */
static void another_program(void)
{
    EXPECT(fcntl(ring.ring_fd, F_SETFD, 0), 0);
    execl("/proc/self/exe", "beside", by_liburing ? "liburing" : "syscall", "files", NULL);
    exit(2);
}

/* ---- Several threads submit to one io_uring: they take turns writing entries, but not entering. */
static pthread_mutex_t turn = PTHREAD_MUTEX_INITIALIZER;
static struct pair *pairs;

static void *submitter(void *which)
{
    long number = (long)which;
    struct pair *p = &pairs[number];
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
    static struct pair p[THREADS];
    unsigned char out[THREADS];
    pthread_t thread[THREADS];

    if (by_liburing)
        return;
    for (long i = 0; i < THREADS; i++) {
        p[i] = connect_pair();
        out[i] = heard_out;
    }
    pairs = p;
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
        {"threads", threads}, {"closed", closed_numbers},
        {"unconnected", unconnected}, {"stopped", stopped}, {"exec", another_program},
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
