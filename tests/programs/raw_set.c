/* Waits in an epoll set that no library has seen being made: its calls are system calls of its own, while it sends and
 * receives by libc. ROUNDS of echo with a thread of its own; a round that hears nothing for 5 s fails. After UNTIL of them the
 * set is closed, and the rest goes without.
 *     raw_set ROUNDS [UNTIL] */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/syscall.h>

static int listener;

static void *echo(void *unused) {
    char bytes[64];
    ssize_t n;
    int far = accept(listener, NULL, NULL);
    while ((n = recv(far, bytes, sizeof bytes, 0)) > 0)
        send(far, bytes, n, 0);
    return unused;
}

static long call(long number, long a, long b, long c, long d) {
    register long fourth __asm__("r10") = d, fifth __asm__("r8") = 0;
    long result;
    __asm__ volatile("syscall"
                     : "=a"(result)
                     : "a"(number), "D"(a), "S"(b), "d"(c), "r"(fourth), "r"(fifth)
                     : "rcx", "r11", "memory");
    return result;
}

int main(int argc, char **argv) {
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t length = sizeof address;
    struct epoll_event event = {.events = EPOLLIN};
    pthread_t thread;
    char bytes[64] = "hello";
    int rounds = argc > 1 ? atoi(argv[1]) : 1;
    int until = argc > 2 ? atoi(argv[2]) : rounds;
    long set = call(SYS_epoll_create1, EPOLL_CLOEXEC, 0, 0, 0);
    listener = socket(AF_INET, SOCK_STREAM, 0);
    if (bind(listener, (void *)&address, length) || listen(listener, 5) ||
        getsockname(listener, (void *)&address, &length))
        return perror("listen"), 2;
    pthread_create(&thread, NULL, echo, NULL);
    int near = socket(AF_INET, SOCK_STREAM, 0);
    if (connect(near, (void *)&address, length))
        return perror("connect"), 2;
    call(SYS_epoll_ctl, set, EPOLL_CTL_ADD, near, (long)&event);
    for (int round = 0; round < rounds; round++) {
        send(near, bytes, 5, 0);
        if (round == until)
            call(SYS_close, set, 0, 0, 0);
        if (round < until && call(SYS_epoll_wait, set, (long)&event, 1, 5000) != 1)
            return fprintf(stderr, "nothing in round %d\n", round), 1;
        if (recv(near, bytes, sizeof bytes, 0) != 5)
            return 3;
    }
    return 0;
}
