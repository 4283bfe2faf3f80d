/* Urgent data: the byte, its mark, POLLPRI and SIGURG, while bytes before it are unread. Under ulsock those are in a
 * ring, and the urgent byte comes by the kernel. */
#include "pair.h"

static int pair[2];

static void put(int way, const char *text) { send_all(pair[way], text, strlen(text)); }

/* Its last byte is urgent. */
static void put_urgent(int way, const char *text) {
    CHECK(send(pair[way], text, strlen(text), MSG_OOB) == (ssize_t)strlen(text));
    nap_us(2000);
}

static void take(int way, size_t size, int flags) {
    char bytes[256] = "";
    ssize_t n = recv(pair[way], bytes, size, flags);
    printf(" %s", result(n));
    if (n > 0 && !(flags & MSG_TRUNC))
        printf(" '%.*s'", (int)n, bytes);
    fputs(",", stdout);
}

static void show(int way) {
    int mark = -1, unread = -1;
    ioctl(pair[way], SIOCATMARK, &mark);
    ioctl(pair[way], FIONREAD, &unread);
    printf(" mark %d, unread %d,", mark, unread);
}

static void ask(int way, short events, int timeout) {
    struct pollfd entry = {.fd = pair[way], .events = events};
    int n = poll(&entry, 1, timeout);
    printf(" poll(%x) %d %x,", events, n, entry.revents);
}

static void ask_select(int way, long us) {
    fd_set in, except;
    FD_ZERO(&in);
    FD_ZERO(&except);
    FD_SET(pair[way], &in);
    FD_SET(pair[way], &except);
    struct timeval time = {0, us};
    int n = select(pair[way] + 1, &in, NULL, &except, &time);
    printf(" select %d %d %d,", n, n > 0 && FD_ISSET(pair[way], &in), n > 0 && FD_ISSET(pair[way], &except));
}

static void set_inline(int way, int on) {
    CHECK(setsockopt(pair[way], SOL_SOCKET, SO_OOBINLINE, &on, sizeof on) == 0);
}

static void names(const char *when) {
    static struct sockaddr_in before[4];
    struct sockaddr_in now[4];
    socklen_t length = sizeof now[0];
    for (int i = 0; i < 4; i++, length = sizeof now[0])
        CHECK((i % 2 ? getpeername : getsockname)(pair[i / 2], (struct sockaddr *)&now[i], &length) == 0);
    if (when)
        printf(" %s names %s\n", when, memcmp(before, now, sizeof now) == 0 ? "are the same" : "have changed");
    memcpy(before, now, sizeof now);
}

/* Each case gets a pair of its own, and each direction is tried. */
static void begin(const char *what, int way) {
    warm_pair(pair);
    names(NULL);
    printf("%s %s:", what, way ? "back" : "there");
}
static void end(void) {
    names("and");
    close_pair(pair);
}

/* --- one urgent byte behind unread ones --- */

static void byte_first(int way) {
    begin("urgent byte first", way);
    take(!way, 9, MSG_OOB);
    put(way, "hello world");
    put_urgent(way, "!");
    show(!way);
    take(!way, 9, MSG_OOB | MSG_PEEK);
    take(!way, 9, MSG_OOB);
    take(!way, 9, MSG_OOB);
    ask(!way, POLLIN | POLLPRI, 0);
    take(!way, 99, MSG_DONTWAIT);
    show(!way);
    take(!way, 99, MSG_DONTWAIT);
    show(!way);
    take(!way, 9, MSG_OOB);
    end();
}

static void stream_first(int way) {
    begin("stream first", way);
    put(way, "hello world");
    put_urgent(way, "an!");
    put(way, "more");
    nap_us(2000);
    show(!way);
    take(!way, 5, 0);
    show(!way);
    take(!way, 99, MSG_PEEK);
    take(!way, 99, 0);
    show(!way);
    take(!way, 99, MSG_PEEK);
    take(!way, 1, MSG_OOB);
    take(!way, 99, 0);
    show(!way);
    take(!way, 99, MSG_DONTWAIT);
    end();
}

