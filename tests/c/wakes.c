/* What wakes a sleeper, and what does not: SO_RCVLOWAT that changes, a number that gets another
 * meaning, timers; and calls without data: connect and accept. */
#include "calls.h"

/* --- SO_RCVLOWAT --- */

static void set_lowat(int bytes) { CHECK(setsockopt(the_pair[0], SOL_SOCKET, SO_RCVLOWAT, &bytes, sizeof bytes) == 0); }
static long received_many(void) {
    char bytes[64];
    return recv(the_pair[0], bytes, sizeof bytes, 0);
}
static long wait_at_edge(void) {
    struct epoll_event event = {.events = EPOLLIN | EPOLLET};
    int set = epoll_create1(0);
    CHECK(epoll_ctl(set, EPOLL_CTL_ADD, the_pair[0], &event) == 0);
    long value = epoll_wait(set, &event, 1, -1);
    close(set);
    return value;
}
static const struct call many = {"recv of many", received_many, 0, 1};
static const struct call edge = {"epoll_wait at edges", wait_at_edge, 0, 0};

static atomic_int woken, sleeper_tid;
static long sleeper_value;
static void *sleep_in(void *arg) {
    const struct call *call = arg;
    sleeper_tid = own_tid();
    long value = call->run();
    sleeper_value = value < 0 ? -errno : value;
    woken = 1;
    return NULL;
}
static pthread_t begin_sleeper(const struct call *call) {
    pthread_t thread;
    woken = sleeper_tid = 0;
    pthread_create(&thread, NULL, sleep_in, (void *)call);
    while (!sleeper_tid)
        nap_us(1000);
    await_sleep(sleeper_tid);
    return thread;
}
static int was_woken(void) {
    for (int turns = 0; turns < 50 && !woken; turns++)
        nap_us(2000);
    return woken;
}
static void lowered(const struct call *call, int to) {
    begin_call(call);
    set_lowat(10);
    pthread_t thread = begin_sleeper(call);
    send_all(the_pair[1], "12345", 5);
    int by_data = was_woken();
    set_lowat(to);
    int by_option = was_woken();
    send_all(the_pair[1], "6", 1);
    int by_more = was_woken();
    send_all(the_pair[1], "789012345", 9);
    pthread_join(thread, NULL);
    printf("%s, lowered to %d: %d %d %d, %ld\n", call->name, to, by_data, by_option, by_more, sleeper_value);
    set_lowat(1);
    empty(0);
    end_call(0);
}
static void lowat(void) {
    static const int waits[] = {6, 10, 12};
    for (int to = 3; to < 9; to += 3) {
        for (int i = 0; i < 3; i++)
            lowered(&calls[waits[i]], to);
        lowered(&edge, to);
        lowered(&many, to);
    }
}

/* --- a number that means something else while a thread sleeps in it --- */

/* With another number for the connection, and without: then it is closed, and what a receive gets is a
 * known difference. */
static void replaced(const struct call *call, int by_dup3, int spared) {
    int other[2];
    warm_pair(other);
    begin_call(call);
    int spare = spared ? dup(the_pair[0]) : -1;
    pthread_t thread = begin_sleeper(call);
    CHECK((by_dup3 ? dup3(other[0], the_pair[0], O_CLOEXEC) : dup2(other[0], the_pair[0])) == the_pair[0]);
    int by_dup = was_woken();
    /* What comes for the new owner of the number is not the sleeper's, ... */
    send_all(other[1], "new", 3);
    int by_other = was_woken();
    char bytes[8] = "";
    CHECK(recv(the_pair[0], bytes, sizeof bytes, 0) == 3 && memcmp(bytes, "new", 3) == 0);
    /* ... and what comes for the old connection is. */
    if (call->out)
        drain(the_pair[1], the_fill);
    else
        send(the_pair[1], "12345678", 8, MSG_NOSIGNAL);
    int by_own = was_woken();
    printf("dup%d over %s: %d %d %d, %ld\n", by_dup3 ? 3 : 2, call->name, by_dup, by_other, by_own,
           by_own && spared ? sleeper_value : 0);
    if (!by_own) {
        /* A poll asks the new connection, but only the old one can wake it. */
        send_all(other[1], "end", 3);
        nap_us(2000);
        send(the_pair[1], "9", 1, MSG_NOSIGNAL);
        pthread_join(thread, NULL);
        printf("in the end: %ld\n", sleeper_value);
        drain(other[0], 3);
    } else
        pthread_join(thread, NULL);
    ping_pong(other, 3);
    if (spared)
        close(spare);
    close_pair(the_pair);
    close_pair(other);
    if (the_set >= 0)
        close(the_set), the_set = -1;
}

