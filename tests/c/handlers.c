/* What handlers see and may do: masks, siginfo, order and count of queued signals, stacks, one-shot
 * handlers, socket calls of their own, signals that others wait for. */
#include "calls.h"

static pthread_t main_thread;
static atomic_int handled;

static void on(int signal, void (*handler)(int, siginfo_t *, void *), int flags) {
    struct sigaction action = {.sa_sigaction = handler, .sa_flags = flags | SA_SIGINFO};
    sigemptyset(&action.sa_mask);
    CHECK(sigaction(signal, &action, NULL) == 0);
}
static void block(int how, int signal) {
    sigset_t set;
    sigemptyset(&set);
    sigaddset(&set, signal);
    pthread_sigmask(how, &set, NULL);
}
static void count(int signal, siginfo_t *info, void *context) {
    (void)signal, (void)info, (void)context;
    handled++;
}
static void kick(void *arg) { pthread_kill(main_thread, (int)(intptr_t)arg); }
static void serve(void *arg) {
    (void)arg;
    send_all(the_pair[1], "1", 1);
}

/* --- masks: a signal that waits, and a call whose mask lets it in --- */

static long masked(int kind, int ready_or_time) {
    static const struct timespec zero, hundred = {0, 100000000};
    const struct timespec *time = ready_or_time == 0 ? &zero : &hundred;
    struct pollfd entry = {the_pair[0], POLLIN, 0};
    struct epoll_event event;
    sigset_t none;
    fd_set set;
    sigemptyset(&none);
    FD_ZERO(&set);
    FD_SET(the_pair[0], &set);
    need_set();
    switch (kind) {
    case 0: return ppoll(&entry, 1, time, &none);
    case 1: return pselect(the_pair[0] + 1, &set, NULL, NULL, time, &none);
    case 2: return epoll_pwait(the_set, &event, 1, time == &zero ? 0 : 100, &none);
    default: return epoll_pwait2(the_set, &event, 1, time, &none);
    }
}

static void pending_and_let_in(void) {
    static const char *const names[] = {"ppoll", "pselect", "epoll_pwait", "epoll_pwait2"};
    for (int kind = 0; kind < 4; kind++) {
        for (int ready = 0; ready < 2; ready++) {
            for (int time = 0; time < 2; time++) {
                warm_pair(the_pair);
                if (ready)
                    send_all(the_pair[1], "1", 1), nap_us(1000);
                on(SIGUSR1, count, 0);
                block(SIG_BLOCK, SIGUSR1);
                kick((void *)SIGUSR1);
                handled = 0;
                long value = masked(kind, time);
                int times = handled;
                printf("%s, %s, %s: %s, handled %d", names[kind], ready ? "data" : "no data", time ? "time" : "no time",
                       result(value), times);
                block(SIG_UNBLOCK, SIGUSR1);
                printf(", then %d\n", handled);
                if (ready)
                    drain(the_pair[0], 1);
                end_call(0);
            }
        }
    }
}

/* A signal that the call's mask blocks comes when the call is over. */
static void kick_nap_serve(void *arg) {
    kick((void *)SIGUSR1);
    nap_us(30000);
    serve(arg);
}
static void blocked_by_the_mask(void) {
    for (int kind = 0; kind < 3; kind++) {
        struct later later;
        struct pollfd entry = {0, POLLIN, 0};
        struct epoll_event event;
        sigset_t one;
        fd_set set;
        long value;
        warm_pair(the_pair);
        need_set();
        on(SIGUSR1, count, 0);
        sigemptyset(&one);
        sigaddset(&one, SIGUSR1);
        handled = 0;
        /* The first one while the call may still spin. */
        later_begin(&later, 5, kick_nap_serve, NULL);
        entry.fd = the_pair[0];
        FD_ZERO(&set);
        FD_SET(the_pair[0], &set);
        int before = handled;
        switch (kind) {
        case 0: value = ppoll(&entry, 1, NULL, &one); break;
        case 1: value = pselect(the_pair[0] + 1, &set, NULL, NULL, NULL, &one); break;
        default: value = epoll_pwait(the_set, &event, 1, -1, &one); break;
        }
        int after = handled;
        later_end(&later);
        printf("blocked by the mask %d: %s, handled %d\n", kind, before ? "1" : result(value), after);
        drain(the_pair[0], 1);
        end_call(0);
    }
}

/* --- siginfo, count and order --- */

