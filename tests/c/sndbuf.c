/* A sender that is blocked, or waits for room, when the send buffer is changed: a larger one lets it go on. Prints what
 * a program sees. */
#include "pair.h"

static int one[2];
static atomic_int released;

static void *send_one(void *arg) {
    char byte = 1;
    (void)arg;
    CHECK(send(one[0], &byte, 1, MSG_NOSIGNAL) == 1);
    released = 1;
    return NULL;
}

static void set_buffer(int size) {
    if (size > 0)
        CHECK(setsockopt(one[0], SOL_SOCKET, SO_SNDBUF, &size, sizeof size) == 0);
}

static void change(int from, int to) {
    pthread_t thread;
    warm_pair(one);
    set_buffer(from);
    size_t taken = fill(one[0]);
    released = 0;
    CHECK(pthread_create(&thread, NULL, send_one, NULL) == 0);
    nap_us(50000);
    printf("from %d to %d: %s", from, to, released ? "not blocked" : "blocked");
    set_buffer(to);
    for (int turns = 0; turns < 100 && !released; turns++)
        nap_us(5000);
    printf(", then %s", released ? "released" : "still blocked");
    struct pollfd poller = {one[0], POLLOUT, 0};
    printf(", poll says %x\n", poll(&poller, 1, 100) > 0 ? poller.revents : 0);
    drain(one[1], taken + 1);
    pthread_join(thread, NULL);
    close_pair(one);
}

int main(void) {
    change(0, 4 << 20);
    change(2 << 20, 4 << 20);
    change(1 << 20, 3 << 20);
    change(20000, 1 << 20);
    change(1 << 20, 1 << 20);
    change(1 << 20, 50000);
    return 0;
}
