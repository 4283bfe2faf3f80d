/* The other end of a connection in a process of its own, which does as it is told over a pipe. */
#include "pair.h"

struct peer {
    pid_t pid;
    int fd;     /* our end of the connection */
    int orders; /* a pipe to it */
};

/* Orders: send so many bytes, then do this. */
struct order {
    size_t bytes;
    enum { GO_ON, STOP, EXIT, RESET } then;
};

/* Past libc, and so past ulsock: the connection ends with a reset, the process goes on. */
static inline long call_past_libc(long number, long a, long b, long c, const void *d, long e) {
    long answer = number;
    register const void *r10 __asm__("r10") = d;
    register long r8 __asm__("r8") = e;
    __asm__ volatile("syscall" : "+a"(answer) : "D"(a), "S"(b), "d"(c), "r"(r10), "r"(r8) : "rcx", "r11", "memory");
    return answer;
}
static inline void reset_past_libc(int fd) {
    struct linger linger = {1, 0};
    CHECK(call_past_libc(SYS_setsockopt, fd, SOL_SOCKET, SO_LINGER, &linger, sizeof linger) == 0);
    CHECK(call_past_libc(SYS_close, fd, 0, 0, NULL, 0) == 0);
}

static inline void obey(int fd, int orders) {
    struct order order;
    static char bytes[1 << 20];
    while (read(orders, &order, sizeof order) == sizeof order) {
        memset(bytes, 'x', order.bytes);
        send_all(fd, bytes, order.bytes);
        if (order.then == STOP)
            raise(SIGSTOP);
        if (order.then == EXIT)
            _exit(0);
        if (order.then == RESET)
            reset_past_libc(fd);
    }
    _exit(0);
}

/* A connection that has talked enough to be on rings, and nobody waits on at its other end. */
static inline struct peer peer_start(void) {
    struct sockaddr_in addr = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t length = sizeof addr;
    int listener = socket(AF_INET, SOCK_STREAM, 0), orders[2];
    unsigned char message[MESSAGE] = {0};
    CHECK(bind(listener, (struct sockaddr *)&addr, sizeof addr) == 0 && listen(listener, 1) == 0);
    CHECK(getsockname(listener, (struct sockaddr *)&addr, &length) == 0 && pipe(orders) == 0);
    struct peer peer = {.pid = fork(), .orders = orders[1]};
    CHECK(peer.pid >= 0);
    if (peer.pid == 0) {
        close(listener);
        close(orders[1]);
        int fd = socket(AF_INET, SOCK_STREAM, 0);
        CHECK(connect(fd, (struct sockaddr *)&addr, sizeof addr) == 0);
        for (int round = 0; round < 100; round++) {
            send_all(fd, message, sizeof message);
            recv_all(fd, message, sizeof message);
        }
        /* It has read all. */
        send_all(fd, message, sizeof message);
        obey(fd, orders[0]);
    }
    close(orders[0]);
    peer.fd = accept(listener, NULL, NULL);
    CHECK(peer.fd >= 0);
    close(listener);
    for (int round = 0; round < 100; round++) {
        recv_all(peer.fd, message, sizeof message);
        send_all(peer.fd, message, sizeof message);
    }
    recv_all(peer.fd, message, sizeof message);
    return peer;
}

static inline void peer_order(struct peer peer, size_t bytes, int then) {
    struct order order = {bytes, then};
    CHECK(write(peer.orders, &order, sizeof order) == sizeof order);
}

/* Until so many bytes can be read. */
static inline void await_bytes(int fd, int bytes) {
    int there = 0;
    for (int turn = 0; turn < 5000 && there < bytes; turn++) {
        CHECK(ioctl(fd, FIONREAD, &there) == 0);
        nap_us(1000);
    }
    CHECK(there >= bytes);
}

static inline void await_stop(struct peer peer) {
    int status;
    CHECK(waitpid(peer.pid, &status, WUNTRACED) == peer.pid && WIFSTOPPED(status));
}

static inline void peer_end(struct peer peer) {
    close(peer.orders);
    kill(peer.pid, SIGCONT);
    waitpid(peer.pid, NULL, 0);
}
