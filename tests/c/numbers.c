/* Numbers that change their meaning while they are in use: dup2 and dup3 over connections, over the
 * peer's end, over epoll sets and listening sockets, onto 0 to 2; numbers that are closed and used
 * again while a duplicate lives. Prints what a program sees. */
#include "pair.h"

static void say(const char *what, long value) { printf("%s: %s\n", what, result(value)); }

/* The end's next bytes, or why there are none. */
static void show(const char *what, int fd) {
    char bytes[100];
    ssize_t n = recv(fd, bytes, sizeof bytes, MSG_DONTWAIT);
    printf("%s: %s %.*s\n", what, result(n), n > 0 ? (int)n : 0, bytes);
}

static void events(const char *what, int set) {
    struct epoll_event event;
    long n = epoll_wait(set, &event, 1, 100);
    if (n != 1)
        event = (struct epoll_event){0};
    printf("%s: %s %x of %d\n", what, result(n), event.events, (int)event.data.u64);
}

static int set_with(int fd, uint32_t what, int data) {
    struct epoll_event event = {.events = what, .data.u64 = data};
    int set = epoll_create1(0);
    CHECK(epoll_ctl(set, EPOLL_CTL_ADD, fd, &event) == 0);
    return set;
}

/* The connection that was at the number ends, and the number means the other one. */
static void over_a_connection(void) {
    int one[2], two[2];
    warm_pair(one);
    warm_pair(two);
    send_all(two[0], "two", 3);
    say("dup2", dup2(two[1], one[1]) == one[1]);
    nap_us(20000);
    show("the end of one", one[0]);
    show("two by one's number", one[1]);
    send_all(one[1], "back", 4);
    nap_us(20000);
    show("two", two[0]);
    close(two[1]);
    send_all(two[0], "more", 4);
    nap_us(20000);
    show("by the number alone", one[1]);
    close_pair(one);
    close(two[0]);
}

/* Unread bytes of the connection that goes: a reset. */
static void over_unread_bytes(void) {
    int one[2], two[2];
    warm_pair(one);
    warm_pair(two);
    send_all(one[0], "lost", 4);
    nap_us(20000);
    say("dup3", dup3(two[1], one[1], O_CLOEXEC) == one[1]);
    say("flags", fcntl(one[1], F_GETFD));
    nap_us(20000);
    show("a reset", one[0]);
    ping_pong((int[]){two[0], one[1]}, 10);
    close_pair(one);
    close_pair(two);
}

static void over_the_peers_end(void) {
    int pair[2];
    warm_pair(pair);
    send_all(pair[1], "said", 4);
    say("dup2", dup2(pair[0], pair[1]) == pair[1]);
    nap_us(20000);
    show("what it said", pair[0]);
    show("and the end", pair[1]);
    say("a send", send(pair[1], "x", 1, MSG_NOSIGNAL));
    nap_us(20000);
    say("another", send(pair[0], "x", 1, MSG_NOSIGNAL));
    close_pair(pair);
}

static void over_a_set(void) {
    int pair[2], other[2];
    warm_pair(pair);
    warm_pair(other);
    int set = set_with(other[1], EPOLLIN, 1), twin = dup(set);
    send_all(other[0], "x", 1);
    say("dup2", dup2(pair[1], set) == set);
    ping_pong((int[]){pair[0], set}, 10);
    events("the twin", twin);
    struct epoll_event event = {.events = EPOLLIN, .data.u64 = 2};
    say("the number", epoll_ctl(set, EPOLL_CTL_ADD, other[1], &event));
    say("the twin", epoll_ctl(twin, EPOLL_CTL_MOD, other[1], &event));
    events("changed", twin);
    say("over the twin", dup2(pair[1], twin) == twin);
    ping_pong((int[]){pair[0], twin}, 10);
    ping_pong(other, 0);
    show("still there", other[1]);
    ping_pong(other, 10);
    close(set);
    close(twin);
    close_pair(pair);
    close_pair(other);
}

static void over_a_listener(void) {
    struct sockaddr_in addr = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t length = sizeof addr;
    int pair[2], listener = socket(AF_INET, SOCK_STREAM, 0);
    CHECK(bind(listener, (struct sockaddr *)&addr, sizeof addr) == 0 && listen(listener, 1) == 0);
    CHECK(getsockname(listener, (struct sockaddr *)&addr, &length) == 0);
    warm_pair(pair);
    say("dup2", dup2(pair[1], listener) == listener);
    ping_pong((int[]){pair[0], listener}, 10);
    say("accept", accept(listener, NULL, NULL));
    int late = socket(AF_INET, SOCK_STREAM, 0);
    say("connect", connect(late, (struct sockaddr *)&addr, length));
    close(late);
    /* And the other way round. */
    int fresh = socket(AF_INET, SOCK_STREAM, 0);
    CHECK(listen(fresh, 1) == 0 && dup2(fresh, pair[0]) == pair[0]);
    nap_us(20000);
    show("the end", pair[1]);
    say("a send to a listener", send(pair[0], "x", 1, MSG_NOSIGNAL));
    close(fresh);
    close(listener);
    close_pair(pair);
}