/* As a message, which says that it is urgent. */
static void nothing_before(int way) {
    begin("nothing before", way);
    put_urgent(way, "!");
    put(way, "more");
    nap_us(2000);
    ask(!way, POLLIN | POLLPRI, 0);
    show(!way);
    char bytes[9];
    struct iovec piece = {bytes, sizeof bytes};
    struct msghdr message = {.msg_iov = &piece, .msg_iovlen = 1};
    ssize_t n = recvmsg(pair[!way], &message, MSG_OOB);
    printf(" %s %x,", result(n), message.msg_flags);
    n = recvmsg(pair[!way], &message, 0);
    printf(" %s %x,", result(n), message.msg_flags);
    end();
}

/* What lies before the mark ends the receive, whatever it waits for. */
static void wait_for_all(int way) {
    begin("waits for all", way);
    put(way, "hello");
    put_urgent(way, "!");
    put(way, "more");
    nap_us(2000);
    take(!way, 8, MSG_WAITALL | MSG_PEEK);
    take(!way, 8, MSG_WAITALL);
    take(!way, 4, MSG_WAITALL);
    end();
}

static void thrown_away(int way) {
    begin("thrown away", way);
    put(way, "hello");
    put_urgent(way, "!");
    put(way, "more");
    nap_us(2000);
    take(!way, 3, MSG_TRUNC);
    show(!way);
    take(!way, 99, MSG_TRUNC);
    show(!way);
    take(!way, 0, 0);
    take(!way, 99, MSG_TRUNC);
    end();
}

static void at_the_end(int way) {
    begin("then the end", way);
    put(way, "hello");
    put_urgent(way, "!");
    shutdown(pair[way], SHUT_WR);
    nap_us(2000);
    ask(!way, POLLIN | POLLPRI | POLLRDHUP, 0);
    take(!way, 99, 0);
    ask(!way, POLLIN | POLLPRI | POLLRDHUP, 10);
    take(!way, 99, 0);
    ask(!way, POLLIN | POLLPRI | POLLRDHUP, 10);
    take(!way, 99, 0);
    take(!way, 9, MSG_OOB);
    end();
}

/* --- several --- */

static void several(int way) {
    begin("several, unread", way);
    put(way, "one");
    put_urgent(way, "1");
    put_urgent(way, "2");
    put(way, "two");
    put_urgent(way, "3");
    show(!way);
    take(!way, 9, MSG_OOB);
    for (int i = 0; i < 4; i++)
        take(!way, 99, MSG_DONTWAIT);
    end();
    begin("several, at the mark", way);
    put(way, "one");
    put_urgent(way, "1");
    take(!way, 3, 0);
    show(!way);
    put_urgent(way, "2");
    show(!way);
    put(way, "two");
    put_urgent(way, "3");
    take(!way, 9, MSG_OOB);
    for (int i = 0; i < 4; i++)
        take(!way, 99, MSG_DONTWAIT);
    end();
}

static void both_ways(int way) {
    begin("both ways", way);
    put(way, "question");
    put(!way, "answer");
    put_urgent(way, "?");
    put_urgent(!way, "!");
    put(way, "more");
    put(!way, "less");
    nap_us(2000);
    for (int side = 0; side < 2; side++) {
        show(side);
        take(side, 9, MSG_OOB);
        take(side, 99, 0);
        show(side);
        take(side, 99, 0);
    }
    ping_pong(pair, 20);
    end();
}

/* --- within the stream --- */

static void within(int way) {
    begin("inline", way);
    set_inline(!way, 1);
    put(way, "hello");
    put_urgent(way, "!");
    put(way, "more");
    nap_us(2000);
    show(!way);
    take(!way, 9, MSG_OOB);
    take(!way, 99, MSG_PEEK);
    take(!way, 99, 0);
    show(!way);
    take(!way, 99, MSG_PEEK);
    take(!way, 99, 0);
    show(!way);
    ping_pong(pair, 20);
    end();
    begin("inline later", way);
    put(way, "hello");
    put_urgent(way, "!");
    put(way, "more");
    nap_us(2000);
    set_inline(!way, 1);
    show(!way);
    take(!way, 99, 0);
    show(!way);
    set_inline(!way, 0);
    show(!way);
    take(!way, 9, MSG_OOB);
    set_inline(!way, 1);
    take(!way, 8, MSG_WAITALL | MSG_DONTWAIT);
    take(!way, 8, MSG_DONTWAIT);
    end();
    begin("inline, on", way);
    set_inline(!way, 1);
    ping_pong(pair, 100);
    put(way, "hello");
    take(!way, 99, 0);
    end();
}

