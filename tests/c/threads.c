/* Threads: several on one connection, close and shutdown under a sleeper, thousands that come and
 * go, ends of threads that still use sockets, fork in the middle. argv[1]: threads in a row,
 * argv[2]: threads at once. */
#include "calls.h"

/* --- records of atomically sized writes by several threads, read by several --- */

enum { WRITERS = 4, READERS = 3, RECORD = 32, RECORDS = 3000 };
struct record {
    uint32_t writer, number;
    unsigned char fill[RECORD - 8];
};
static atomic_int seen[WRITERS][RECORDS];
static pthread_mutex_t reading = PTHREAD_MUTEX_INITIALIZER;

static void *write_records(void *arg) {
    uint32_t writer = (uint32_t)(intptr_t)arg;
    for (uint32_t number = 0; number < RECORDS; number++) {
        struct record record = {.writer = writer, .number = number};
        memset(record.fill, (int)(writer * 31 + number), sizeof record.fill);
        send_all(the_pair[0], &record, sizeof record);
    }
    return NULL;
}
/* Whole records only under a lock of the program's own; the others wait in poll meanwhile. */
static void *read_records(void *arg) {
    (void)arg;
    for (;;) {
        struct record record;
        struct pollfd entry = {the_pair[1], POLLIN, 0};
        poll(&entry, 1, 1000);
        pthread_mutex_lock(&reading);
        ssize_t n = recv(the_pair[1], &record, sizeof record, MSG_WAITALL);
        pthread_mutex_unlock(&reading);
        if (n == 0)
            return NULL;
        CHECK(n == sizeof record && record.writer < WRITERS && record.number < RECORDS);
        for (size_t i = 0; i < sizeof record.fill; i++)
            CHECK(record.fill[i] == (unsigned char)(record.writer * 31 + record.number));
        CHECK(seen[record.writer][record.number]++ == 0);
    }
}
static void records(void) {
    pthread_t writers[WRITERS], readers[READERS];
    warm_pair(the_pair);
    for (intptr_t i = 0; i < READERS; i++)
        pthread_create(&readers[i], NULL, read_records, (void *)i);
    for (intptr_t i = 0; i < WRITERS; i++)
        pthread_create(&writers[i], NULL, write_records, (void *)i);
    for (int i = 0; i < WRITERS; i++)
        pthread_join(writers[i], NULL);
    shutdown(the_pair[0], SHUT_WR);
    for (int i = 0; i < READERS; i++)
        pthread_join(readers[i], NULL);
    for (int i = 0; i < WRITERS * RECORDS; i++)
        CHECK(seen[i / RECORDS][i % RECORDS] == 1);
    printf("records: each once\n");
    close_pair(the_pair);
}

/* Readers that race for single bytes: none is lost, none comes twice. */
static atomic_long sum, bytes_read;
static void *read_bytes(void *arg) {
    unsigned char bytes[37];
    (void)arg;
    for (;;) {
        ssize_t n = recv(the_pair[1], bytes, sizeof bytes, 0);
        if (n <= 0)
            return NULL;
        bytes_read += n;
        for (ssize_t i = 0; i < n; i++)
            sum += bytes[i];
    }
}
static void bytes(void) {
    pthread_t readers[8];
    static unsigned char data[100000];
    long expected = 0;
    warm_pair(the_pair);
    for (int i = 0; i < 8; i++)
        pthread_create(&readers[i], NULL, read_bytes, NULL);
    for (int turn = 0; turn < 20; turn++) {
        for (size_t i = 0; i < sizeof data; i++)
            expected += data[i] = (unsigned char)(i * 7 + turn);
        send_all(the_pair[0], data, sizeof data);
    }
    shutdown(the_pair[0], SHUT_WR);
    for (int i = 0; i < 8; i++)
        pthread_join(readers[i], NULL);
    printf("bytes: %ld, sum %s\n", (long)bytes_read, sum == expected ? "right" : "wrong");
    close_pair(the_pair);
}

/* --- one thread blocks, another closes or shuts down --- */

static long blocked_value;
static int blocked_error;
static atomic_int woken, blocked_tid;
static void *block_in(void *arg) {
    const struct call *call = arg;
    blocked_tid = own_tid();
    blocked_value = call->run();
    blocked_error = errno;
    woken = 1;
    return NULL;
}
static const char *outcome(void) {
    errno = blocked_error;
    return result(blocked_value);
}
static pthread_t begin_blocked(const struct call *call) {
    pthread_t thread;
    begin_call(call);
    woken = blocked_tid = 0;
    pthread_create(&thread, NULL, block_in, (void *)call);
    while (!blocked_tid)
        nap_us(1000);
    await_sleep(blocked_tid);
    return thread;
}
/* Within reason, on a busy machine too. */
static int was_woken(void) {
    for (int turns = 0; turns < 100 && !woken; turns++)
        nap_us(2000);
    return woken;
}
static void shut_down_under(const struct call *call, int how, const char *name) {
    pthread_t thread = begin_blocked(call);
    shutdown(the_pair[0], how);
    int at_once = was_woken();
    if (!at_once)
        close(the_pair[1]);
    pthread_join(thread, NULL);
    printf("%s under %s: %s, %s\n", name, call->name, at_once ? outcome() : "sleeps on", at_once ? "at once" : "");
    if (at_once)
        close(the_pair[1]);
    close(the_pair[0]);
    if (the_set >= 0)
        close(the_set), the_set = -1;
}
/* A close does not wake a sleeper; data that comes later does, and then it is closed indeed. What a
 * receive gets then is a known difference: of it only the end is looked at. */
