/* siglongjmp out of every blocking call, again and again: afterwards the connection works, and
 * nothing is left behind. argv[1]: how often per call. */
#include "calls.h"

static sigjmp_buf out;
static volatile sig_atomic_t armed;

static void jump(int signal) {
    (void)signal;
    if (armed)
        siglongjmp(out, 1);
}

/* The timer's first tick may come while the call still spins, or when it sleeps. */
static void tick(long us) {
    struct itimerval timer = {{0, 0}, {0, us}};
    setitimer(ITIMER_REAL, &timer, NULL);
}

static size_t jump_often(const struct call *call, int times) {
    volatile int jumped = 0;
    volatile size_t moved = 0;
    for (volatile int turn = 0; turn < times; turn++) {
        if (sigsetjmp(out, 1) == 0) {
            armed = 1;
            tick(turn % 10 == 0 ? 2000 : 20 + turn * 7 % 150);
            long n = call->run();
            armed = 0;
            /* Only a sender that found a little room comes back. */
            CHECK(n > 0 && call->out);
            moved += call->moves ? n : 0;
        } else {
            armed = 0;
            jumped++;
        }
        tick(0);
    }
    printf("%s: %s\n", call->name, jumped >= times - 20 ? "jumped" : "came back too often");
    return moved;
}

/* From poll of many fds, which takes memory. */
static void poll_many(int times) {
    enum { MANY = 300 };
    static struct pollfd entries[MANY];
    struct rusage before, after;
    warm_pair(the_pair);
    for (int index = 0; index < MANY; index++)
        entries[index] = (struct pollfd){the_pair[0], POLLIN, 0};
    for (volatile int turn = 0; turn < times; turn++) {
        if (turn == 100)
            getrusage(RUSAGE_SELF, &before);
        if (sigsetjmp(out, 1) == 0) {
            armed = 1;
            tick(50);
            poll(entries, MANY, -1);
        }
        armed = 0;
    }
    getrusage(RUSAGE_SELF, &after);
    printf("poll of many: %s\n", after.ru_maxrss - before.ru_maxrss < 2000 ? "no leak" : "leak");
    end_call(0);
}

/* Without the mask: the signal stays blocked, as the kernel leaves it. */
static void jump_without_mask(void) {
    sigset_t set;
    warm_pair(the_pair);
    if (sigsetjmp(out, 0) == 0) {
        armed = 1;
        tick(3000);
        call_recv();
    }
    armed = 0;
    sigprocmask(SIG_SETMASK, NULL, &set);
    printf("mask after a plain jump: ALRM %d USR1 %d\n", sigismember(&set, SIGALRM), sigismember(&set, SIGUSR1));
    sigemptyset(&set);
    sigprocmask(SIG_SETMASK, &set, NULL);
    end_call(0);
}

int main(int argc, char **argv) {
    int times = argc > 1 ? atoi(argv[1]) : 500;
    struct sigaction action = {.sa_handler = jump};
    sigaction(SIGALRM, &action, NULL);
    setvbuf(stdout, NULL, _IOLBF, 0);
    int before = 0;
    for EACH_CALL (call) {
        begin_call(call);
        size_t moved = jump_often(call, times);
        size_t left = the_fill + moved;
        /* What a jump out of a send has moved before nobody knows. */
        if (call->out && call->moves) {
            empty(1);
            left = 0;
        }
        ping_pong(the_pair, call->out ? 0 : 200);
        end_call(left);
        if (!before)
            before = open_fds();
    }
    poll_many(times);
    jump_without_mask();
    printf("fds: %s\n", open_fds() <= before + 6 ? "no leak" : "leak");
    return 0;
}
