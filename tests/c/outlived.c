/* A number is closed that an epoll set has, while a child holds the socket: the set goes on telling of the bytes that nobody
 * has read, though their sender is stopped, until the child is killed, which says nothing. */
#include "peer.h"

enum { BYTES = 4 };

static void look(int set, int times) {
    for (int turn = 0; turn < times; turn++) {
        struct epoll_event event = {.events = 0};
        int n = epoll_wait(set, &event, 1, 0);
        printf(" %d %x", n, event.events);
    }
}

static void close_and_look(const char *what, uint32_t events) {
    struct peer peer = peer_start();
    struct epoll_event event = {.events = events, .data.u64 = 7};
    int set = epoll_create1(0);
    CHECK(epoll_ctl(set, EPOLL_CTL_ADD, peer.fd, &event) == 0);
    peer_order(peer, BYTES, STOP);
    await_stop(peer);
    await_bytes(peer.fd, BYTES);
    fflush(stdout);
    pid_t holder = fork();
    if (holder == 0) {
        close(peer.orders);
        for (;;)
            pause();
    }
    close(peer.fd);
    printf("%s:", what);
    look(set, 3);
    CHECK(kill(holder, SIGKILL) == 0 && waitpid(holder, NULL, 0) == holder);
    printf(", killed:");
    look(set, 2);
    printf("\n");
    close(set);
    peer_end(peer);
}

int main(void) {
    close_and_look("in", EPOLLIN);
    close_and_look("in and out", EPOLLIN | EPOLLOUT);
    close_and_look("edge", EPOLLIN | EPOLLET);
    close_and_look("one shot", EPOLLIN | EPOLLONESHOT);
    return 0;
}
