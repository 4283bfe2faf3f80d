/* Waits that a signal ends. */
#include <setjmp.h>
#include <sys/time.h>

static void handler(int signal)
{
    (void)signal;
}

static void interrupted(void)
{
    struct sigaction action = {.sa_handler = handler, .sa_flags = SA_RESTART};
    struct itimerval time = {.it_value.tv_usec = 50000}, none = {0};
    struct io_uring_cqe *cqe;
    struct pair p = waiting();

    sigaction(SIGALRM, &action, NULL);
    setitimer(ITIMER_REAL, &time, NULL);
    EXPECT(io_uring_wait_cqe(&ring, &cqe), -EINTR);
    setitimer(ITIMER_REAL, &none, NULL);
    EXPECT(send(p.far, "ab", 2, 0), 2);
    completes(1, 2, "after the handler");
    end(&p);
}

static sigjmp_buf away;

static void jump(int signal)
{
    siglongjmp(away, signal);
}

static void jumped(void)
{
    struct sigaction action = {.sa_handler = jump};
    struct itimerval time = {.it_value.tv_usec = 30000};
    struct pair p = waiting();
    struct io_uring_cqe *cqe;

    sigaction(SIGALRM, &action, NULL);
    if (!sigsetjmp(away, 1)) {
        setitimer(ITIMER_REAL, &time, NULL);
        io_uring_wait_cqe(&ring, &cqe);
        expect(0, 1, "jumped");
    }
    EXPECT(send(p.far, "ab", 2, 0), 2);
    completes(1, 2, "after the jump");
    receive(p.near, 2);
    EXPECT(submit(0), 1);
    EXPECT(send(p.far, "ab", 2, 0), 2);
    completes(2, 2, "and after that");
    end(&p);
}

/* A signal that is blocked but for the wait ends it, whenever it has come. */
static void masked(void)
{
    struct sigaction action = {.sa_handler = handler};
    struct io_uring_cqe *cqe;
    struct pair p = waiting();
    sigset_t blocked, none;

    sigaction(SIGUSR1, &action, NULL);
    sigemptyset(&none);
    sigemptyset(&blocked);
    sigaddset(&blocked, SIGUSR1);
    sigprocmask(SIG_BLOCK, &blocked, NULL);
    for (int i = 0; i < 20; i++) {
        EXPECT(kill(getpid(), SIGUSR1), 0);
        EXPECT(io_uring_wait_cqes(&ring, &cqe, 1, NULL, &none), -EINTR);
    }
    EXPECT(send(p.far, "ab", 2, 0), 2);
    completes(1, 2, "after the signals");
    end(&p);
}

/* Many waits, each of which a signal ends that may come at any moment of it. */
static void interrupted_often(void)
{
    struct sigaction action = {.sa_handler = handler};
    struct itimerval none = {0};
    struct io_uring_cqe *cqe;
    struct pair p = waiting();

    sigaction(SIGALRM, &action, NULL);
    for (int i = 0; i < 300; i++) {
        struct itimerval time = {.it_value.tv_usec = 50 + i * 7 % 400, .it_interval.tv_usec = 20000};

        setitimer(ITIMER_REAL, &time, NULL);
        EXPECT(io_uring_wait_cqe(&ring, &cqe), -EINTR);
    }
    setitimer(ITIMER_REAL, &none, NULL);
    EXPECT(send(p.far, "ab", 2, 0), 2);
    completes(1, 2, "after the signals");
    end(&p);
}
