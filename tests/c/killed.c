/* The other end is killed: a program that only sends learns of it, whether it sends now and then or
 * all the time, before and after. */
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

int main(void) {
    send_on("now and then", 20000, 1, MOST);
    /* Some 100 ms of it: a tick of the kernel's clock is 10 ms at most. */
    send_on("all the time", 100, 10, 1000);
    return 0;
}