/* --- readiness --- */

static void readiness(int way) {
    for (int timeout = 0; timeout < 40; timeout += 30) {
        begin(timeout ? "asked with a timeout" : "asked", way);
        put(way, "hello");
        ask(!way, POLLIN | POLLPRI, timeout);
        put_urgent(way, "!");
        for (int turn = 0; turn < 2; turn++) {
            ask(!way, POLLIN | POLLPRI, timeout);
            ask(!way, POLLPRI, timeout);
            ask_select(!way, timeout * 1000);
            take(!way, 99, MSG_DONTWAIT);
        }
        ask(!way, POLLIN | POLLPRI, timeout);
        ask_select(!way, timeout * 1000);
        put(way, "more");
        nap_us(2000);
        ask(!way, POLLIN | POLLPRI, timeout);
        ask_select(!way, timeout * 1000);
        end();
    }
}

static int set;
static void events(const char *when, int timeout) {
    struct epoll_event told = {0};
    int n = epoll_wait(set, &told, 1, timeout);
    printf(" %s %d %x,", when, n, n > 0 ? told.events : 0);
}

static void epolls(int way) {
    static const uint32_t asked[] = {EPOLLIN | EPOLLPRI, EPOLLPRI, EPOLLIN};
    for (int i = 0; i < 12; i++) {
        uint32_t edge = i / 3 % 2 ? EPOLLET : 0;
        int timeout = i < 6 ? 0 : 20;
        char what[64];
        snprintf(what, sizeof what, "set(%x%s, %d)", asked[i % 3], edge ? ", edge" : "", timeout);
        begin(what, way);
        set = epoll_create1(0);
        struct epoll_event event = {.events = asked[i % 3] | edge};
        CHECK(epoll_ctl(set, EPOLL_CTL_ADD, pair[!way], &event) == 0);
        events("nothing", timeout);
        put(way, "hello");
        events("bytes", timeout);
        put_urgent(way, "!");
        events("urgent", timeout);
        events("again", timeout);
        put(way, "more");
        nap_us(2000);
        events("more", timeout);
        put_urgent(way, "?");
        events("another", timeout);
        take(!way, 9, MSG_OOB);
        events("taken", timeout);
        take(!way, 99, 0);
        events("read", timeout);
        put_urgent(way, "x");
        events("third", timeout);
        close(set);
        end();
    }
}

/* A wait that has begun, and what ends it. */
static void urgent_later(void *way) { put_urgent(way != NULL, "!"); }
static void more_later(void *way) {
    put_urgent(way != NULL, "!");
    put(way != NULL, "more");
}

static void while_waiting(int way) {
    void *arg = way ? &set : NULL;
    struct later later;
    begin("polls", way);
    later_begin(&later, 20000, urgent_later, arg);
    ask(!way, POLLIN | POLLPRI, 2000);
    pthread_join(later.thread, NULL);
    end();
    begin("polls with unread bytes", way);
    put(way, "hello");
    later_begin(&later, 20000, urgent_later, arg);
    ask(!way, POLLPRI, 2000);
    pthread_join(later.thread, NULL);
    end();
    begin("receives", way);
    later_begin(&later, 20000, more_later, arg);
    take(!way, 99, 0);
    pthread_join(later.thread, NULL);
    take(!way, 9, MSG_OOB);
    end();
    begin("receives more", way);
    put(way, "hello");
    later_begin(&later, 20000, urgent_later, arg);
    take(!way, 99, MSG_WAITALL);
    pthread_join(later.thread, NULL);
    show(!way);
    take(!way, 9, MSG_OOB);
    end();
}

/* --- signals --- */

static atomic_int signals;
static char taken[16];
static void on_urgent(int signal) {
    (void)signal;
    int error = errno;
    /* In a handler, with a thread in the middle of whatever. */
    ssize_t n = recv(pair[1], taken, sizeof taken, MSG_OOB);
    taken[n > 0 ? n : 0] = 0;
    signals++;
    errno = error;
}

