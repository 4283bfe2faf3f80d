/* pthread_cancel of a thread in every blocking call: asleep, spinning, at entry, disabled, and
 * anywhere; cleanup handlers run, the connection works on, and nothing is left behind.
 * argv[1]: how often in the loops. */
#include "calls.h"

static atomic_int cleaned, returned, entered;
static long value;
static atomic_int tid;

static void await_entry(void) {
    while (!entered)
        nap_us(1000);
    await_sleep(tid);
}

static void clean(void *arg) {
    (void)arg;
    /* A cleanup handler may use the connection. */
    char byte;
    CHECK(recv(the_pair[0], &byte, 1, MSG_DONTWAIT | MSG_PEEK) != 0);
    cleaned++;
}

static void *run(void *arg) {
    const struct call *call = arg;
    pthread_cleanup_push(clean, NULL);
    tid = own_tid();
    entered = 1;
    value = call->run();
    returned++;
    pthread_cleanup_pop(0);
    return NULL;
}

static void say(const char *what, const char *how, pthread_t thread) {
    void *status;
    pthread_join(thread, &status);
    printf("%s, %s: %s, cleaned %d, returned %d\n", what, how, status == PTHREAD_CANCELED ? "cancelled" : "ended", cleaned,
           returned);
    cleaned = returned = entered = 0;
}

/* Bytes that a cancelled sender may have moved are unknown. */
static void finish(const struct call *call) {
    if (call->out)
        empty(1);
    end_call(0);
}

static void while_asleep(const struct call *call) {
    pthread_t thread;
    begin_call(call);
    pthread_create(&thread, NULL, run, (void *)call);
    await_entry();
    pthread_cancel(thread);
    say(call->name, "asleep", thread);
    finish(call);
}

/* Data is there, or room: the cancellation that waits comes first all the same. */
static sem_t go;
static void *run_cancelled(void *arg) {
    sem_t never;
    int state;
    sem_init(&never, 0, 0);
    pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &state);
    while (sem_wait(&go) != 0) {
    }
    pthread_setcancelstate(PTHREAD_CANCEL_ENABLE, &state);
    return run(arg);
}
static void at_entry(const struct call *call) {
    pthread_t thread;
    warm_pair(the_pair);
    send_all(the_pair[1], "12345678", 8);
    send_all(the_pair[0], "12345678", 8);
    pthread_create(&thread, NULL, run_cancelled, (void *)call);
    pthread_cancel(thread);
    sem_post(&go);
    say(call->name, "at entry", thread);
    drain(the_pair[0], 8);
    drain(the_pair[1], 8);
    finish(call);

}

static void *run_disabled(void *arg) {
    int state;
    pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &state);
    return run(arg);
}
static void disabled(void) {
    pthread_t thread;
    warm_pair(the_pair);
    pthread_create(&thread, NULL, run_disabled, (void *)&calls[0]);
    await_entry();
    pthread_cancel(thread);
    nap_us(20000);
    send_all(the_pair[1], "12345678", 8);
    say("recv", "disabled", thread);
    printf("received %ld\n", value);
    end_call(0);
}

static void *run_anywhere(void *arg) {
    int type;
    pthread_setcanceltype(PTHREAD_CANCEL_ASYNCHRONOUS, &type);
    return run(arg);
}

/* At any moment of a thread that receives and answers. */
static void *serve(void *arg) {
    char message[MESSAGE];
    pthread_cleanup_push(clean, NULL);
    if (arg) {
        int type;
        pthread_setcanceltype(PTHREAD_CANCEL_ASYNCHRONOUS, &type);
    }
    for (;;) {
        entered = 1;
        if (recv(the_pair[0], message, sizeof message, 0) > 0)
            send(the_pair[0], message, 1, MSG_NOSIGNAL | MSG_DONTWAIT);
    }
    pthread_cleanup_pop(0);
    return NULL;
}
static void at_any_moment(int times, int anywhere) {
    unsigned seed = 7;
    warm_pair(the_pair);
    for (int turn = 0; turn < times; turn++) {
        pthread_t thread;
        char bytes[4096] = "x";
        void *status;
        entered = 0;
        pthread_create(&thread, NULL, serve, anywhere ? &seed : NULL);
        while (!entered)
            sched_yield();
        for (int burst = rand_r(&seed) % 4; burst >= 0; burst--)
            send(the_pair[1], bytes, 1, MSG_DONTWAIT);
        for (long end = now_us() + rand_r(&seed) % 150; now_us() < end;) {
        }
        pthread_cancel(thread);
        pthread_join(thread, &status);
        CHECK(status == PTHREAD_CANCELED);
        while (recv(the_pair[1], bytes, sizeof bytes, MSG_DONTWAIT) > 0) {
        }
    }
    printf("at any moment: cleaned %s\n", cleaned == times ? "each time" : "not always");
    cleaned = 0;
    empty(0);
    empty(1);
    empty(0);
    end_call(0);
}

/* A connection that is used too little to be on rings, and other calls of kernel sockets. */
static long call_accept(void) {
    struct sockaddr_in addr = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    int listener = socket(AF_INET, SOCK_STREAM, 0);
    bind(listener, (struct sockaddr *)&addr, sizeof addr);
    listen(listener, 1);
    return accept(listener, NULL, NULL);
}
static void on_kernel(void) {
    static const struct call accepting = {"accept", call_accept, 0, 0};
    pthread_t thread;
    for (int turn = 0; turn < 2; turn++) {
        connect_pair(the_pair);
        const struct call *call = turn ? &accepting : &calls[0];
        pthread_create(&thread, NULL, run, (void *)call);
        await_entry();
        pthread_cancel(thread);
        say(call->name, "on a fresh socket", thread);
        /* It becomes what it can. */
        ping_pong(the_pair, 300);
        close_pair(the_pair);
    }
}

int main(int argc, char **argv) {
    int times = argc > 1 ? atoi(argv[1]) : 1000;
    setvbuf(stdout, NULL, _IOLBF, 0);
    sem_init(&go, 0, 0);
    for EACH_CALL (call)
        while_asleep(call);
    for EACH_CALL (call)
        at_entry(call);
    disabled();
    warm_pair(the_pair);
    pthread_t thread;
    pthread_create(&thread, NULL, run_anywhere, (void *)&calls[0]);
    await_entry();
    pthread_cancel(thread);
    say("recv", "anywhere", thread);
    end_call(0);
    on_kernel();
    at_any_moment(times, 0);
    at_any_moment(times, 1);
    return 0;
}