enum { QUEUED = 300 };
static int values[2 * QUEUED], value_count;
static int odd;
static void note(int signal, siginfo_t *info, void *context) {
    (void)context;
    if (info->si_signo != signal || info->si_code != SI_QUEUE || info->si_pid != getpid() || info->si_uid != getuid())
        odd++;
    values[value_count++] = info->si_value.sival_int;
}
static void *queue(void *arg) {
    for (int i = 0; i < QUEUED; i++) {
        union sigval value = {.sival_int = i};
        if (arg)
            CHECK(pthread_sigqueue(main_thread, SIGRTMIN + 3, value) == 0);
        else
            CHECK(sigqueue(getpid(), SIGRTMIN + 3, value) == 0);
        if (i % 3 == 0)
            nap_us(i % 50);
    }
    return NULL;
}
static void queued(void) {
    for (int directed = 0; directed < 2; directed++) {
        for (int flags = 0; flags < 2; flags++) {
            pthread_t thread;
            warm_pair(the_pair);
            on(SIGRTMIN + 3, note, flags ? SA_RESTART : 0);
            value_count = odd = 0;
            block(SIG_BLOCK, SIGRTMIN + 3);
            pthread_create(&thread, NULL, queue, directed ? &odd : NULL);
            block(SIG_UNBLOCK, SIGRTMIN + 3);
            while (value_count < QUEUED)
                ping_pong(the_pair, 1);
            pthread_join(thread, NULL);
            int ordered = 1;
            for (int i = 0; i < QUEUED; i++)
                ordered &= values[i] == i;
            printf("queued: %d, %s, odd %d\n", value_count, ordered ? "in order" : "out of order", odd);
            end_call(0);
        }
    }
}

/* --- stacks, one-shot, nesting, the context --- */

static char stack[1 << 16];
static volatile int on_stack;
static void where(int signal, siginfo_t *info, void *context) {
    char here;
    (void)signal, (void)info, (void)context;
    on_stack += &here >= stack && &here < stack + sizeof stack;
    handled++;
}
static void own_stack(void) {
    stack_t alternate = {.ss_sp = stack, .ss_size = sizeof stack};
    struct later later;
    sigaltstack(&alternate, NULL);
    on(SIGUSR1, where, SA_ONSTACK | SA_RESTART);
    for (int turn = 0; turn < 300; turn++) {
        if (turn % 50 == 0)
            warm_pair(the_pair);
        handled = on_stack = 0;
        later_begin(&later, turn, kick, (void *)SIGUSR1);
        while (!handled)
            ping_pong(the_pair, 1);
        later_end(&later);
        CHECK(on_stack == 1);
        if (turn % 50 == 49)
            end_call(0);
    }
    alternate.ss_flags = SS_DISABLE;
    sigaltstack(&alternate, NULL);
    printf("own stack: always\n");
}

static void one_shot(void) {
    struct sigaction now;
    struct later later;
    for (int spin = 0; spin < 2; spin++) {
        warm_pair(the_pair);
        on(SIGUSR1, count, SA_RESETHAND);
        sigaction(SIGUSR1, NULL, &now);
        printf("one shot: flags %x", now.sa_flags & (SA_RESETHAND | SA_SIGINFO | SA_RESTART));
        handled = 0;
        later_begin(&later, spin ? 20 : 20000, kick, (void *)SIGUSR1);
        while (!handled)
            call_poll_time();
        later_end(&later);
        sigaction(SIGUSR1, NULL, &now);
        printf(", handled %d, then default %d\n", handled, now.sa_handler == SIG_DFL);
        end_call(0);
    }
}

static volatile int depth, deepest;
static void nest(int signal, siginfo_t *info, void *context) {
    (void)info, (void)context;
    if (++depth > deepest)
        deepest = depth;
    if (handled++ < 2)
        raise(signal);
    depth--;
}
static void nested(void) {
    struct later later;
    for (int flags = 0; flags < 2; flags++) {
        warm_pair(the_pair);
        on(SIGUSR1, nest, flags ? SA_NODEFER : 0);
        depth = deepest = handled = 0;
        later_begin(&later, 20000, kick, (void *)SIGUSR1);
        errno = 0;
        long value = call_recv();
        printf("nested: %s, deepest %d, handled %d\n", result(value), deepest, handled);
        later_end(&later);
        end_call(0);
    }
}

/* A handler changes the mask that holds after it. */
static volatile int mask_was;
static void keep_blocked(int signal, siginfo_t *info, void *context) {
    ucontext_t *interrupted = context;
    (void)signal, (void)info;
    mask_was = sigismember(&interrupted->uc_sigmask, SIGUSR2) + 2 * sigismember(&interrupted->uc_sigmask, SIGHUP);
    sigaddset(&interrupted->uc_sigmask, SIGTERM);
    handled++;
}
static void context_mask(void) {
    struct later later;
    for (int spin = 0; spin < 2; spin++) {
        sigset_t set;
        warm_pair(the_pair);
        on(SIGUSR1, keep_blocked, 0);
        block(SIG_BLOCK, SIGUSR2);
        handled = 0;
        later_begin(&later, spin ? 10 : 20000, kick, (void *)SIGUSR1);
        while (!handled)
            call_poll_time();
        later_end(&later);
        pthread_sigmask(SIG_SETMASK, NULL, &set);
        printf("context: mask was %d, TERM blocked %d, HUP blocked %d\n", mask_was, sigismember(&set, SIGTERM),
               sigismember(&set, SIGHUP));
        sigemptyset(&set);
        pthread_sigmask(SIG_SETMASK, &set, NULL);
        end_call(0);
    }
}

