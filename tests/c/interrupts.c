/* EINTR and SA_RESTART in every blocking call, with and without timeouts. */
#include "calls.h"

static atomic_int handled;
static pthread_t main_thread;

static void handler(int signal) {
    (void)signal;
    handled++;
}

static void install(int flags) {
    struct sigaction action = {.sa_handler = handler, .sa_flags = flags};
    sigaction(SIGUSR1, &action, NULL);
}

static void kick(void *arg) {
    (void)arg;
    pthread_kill(main_thread, SIGUSR1);
}

static void kick_asleep(void *arg) {
    await_sleep(getpid());
    kick(arg);
}

/* First the signal, and later what the call waits for. */
static void kick_and_serve(void *arg) {
    const struct call *call = arg;
    kick_asleep(NULL);
    nap_us(20000);
    if (call->out)
        drain(the_pair[1], the_fill);
    else
        send_all(the_pair[1], "12345678", 8);
}

static void interrupted(const struct call *call, const char *how, int flags, long timeout_us) {
    struct later later;
    begin_call(call);
    if (timeout_us) {
        struct timeval time = {timeout_us / 1000000, timeout_us % 1000000};
        setsockopt(the_pair[0], SOL_SOCKET, SO_RCVTIMEO, &time, sizeof time);
        setsockopt(the_pair[0], SOL_SOCKET, SO_SNDTIMEO, &time, sizeof time);
    }
    install(flags);
    handled = 0;
    /* A call that restarts would wait for ever. */
    int restarts = flags & SA_RESTART && call->moves && !timeout_us;
    later_begin(&later, 1000, restarts ? kick_and_serve : kick_asleep, (void *)call);
    long value = call->run();
    int times = handled;
    later_end(&later);
    printf("%s, %s: %s, handled %d\n", call->name, how, result(value), times);
    struct timeval none = {0, 0};
    setsockopt(the_pair[0], SOL_SOCKET, SO_RCVTIMEO, &none, sizeof none);
    setsockopt(the_pair[0], SOL_SOCKET, SO_SNDTIMEO, &none, sizeof none);
    size_t left = call->out && !restarts ? the_fill : 0;
    if (call->out && value > 0 && call->moves)
        left += value;
    end_call(left);
}

/* Signals at any moment of a wait, the spinning part too: none may be missed, none may end a call
 * that restarts, and the bytes are right. */
static atomic_int stop;
static void *storm(void *arg) {
    unsigned seed = 1;
    (void)arg;
    while (!stop) {
        nap_us(rand_r(&seed) % 200);
        kick(NULL);
    }
    return NULL;
}
static void *echo(void *arg) {
    char message[MESSAGE];
    (void)arg;
    for (;;) {
        ssize_t n = recv(the_pair[1], message, sizeof message, MSG_WAITALL);
        if (n <= 0)
            return NULL;
        send_all(the_pair[1], message, n);
    }
}
static void in_a_storm(int flags) {
    pthread_t threads[2];
    sigset_t set;
    warm_pair(the_pair);
    install(flags);
    handled = stop = 0;
    sigemptyset(&set);
    sigaddset(&set, SIGUSR1);
    pthread_sigmask(SIG_BLOCK, &set, NULL);
    pthread_create(&threads[0], NULL, echo, NULL);
    pthread_create(&threads[1], NULL, storm, NULL);
    pthread_sigmask(SIG_UNBLOCK, &set, NULL);
    long begin = now_us(), errors = 0;
    /* On a crowded machine signals fall together: then it takes longer until there were many. */
    for (unsigned round = 0; now_us() - begin < 500000 || handled <= 50; round++) {
        char out[MESSAGE], in[MESSAGE];
        memset(out, round, sizeof out);
        send_all(the_pair[0], out, sizeof out);
        for (size_t got = 0; got < sizeof in;) {
            ssize_t n = recv(the_pair[0], in + got, sizeof in - got, 0);
            errors += n < 0 && errno == EINTR;
            CHECK(n > 0 || errno == EINTR);
            got += n > 0 ? n : 0;
        }
        CHECK(memcmp(out, in, sizeof in) == 0);
        CHECK(!(flags & SA_RESTART) || errors == 0);
    }
    stop = 1;
    pthread_join(threads[1], NULL);
    shutdown(the_pair[0], SHUT_WR);
    pthread_join(threads[0], NULL);
    close_pair(the_pair);
    puts("storm: many");
}

int main(void) {
    main_thread = pthread_self();
    setvbuf(stdout, NULL, _IOLBF, 0);
    for EACH_CALL (call) {
        interrupted(call, "interrupts", 0, 0);
        interrupted(call, "restarts", SA_RESTART, 0);
        interrupted(call, "restarts with a timeout", SA_RESTART, 20000000);
    }
    for (int turn = 0; turn < 2; turn++) {
        in_a_storm(0);
        in_a_storm(SA_RESTART);
    }
    return 0;
}
