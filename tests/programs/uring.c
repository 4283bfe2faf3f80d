/* A connection that is used through an io_uring: uring ROLE PORT HOW PLAIN ROUNDS
 *
 * ROLE is listen or connect. Both exchange ROUNDS messages of 64 bytes each way, the first PLAIN of
 * them by send and recv; then the ring is made, or, with PLAIN 0, before the first socket. HOW says
 * who makes the system calls of io_uring: liburing, libc's syscall, or, inline, nobody that could be
 * hooked; then the ring is made before the first socket, whatever PLAIN is. */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <liburing.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

enum { SIZE = 64 };

static const char *how;
static struct io_uring ring;

/* Rings by hand, when liburing is not to be used. */
static struct {
    int fd;
    unsigned *sq_tail, *sq_mask, *sq_array, *cq_head, *cq_tail, *cq_mask;
    struct io_uring_sqe *sqes;
    struct io_uring_cqe *cqes;
} hand;

static void check(int good, const char *what)
{
    if (!good) {
        perror(what);
        exit(1);
    }
}

static long by_hand(long number, long a, long b, long c, long d)
{
    long result;

    if (!strcmp(how, "syscall"))
        return syscall(number, a, b, c, d, 0, 0);
    __asm__ volatile("mov %5, %%r10; xor %%r8d, %%r8d; xor %%r9d, %%r9d; syscall"
                     : "=a"(result)
                     : "a"(number), "D"(a), "S"(b), "d"(c), "r"(d)
                     : "rcx", "r8", "r9", "r10", "r11", "memory");
    return result;
}

static void *map(size_t size, off_t offset)
{
    void *at = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_POPULATE, hand.fd, offset);

    check(at != MAP_FAILED, "mmap");
    return at;
}

static void make_ring(void)
{
    struct io_uring_params p = {0};
    char *sq, *cq;

    if (!strcmp(how, "liburing")) {
        check(io_uring_queue_init(8, &ring, 0) == 0, "io_uring_queue_init");
        return;
    }
    hand.fd = by_hand(SYS_io_uring_setup, 8, (long)&p, 0, 0);
    check(hand.fd >= 0, "io_uring_setup");
    sq = map(p.sq_off.array + p.sq_entries * sizeof(unsigned), IORING_OFF_SQ_RING);
    cq = map(p.cq_off.cqes + p.cq_entries * sizeof(*hand.cqes), IORING_OFF_CQ_RING);
    hand.sqes = map(p.sq_entries * sizeof(*hand.sqes), IORING_OFF_SQES);
    hand.sq_tail = (unsigned *)(sq + p.sq_off.tail);
    hand.sq_mask = (unsigned *)(sq + p.sq_off.ring_mask);
    hand.sq_array = (unsigned *)(sq + p.sq_off.array);
    hand.cq_head = (unsigned *)(cq + p.cq_off.head);
    hand.cq_tail = (unsigned *)(cq + p.cq_off.tail);
    hand.cq_mask = (unsigned *)(cq + p.cq_off.ring_mask);
    hand.cqes = (struct io_uring_cqe *)(cq + p.cq_off.cqes);
}

/* One operation, waited for. */
static int operate(int opcode, int fd, char *buffer, unsigned length)
{
    struct io_uring_sqe *sqe;
    struct io_uring_cqe *cqe;
    unsigned tail, head;
    int result, liburing = !strcmp(how, "liburing");

    tail = liburing ? 0 : *hand.sq_tail;
    sqe = liburing ? io_uring_get_sqe(&ring) : &hand.sqes[tail & *hand.sq_mask];
    memset(sqe, 0, sizeof(*sqe));
    sqe->opcode = opcode;
    sqe->fd = fd;
    sqe->addr = (unsigned long)buffer;
    sqe->len = length;
    if (liburing) {
        check(io_uring_submit_and_wait(&ring, 1) == 1, "io_uring_submit_and_wait");
        check(io_uring_wait_cqe(&ring, &cqe) == 0, "io_uring_wait_cqe");
        result = cqe->res;
        io_uring_cqe_seen(&ring, cqe);
        return result;
    }
    hand.sq_array[tail & *hand.sq_mask] = tail & *hand.sq_mask;
    __atomic_store_n(hand.sq_tail, tail + 1, __ATOMIC_RELEASE);
    check(by_hand(SYS_io_uring_enter, hand.fd, 1, 1, IORING_ENTER_GETEVENTS) == 1, "io_uring_enter");
    head = *hand.cq_head;
    while (__atomic_load_n(hand.cq_tail, __ATOMIC_ACQUIRE) == head)
        by_hand(SYS_io_uring_enter, hand.fd, 0, 1, IORING_ENTER_GETEVENTS);
    result = hand.cqes[head & *hand.cq_mask].res;
    __atomic_store_n(hand.cq_head, head + 1, __ATOMIC_RELEASE);
    return result;
}

static void move(int sends, int plain, int fd, char *buffer)
{
    for (int done = 0, n; done < SIZE; done += n) {
        if (plain)
            n = sends ? send(fd, buffer + done, SIZE - done, 0) : recv(fd, buffer + done, SIZE - done, 0);
        else
            n = operate(sends ? IORING_OP_SEND : IORING_OP_RECV, fd, buffer + done, SIZE - done);
        check(n > 0, sends ? "send" : "recv");
    }
}

int main(int argc, char **argv)
{
    struct sockaddr_in address = {.sin_family = AF_INET};
    int fd, listens, plain, rounds, on = 1;

    if (argc != 6)
        return 2;
    listens = !strcmp(argv[1], "listen");
    address.sin_port = htons(atoi(argv[2]));
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    how = argv[3];
    plain = atoi(argv[4]);
    rounds = atoi(argv[5]);
    if (!plain || !strcmp(how, "inline"))
        make_ring();
    fd = socket(AF_INET, SOCK_STREAM, 0);
    setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on));
    if (listens) {
        check(bind(fd, (struct sockaddr *)&address, sizeof(address)) == 0, "bind");
        check(listen(fd, 1) == 0, "listen");
        fd = accept(fd, NULL, NULL);
    } else {
        check(connect(fd, (struct sockaddr *)&address, sizeof(address)) == 0, "connect");
    }
    for (int i = 0; i < rounds; i++) {
        char sent[SIZE], received[SIZE];

        if (plain && i == plain && strcmp(how, "inline"))
            make_ring();
        memset(sent, i, SIZE);
        /* Both send before they receive: when the ring is made, bytes are under way. */
        move(1, i < plain, fd, sent);
        move(0, i < plain, fd, received);
        if (memcmp(sent, received, SIZE)) {
            fprintf(stderr, "round %d: wrong bytes\n", i);
            return 1;
        }
    }
    close(fd);
    return 0;
}