static void signalled(void) {
    struct sigaction action = {.sa_handler = on_urgent, .sa_flags = SA_RESTART};
    sigaction(SIGURG, &action, NULL);
    for (int unread = 0; unread < 2; unread++) {
        begin(unread ? "signal with unread bytes" : "signal", 0);
        signals = 0;
        CHECK(fcntl(pair[1], F_SETOWN, getpid()) == 0);
        ping_pong(pair, 20);
        if (unread)
            put(0, "hello");
        put_urgent(0, "!");
        printf(" %d '%s',", signals, taken);
        put(0, "more");
        nap_us(2000);
        take(1, 99, 0);
        if (unread)
            take(1, 99, 0);
        end();
    }
    signal(SIGURG, SIG_DFL);
}

/* --- with another process, which is idle when the byte is asked for --- */

static void elsewhere(const char *what, void (*act)(void)) {
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)}, names[2];
    socklen_t length = sizeof address;
    int listener = socket(AF_INET, SOCK_STREAM, 0);
    CHECK(bind(listener, (struct sockaddr *)&address, sizeof address) == 0 && listen(listener, 1) == 0);
    CHECK(getsockname(listener, (struct sockaddr *)&address, &length) == 0);
    fflush(stdout);
    pid_t child = fork();
    char byte = 0;
    if (child == 0) {
        pair[0] = socket(AF_INET, SOCK_STREAM, 0);
        CHECK(connect(pair[0], (struct sockaddr *)&address, sizeof address) == 0);
        for (int round = 0; round < 200; round++) {
            send_all(pair[0], &byte, 1);
            recv_all(pair[0], &byte, 1);
        }
        put(0, "hello");
        put_urgent(0, "world");
        put(0, "more");
        pause();
    }
    pair[1] = accept(listener, NULL, NULL);
    for (int round = 0; round < 200; round++) {
        recv_all(pair[1], &byte, 1);
        send_all(pair[1], &byte, 1);
    }
    nap_us(50000);
    printf("%s:", what);
    CHECK(getpeername(pair[1], (struct sockaddr *)&names[0], &length) == 0);
    act();
    CHECK(getpeername(pair[1], (struct sockaddr *)&names[1], &length) == 0);
    ask(1, POLLIN | POLLPRI, 20);
    show(1);
    for (int i = 0; i < 3; i++)
        take(1, 99, MSG_DONTWAIT);
    printf(" name %s\n", memcmp(&names[0], &names[1], sizeof names[0]) == 0 ? "is the same" : "has changed");
    kill(child, SIGKILL);
    waitpid(child, NULL, 0);
    close(pair[1]);
    close(listener);
}
static void take_urgent(void) { take(1, 9, MSG_OOB); }
static void want_inline(void) { set_inline(1, 1); }
static void own(void) { CHECK(fcntl(pair[1], F_SETOWN, getpid()) == 0); }

/* --- much before it --- */

static void behind_much(int way) {
    static char much[400000];
    memset(much, 'm', sizeof much);
    for (size_t size = sizeof much / 10; size <= sizeof much; size *= 10) {
        begin("behind much", way);
        send_all(pair[way], much, size);
        put_urgent(way, "!");
        /* The kernel cannot tell of more than a window ahead. */
        if (size < 65536)
            ask(!way, POLLIN | POLLPRI, 1000);
        put(way, "more");
        size_t before = 0;
        for (int mark = 0; !mark;) {
            char bytes[1000];
            ssize_t n = recv(pair[!way], bytes, sizeof bytes, 0);
            CHECK(n > 0 && ioctl(pair[!way], SIOCATMARK, &mark) == 0);
            before += n;
        }
        printf(" %zu before the mark,", before);
        take(!way, 1, MSG_OOB);
        take(!way, 99, 0);
        end();
    }
}

int main(void) {
    static void (*const cases[])(int) = {byte_first, stream_first, nothing_before, wait_for_all, thrown_away,   at_the_end, several,
                                         both_ways,  within,       readiness,      epolls,       while_waiting, behind_much};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        for (int way = 0; way < 2; way++)
            cases[i](way);
    signalled();
    elsewhere("taken", take_urgent);
    elsewhere("made inline", want_inline);
    elsewhere("owned", own);
    return 0;
}