/* --- timers --- */

static atomic_int ticks;
static void tick(int signal) {
    (void)signal;
    ticks++;
}
/* Those that came while the process had no turn are counted with the next. */
static void tick_all(int signal, siginfo_t *info, void *context) {
    (void)signal, (void)context;
    ticks += 1 + info->si_overrun;
}
/* Work that is ticked all the time: not one tick is lost. */
static void ticked(int flags) {
    struct itimerspec often = {{0, 3000000}, {0, 3000000}}, never = {{0, 0}, {0, 0}};
    struct sigaction action = {.sa_sigaction = tick_all, .sa_flags = SA_SIGINFO | flags};
    struct sigevent event = {.sigev_notify = SIGEV_SIGNAL, .sigev_signo = SIGRTMIN + 4};
    timer_t timer;
    warm_pair(the_pair);
    sigaction(SIGRTMIN + 4, &action, NULL);
    CHECK(timer_create(CLOCK_MONOTONIC, &event, &timer) == 0);
    ticks = 0;
    long begin = now_us();
    timer_settime(timer, 0, &often, NULL);
    while (now_us() - begin < 300000)
        ping_pong(the_pair, 10);
    long took = now_us() - begin;
    int got = ticks;
    timer_settime(timer, 0, &never, NULL);
    printf("ticks: %s\n", got >= took / 3000 - 2 && got <= took / 3000 + 1 ? "all" : "some");
    timer_delete(timer);
    end_call(0);
}
static void timers(void) {
    struct sigaction action = {.sa_handler = tick};
    sigaction(SIGALRM, &action, NULL);
    /* A receive that an alarm ends: the old way of timeouts. */
    static const int some[] = {0, 6, 10, 12, 14, 18};
    for (size_t i = 0; i < sizeof some / sizeof *some; i++) {
        const struct call *call = &calls[some[i]];
        begin_call(call);
        ticks = 0;
        struct itimerval once = {{0, 0}, {0, 50000}};
        setitimer(ITIMER_REAL, &once, NULL);
        long value = call->run();
        printf("alarm in %s: %s, %d\n", call->name, result(value), (int)ticks);
        empty(1);
        end_call(0);
    }
    ticked(0);
    ticked(SA_RESTART);
    begin_call(&calls[0]);
    action.sa_flags = 0;
    sigaction(SIGALRM, &action, NULL);
    ticks = 0;
    alarm(1);
    long begin = now_us(), value = call_recv();
    printf("alarm(1): %s, %d, %s\n", result(value), (int)ticks, now_us() - begin > 900000 ? "in time" : "early");
    end_call(0);
}

/* --- connect and accept --- */

static int the_listener;
static long call_accept(void) { return accept(the_listener, NULL, NULL); }
static long call_accept4(void) { return accept4(the_listener, NULL, NULL, SOCK_CLOEXEC); }
static struct sockaddr_in the_address = {.sin_family = AF_INET};
static int the_caller;
static long call_connect(void) { return connect(the_caller, (struct sockaddr *)&the_address, sizeof the_address); }

