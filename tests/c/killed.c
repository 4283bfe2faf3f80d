/* The other end is killed, or its connection ends past ulsock while it lives on: a program that only
 * sends, and never waits, learns of it, whether it sends now and then or all the time. */
#include "peer.h"

enum { MOST = 12 };

/* Sends until an error comes, so often that kernel TCP has long said it. */
static void send_on(const char *what, long pause, size_t bytes, int most) {
    static char data[1000];
    struct peer peer = peer_start();
    CHECK(kill(peer.pid, SIGKILL) == 0 && waitpid(peer.pid, NULL, 0) == peer.pid);
    nap_us(20000);
    ssize_t n = 0;
    int sends = 0;
    for (; sends < most && n >= 0; sends++) {
        n = send(peer.fd, data, bytes, MSG_NOSIGNAL);
        nap_us(pause);
    }
    printf("%s: %s\n", what, n < 0 ? result(n) : "no error");
    fflush(stdout);
    close(peer.fd);
    close(peer.orders);
}

/* Nothing in shared memory tells of it: the sender must look at its socket by itself, each second. */
static void send_to_a_living_one(void) {
    struct peer peer = peer_start();
    peer_order(peer, 0, RESET);
    nap_us(20000);
    ssize_t n = 0;
    for (int sends = 0; sends < 2000 && n >= 0; sends++) {
        n = send(peer.fd, "x", 1, MSG_NOSIGNAL | MSG_DONTWAIT);
        nap_us(1000);
    }
    printf("reset by one that lives: %s\n", n < 0 ? "an error" : "no error");
    close(peer.fd);
    peer_end(peer);
}

int main(void) {
    send_on("now and then", 20000, 1, MOST);
    /* Some 100 ms of it: a tick of the kernel's clock is 10 ms at most. */
    send_on("all the time", 100, 10, 1000);
    send_to_a_living_one();
    return 0;
}