static void close_under(const struct call *call) {
    pthread_t thread = begin_blocked(call);
    char byte;
    close(the_pair[0]);
    nap_us(30000);
    int at_once = woken;
    send(the_pair[1], "1234", 4, MSG_NOSIGNAL);
    pthread_join(thread, NULL);
    printf("close under %s: %s, %s\n", call->name, at_once ? "woken" : "sleeps on", call->moves ? "ends" : outcome());
    CHECK(recv(the_pair[1], &byte, 1, 0) <= 0);
    close(the_pair[1]);
    if (the_set >= 0)
        close(the_set), the_set = -1;
}

/* The same where the sleeper has slept there often. Its end stays open as long as it sleeps: the other
 * sees no end, and what it does then still wakes the sleeper. */
static void *receive_often(void *arg) {
    char byte;
    (void)arg;
    blocked_tid = own_tid();
    while (recv(the_pair[0], &byte, 1, 0) == 1 && byte == 1)
        woken++;
    woken = -1;
    return NULL;
}
static pthread_t begin_regular(int sleeps) {
    pthread_t thread;
    char byte = 1;
    woken = blocked_tid = 0;
    pthread_create(&thread, NULL, receive_often, NULL);
    while (!blocked_tid)
        nap_us(1000);
    for (int i = 0; i < sleeps; i++) {
        await_sleep(blocked_tid);
        send_all(the_pair[1], &byte, 1);
        while (woken <= i)
            nap_us(100);
    }
    await_sleep(blocked_tid);
    return thread;
}
static void close_under_a_regular(const char *name, pthread_t thread, int with_data) {
    char byte;
    int before = woken;
    close(the_pair[0]);
    nap_us(30000);
    CHECK(woken == before);
    CHECK(recv(the_pair[1], &byte, 1, MSG_DONTWAIT) == -1 && errno == EAGAIN);
    if (with_data)
        send(the_pair[1], "2", 1, MSG_NOSIGNAL);
    else
        shutdown(the_pair[1], SHUT_WR);
    pthread_join(thread, NULL);
    printf("close under %s: ends with %s\n", name, with_data ? "data" : "the end of data");
    CHECK(recv(the_pair[1], &byte, 1, 0) <= 0);
    close(the_pair[1]);
}
/* A regular has ended. The next thread gets what it left, but is another: a bystander has made room. */
static atomic_int standing;
static void *stand_by(void *arg) {
    char byte;
    (void)arg;
    recv(the_pair[0], &byte, 1, MSG_DONTWAIT);
    standing = 1;
    while (standing)
        nap_us(1000);
    return NULL;
}
static pthread_t begin_heir(void) {
    pthread_t bystander;
    pthread_create(&bystander, NULL, stand_by, NULL);
    while (!standing)
        nap_us(1000);
    pthread_t regular = begin_regular(50);
    standing = 0;
    pthread_join(bystander, NULL);
    send_all(the_pair[1], "2", 1);
    pthread_join(regular, NULL);
    return begin_regular(0);
}
static void close_under_regulars(void) {
    for (int with_data = 0; with_data < 2; with_data++) {
        warm_pair(the_pair);
        close_under_a_regular("a regular", begin_regular(50), with_data);
        warm_pair(the_pair);
        close_under_a_regular("its heir", begin_heir(), with_data);
    }
}

/* --- many threads --- */