/* Standard numbers are the kernel's: their streams are in libc. */
static void onto_standard(void) {
    int pair[2], kept = dup(1), input = dup(0);
    warm_pair(pair);
    send_all(pair[0], "a line\n", 7);
    nap_us(20000);
    dup2(pair[1], 0);
    char line[100] = "";
    clearerr(stdin);
    CHECK(fgets(line, sizeof line, stdin));
    fflush(stdout);
    dup2(pair[1], 1);
    printf("by stdio\n");
    fflush(stdout);
    dup2(kept, 1);
    printf("got %s", line);
    nap_us(20000);
    show("said", pair[0]);
    dup2(input, 0);
    close(input);
    close(kept);
    ping_pong(pair, 10);
    close_pair(pair);
}

/* A number is closed while a duplicate lives, and means something else then. */
static void used_again(void) {
    int one[2], two[2];
    warm_pair(one);
    int twin = dup(one[1]), number = one[1];
    int set = set_with(number, EPOLLIN, 1);
    close(number);
    send_all(one[0], "one", 3);
    events("by the twin", set);
    warm_pair(two);
    int moved = dup2(two[1], number);
    say("the same number", moved == number);
    struct epoll_event event = {.events = EPOLLIN, .data.u64 = 2};
    say("added", epoll_ctl(set, EPOLL_CTL_ADD, number, &event));
    show("one", twin);
    events("none", set);
    send_all(two[0], "two", 3);
    events("two", set);
    show("two", number);
    ping_pong((int[]){one[0], twin}, 10);
    ping_pong((int[]){two[0], number}, 10);
    close(twin);
    nap_us(20000);
    show("the end of one", one[0]);
    events("none", set);
    close(set);
    close(number);
    close_pair(two);
    close(one[0]);
}

/* dup2 that fails changes nothing. */
static void failing(void) {
    int pair[2];
    warm_pair(pair);
    say("dup2 of nothing", dup2(999, pair[1]));
    say("dup2 of a bad number", dup2(-1, pair[1]));
    say("dup2 onto a bad number", dup2(pair[1], -1));
    say("dup3 onto itself", dup3(pair[1], pair[1], 0));
    say("dup3 with bad flags", dup3(pair[0], pair[1], 12345));
    int set = set_with(pair[1], EPOLLIN, 1);
    say("dup2 of nothing over a set", dup2(999, set));
    struct rlimit limit, low;
    CHECK(getrlimit(RLIMIT_NOFILE, &limit) == 0);
    low = limit;
    low.rlim_cur = 100;
    CHECK(dup2(pair[1], 200) == 200 && setrlimit(RLIMIT_NOFILE, &low) == 0);
    say("dup2 beyond the limit of open files", dup2(pair[0], 200));
    CHECK(setrlimit(RLIMIT_NOFILE, &limit) == 0);
    ping_pong((int[]){pair[0], 200}, 10);
    close(200);
    send_all(pair[0], "unread", 6);
    say("dup3 with bad flags over unread bytes", dup3(pair[0], pair[1], 12345));
    events("the set", set);
    show("the bytes", pair[1]);
    close(set);
    say("dup2 onto itself", dup2(pair[1], pair[1]) == pair[1]);
    say("dup2 beyond the limit", dup2(pair[1], 1 << 30));
    ping_pong(pair, 10);
    close_pair(pair);
}

/* The program's own: ulsock's are not open to it. */
static int descriptors(void) {
    int count = 0;
    for (int fd = 0; fd < 5000; fd++)
        count += fcntl(fd, F_GETFD) >= 0;
    return count;
}

int main(int argc, char **argv) {
    static const struct {
        const char *name;
        void (*run)(void);
    } cases[] = {{"over-a-connection", over_a_connection},
                 {"over-unread-bytes", over_unread_bytes},
                 {"over-the-peers-end", over_the_peers_end},
                 {"over-a-set", over_a_set},
                 {"over-a-listener", over_a_listener},
                 {"onto-standard", onto_standard},
                 {"used-again", used_again},
                 {"failing", failing}};
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        if (argc > 1 && strcmp(argv[1], cases[i].name) != 0)
            continue;
        int before = descriptors();
        printf("%s\n", cases[i].name);
        cases[i].run();
        printf("descriptors left: %d\n", descriptors() - before);
        fflush(stdout);
    }
    return 0;
}