static pthread_t main_thread;
static void kick(void *arg) {
    (void)arg;
    await_sleep(getpid());
    pthread_kill(main_thread, SIGALRM);
}
static void kick_and_call(void *arg) {
    kick(arg);
    nap_us(30000);
    int fd = socket(AF_INET, SOCK_STREAM, 0);
    CHECK(connect(fd, (struct sockaddr *)&the_address, sizeof the_address) == 0);
    char byte = 'x';
    send_all(fd, &byte, 1);
    CHECK(recv(fd, &byte, 1, 0) == 1);
    close(fd);
}
static void listen_anew(int backlog) {
    socklen_t length = sizeof the_address;
    the_address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    the_address.sin_port = 0;
    the_listener = socket(AF_INET, SOCK_STREAM, 0);
    CHECK(bind(the_listener, (struct sockaddr *)&the_address, sizeof the_address) == 0);
    CHECK(listen(the_listener, backlog) == 0);
    CHECK(getsockname(the_listener, (struct sockaddr *)&the_address, &length) == 0);
}
static void accepting(int flags, int timeout, long (*call)(void)) {
    struct sigaction action = {.sa_handler = tick, .sa_flags = flags};
    struct timeval time = {timeout, 0};
    struct later later;
    listen_anew(16);
    setsockopt(the_listener, SOL_SOCKET, SO_RCVTIMEO, &time, sizeof time);
    sigaction(SIGALRM, &action, NULL);
    ticks = 0;
    later_begin(&later, 1000, kick_and_call, NULL);
    long value = call();
    printf("accept, flags %x, timeout %d: %s, %d", flags, timeout, value < 0 ? result(value) : "accepted", (int)ticks);
    int fd = value < 0 ? accept(the_listener, NULL, NULL) : (int)value;
    char byte;
    CHECK(recv(fd, &byte, 1, 0) == 1 && send(fd, &byte, 1, 0) == 1);
    later_end(&later);
    printf(", then %c\n", byte);
    close(fd);
    close(the_listener);
}
/* To a listener whose queue is full: the kernel answers after a second, when there is room again. */
static void make_room(void *arg) {
    kick(arg);
    nap_us(30000);
    for (int i = 0; i < 2; i++)
        close(accept(the_listener, NULL, NULL));
}
static void connecting(int flags, int timeout) {
    struct sigaction action = {.sa_handler = tick, .sa_flags = flags};
    struct timeval time = {timeout, 0};
    struct later later;
    int fillers[2];
    listen_anew(0);
    for (int i = 0; i < 2; i++) {
        fillers[i] = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK, 0);
        connect(fillers[i], (struct sockaddr *)&the_address, sizeof the_address);
        nap_us(20000);
    }
    the_caller = socket(AF_INET, SOCK_STREAM, 0);
    setsockopt(the_caller, SOL_SOCKET, SO_SNDTIMEO, &time, sizeof time);
    sigaction(SIGALRM, &action, NULL);
    ticks = 0;
    later_begin(&later, 1000, make_room, NULL);
    long value = call_connect();
    printf("connect, flags %x, timeout %d: %s, %d", flags, timeout, result(value), (int)ticks);
    struct pollfd entry = {the_caller, POLLOUT, 0};
    CHECK(poll(&entry, 1, 10000) == 1);
    value = call_connect();
    printf(", again: %s\n", result(value));
    later_end(&later);
    for (int i = 0; i < 2; i++)
        close(fillers[i]);
    close(the_caller);
    close(the_listener);
}

int main(void) {
    main_thread = pthread_self();
    patience = 1000;
    setvbuf(stdout, NULL, _IOLBF, 0);
    lowat();
    for (int by_dup3 = 0; by_dup3 < 2; by_dup3++) {
        static const int some[] = {0, 6, 10, 12, 14};
        for (size_t i = 0; i < sizeof some / sizeof *some; i++)
            replaced(&calls[some[i]], by_dup3, 1);
        replaced(&calls[0], by_dup3, 0);
    }
    timers();
    for (int timeout = 0; timeout < 20; timeout += 10) {
        accepting(0, timeout, call_accept);
        accepting(SA_RESTART, timeout, call_accept4);
        connecting(SA_RESTART, timeout);
    }
    connecting(0, 0);
    return 0;
}