static void *talk(void *arg) {
    int pair[2] = {((int *)arg)[0], ((int *)arg)[1]};
    ping_pong(pair, 2);
    /* Asleep for a moment, too. */
    struct pollfd entry = {pair[0], POLLIN, 0};
    poll(&entry, 1, 1);
    return NULL;
}
static void one_by_one(int count) {
    warm_pair(the_pair);
    talk(the_pair);
    int before = 0;
    for (int i = 0; i < count; i++) {
        pthread_t thread;
        if (i == 20)
            before = open_fds();
        CHECK(pthread_create(&thread, NULL, talk, the_pair) == 0);
        pthread_join(thread, NULL);
    }
    printf("one by one: %s\n", open_fds() <= before ? "no leak" : "leak");
    end_call(0);
}
static pthread_barrier_t together;
static void *talk_together(void *arg) {
    int pair[2];
    char byte = 1;
    (void)arg;
    connect_pair(pair);
    ping_pong(pair, 20);
    pthread_barrier_wait(&together);
    /* All asleep at once, each woken by another. */
    struct pollfd entry = {pair[0], POLLIN, 0};
    CHECK(poll(&entry, 1, 20) == 0);
    send_all(pair[1], &byte, 1);
    recv_all(pair[0], &byte, 1);
    pthread_barrier_wait(&together);
    close_pair(pair);
    return NULL;
}
static void at_once(int count) {
    pthread_t *threads = calloc(count, sizeof *threads);
    pthread_attr_t small;
    pthread_attr_init(&small);
    pthread_attr_setstacksize(&small, 256 << 10);
    int fds[2] = {0, 0};
    for (int turn = 0; turn < 3; turn++) {
        pthread_barrier_init(&together, NULL, count);
        for (int i = 0; i < count; i++)
            CHECK(pthread_create(&threads[i], &small, talk_together, NULL) == 0);
        for (int i = 0; i < count; i++)
            pthread_join(threads[i], NULL);
        fds[turn > 0] = open_fds();
    }
    printf("at once: %s\n", fds[1] <= fds[0] + 8 ? "no leak" : "leak");
    free(threads);
}

/* --- ends --- */

static pthread_key_t key;
static void last_words(void *arg) {
    int *pair = arg;
    ping_pong(pair, 3);
    struct pollfd entry = {pair[0], POLLIN, 0};
    poll(&entry, 1, 1);
    /* Once more in the next round of destructors. */
    static __thread int rounds;
    if (rounds++ < 3)
        pthread_setspecific(key, pair);
}
static void *with_last_words(void *arg) {
    pthread_setspecific(key, arg);
    ping_pong(arg, 1);
    return NULL;
}
static void destructors(void) {
    pthread_key_create(&key, last_words);
    warm_pair(the_pair);
    for (int i = 0; i < 200; i++) {
        pthread_t thread;
        pthread_create(&thread, NULL, with_last_words, the_pair);
        pthread_join(thread, NULL);
    }
    printf("destructors: right\n");
    end_call(0);
}

/* fork while other threads send and receive; the child uses connections of its own. */
static atomic_int stop;
static void *keep_talking(void *arg) {
    int pair[2];
    (void)arg;
    warm_pair(pair);
    while (!stop)
        ping_pong(pair, 1);
    close_pair(pair);
    return NULL;
}
static void forks(void) {
    pthread_t threads[3];
    for (int i = 0; i < 3; i++)
        pthread_create(&threads[i], NULL, keep_talking, NULL);
    for (int turn = 0; turn < 20; turn++) {
        pid_t child = fork();
        if (child == 0) {
            int pair[2];
            alarm(20);
            warm_pair(pair);
            close_pair(pair);
            _exit(0);
        }
        int status;
        CHECK(waitpid(child, &status, 0) == child && status == 0);
    }
    stop = 1;
    for (int i = 0; i < 3; i++)
        pthread_join(threads[i], NULL);
    printf("forks: right\n");
}

static void *outlive(void *arg) {
    (void)arg;
    nap_us(30000);
    ping_pong(the_pair, 50);
    printf("outlived main\n");
    fflush(stdout);
    exit(0);
}
static void *detached(void *arg) {
    (void)arg;
    blocked_tid = own_tid();
    call_recv();
    return NULL;
}

int main(int argc, char **argv) {
    int in_a_row = argc > 1 ? atoi(argv[1]) : 500, together_count = argc > 2 ? atoi(argv[2]) : 100;
    struct rlimit limit;
    getrlimit(RLIMIT_NOFILE, &limit);
    limit.rlim_cur = limit.rlim_max;
    setrlimit(RLIMIT_NOFILE, &limit);
    signal(SIGPIPE, SIG_IGN);
    setvbuf(stdout, NULL, _IOLBF, 0);
    records();
    bytes();
    static const int hows[] = {SHUT_RD, SHUT_WR, SHUT_RDWR};
    static const char *const names[] = {"SHUT_RD", "SHUT_WR", "SHUT_RDWR"};
    for EACH_CALL (call)
        /* To a sender nothing happens when its other direction ends. */
        for (int how = call->out; how < 3; how++)
            shut_down_under(call, hows[how], names[how]);
    for EACH_CALL (call) {
        if (call->out || call->run == call_poll_two || call->run == call_epoll_wait || call->run == call_epoll_pwait)
            continue;
        close_under(call);
    }
    close_under_regulars();
    one_by_one(in_a_row);
    at_once(together_count);
    destructors();
    forks();
    warm_pair(the_pair);
    pthread_t thread;
    blocked_tid = 0;
    pthread_create(&thread, NULL, detached, NULL);
    pthread_detach(thread);
    while (!blocked_tid)
        nap_us(1000);
    await_sleep(blocked_tid);
    int own[2];
    warm_pair(own);
    memcpy(the_pair, own, sizeof own);
    pthread_create(&thread, NULL, outlive, NULL);
    pthread_exit(NULL);
}