/* --- handlers with calls of their own --- */

static int other[2];
static void talk(int signal, siginfo_t *info, void *context) {
    char byte;
    (void)signal, (void)info, (void)context;
    int error = errno;
    /* The connection that was interrupted, both ways, and another. */
    CHECK(recv(the_pair[0], &byte, 1, MSG_DONTWAIT) < 0 && errno == EAGAIN);
    send_all(the_pair[0], "q", 1);
    CHECK(recv(the_pair[1], &byte, 1, 0) == 1 && byte == 'q');
    ping_pong(other, 2);
    struct pollfd entry = {other[0], POLLIN, 0};
    CHECK(poll(&entry, 1, 1) == 0);
    handled++;
    errno = error;
}
static void kick_then_serve(void *arg) {
    kick((void *)SIGUSR1);
    while (!handled)
        nap_us(100);
    serve(arg);
}
static void calls_in_handlers(void) {
    struct later signals;
    warm_pair(the_pair);
    warm_pair(other);
    on(SIGUSR1, talk, SA_RESTART);
    for (int turn = 0; turn < 40; turn++) {
        char byte;
        handled = 0;
        later_begin(&signals, turn % 2 ? 5000 : turn * 3, kick_then_serve, NULL);
        long n = recv(the_pair[0], &byte, 1, 0);
        later_end(&signals);
        CHECK(n == 1 && byte == '1' && handled == 1);
    }
    printf("calls in handlers: right\n");
    close_pair(other);
    end_call(0);
}

/* --- SIGPIPE, and signals that others wait for --- */

static pthread_t piped;
static int pipe_code, pipe_own;
static void note_pipe(int signal, siginfo_t *info, void *context) {
    (void)signal, (void)context;
    piped = pthread_self();
    pipe_code = info->si_code;
    pipe_own = info->si_pid == getpid();
}
static void *break_pipe(void *arg) {
    (void)arg;
    for (;;) {
        if (send(the_pair[0], "x", 1, 0) < 0)
            return (void *)(intptr_t)errno;
        nap_us(100);
    }
}
static void broken_pipe(void) {
    pthread_t thread;
    void *error;
    warm_pair(the_pair);
    on(SIGPIPE, note_pipe, 0);
    close(the_pair[1]);
    pthread_create(&thread, NULL, break_pipe, NULL);
    pthread_join(thread, &error);
    /* First the reset, then the pipe. */
    if ((intptr_t)error == ECONNRESET) {
        pthread_create(&thread, NULL, break_pipe, NULL);
        pthread_join(thread, &error);
    }
    printf("pipe: %s, right thread %d, code %d, own %d\n", strerrorname_np((intptr_t)error), piped == thread, pipe_code, pipe_own);
    printf("no signal: %s\n", (piped = 0, result(send(the_pair[0], "x", 1, MSG_NOSIGNAL))));
    printf("none came: %d\n", piped == 0);
    close(the_pair[0]);
}

static void *wait_info(void *arg) {
    sigset_t set;
    siginfo_t info;
    (void)arg;
    sigemptyset(&set);
    sigaddset(&set, SIGRTMIN + 5);
    for (int i = 0; i < 100; i++)
        CHECK(sigwaitinfo(&set, &info) == SIGRTMIN + 5 && info.si_value.sival_int == i);
    return NULL;
}
static void waited_for_elsewhere(void) {
    pthread_t thread;
    sigset_t set;
    struct signalfd_siginfo info;
    block(SIG_BLOCK, SIGRTMIN + 5);
    block(SIG_BLOCK, SIGHUP);
    warm_pair(the_pair);
    sigemptyset(&set);
    sigaddset(&set, SIGHUP);
    int fd = signalfd(-1, &set, 0);
    pthread_create(&thread, NULL, wait_info, NULL);
    for (int i = 0; i < 100; i++) {
        union sigval value = {.sival_int = i};
        sigqueue(getpid(), SIGRTMIN + 5, value);
        ping_pong(the_pair, 3);
    }
    pthread_join(thread, NULL);
    kill(getpid(), SIGHUP);
    struct pollfd entries[2] = {{the_pair[0], POLLIN, 0}, {fd, POLLIN, 0}};
    int ready = poll(entries, 2, -1);
    printf("signalfd: poll %d, %d\n", ready, entries[1].revents == POLLIN);
    CHECK(read(fd, &info, sizeof info) == sizeof info);
    printf("signalfd: %d\n", info.ssi_signo == SIGHUP);
    close(fd);
    end_call(0);
}

int main(void) {
    main_thread = pthread_self();
    setvbuf(stdout, NULL, _IOLBF, 0);
    pending_and_let_in();
    blocked_by_the_mask();
    queued();
    own_stack();
    one_shot();
    nested();
    context_mask();
    calls_in_handlers();
    broken_pipe();
    waited_for_elsewhere();
    return 0;
}
