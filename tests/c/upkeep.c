/* A thread sleeps on a connection whose number another thread closes: the kernel lets it sleep on, also
 * when the process has memory to look after meanwhile. Each call in a process of its own, at once. */
#include "calls.h"

static atomic_int woken, sleeper;

static void *sleep_in(void *arg) {
    const struct call *call = arg;
    sleeper = own_tid();
    call->run();
    woken = 1;
    return NULL;
}

/* A burst that is read makes buffers that can be given back, a second later. */
static void burst(void) {
    int other[2];
    warm_pair(other);
    drain(other[1], fill(other[0]));
    ping_pong(other, 5);
}

static int sleeps_on(const struct call *call) {
    pthread_t thread;
    burst();
    warm_pair(the_pair);
    if (strcmp(call->name, "epoll_wait") == 0)
        need_set();
    CHECK(pthread_create(&thread, NULL, sleep_in, (void *)call) == 0);
    while (!sleeper)
        nap_us(1000);
    await_sleep(sleeper);
    close(the_pair[0]);
    nap_us(2500000);
    return !woken;
}

int main(void) {
    static const char *const names[] = {"recv", "readv", "poll", "poll of two", "select", "epoll_wait"};
    enum { NAMES = sizeof names / sizeof *names };
    pid_t children[NAMES];
    for (int i = 0; i < NAMES; i++) {
        children[i] = fork();
        CHECK(children[i] >= 0);
        if (children[i] == 0) {
            for EACH_CALL (call)
                if (strcmp(call->name, names[i]) == 0)
                    exit(sleeps_on(call) ? 0 : 1);
            exit(2);
        }
    }
    for (int i = 0; i < NAMES; i++) {
        int status;
        CHECK(waitpid(children[i], &status, 0) == children[i]);
        printf("%s: %s\n", names[i], status == 0 ? "sleeps on" : "got up");
    }
    return 0;
}
