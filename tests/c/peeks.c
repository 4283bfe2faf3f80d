/* MSG_PEEK sees all that is there, whichever way it came: under ulsock the stream begins on the kernel,
 * goes on in a ring, and returns to the kernel, while nobody takes a byte of it. */
#include "pair.h"

static int pair[2];
static unsigned char stream[1000];
static size_t sent, taken;

static void put(size_t bytes) {
    send_all(pair[0], stream + sent, bytes);
    sent += bytes;
}

/* Bytes may be under way for a moment; what does not show then never will. */
static void peek(const char *what) {
    unsigned char seen[sizeof stream];
    ssize_t n = 0;
    for (int turn = 0; turn < 200 && n < (ssize_t)(sent - taken); turn++) {
        n = recv(pair[1], seen, sizeof seen, MSG_PEEK | MSG_DONTWAIT);
        if (n < (ssize_t)(sent - taken))
            nap_us(1000);
    }
    int right = n > 0 && memcmp(seen, stream + taken, n) == 0;
    printf("%s: %s of %zu, %s\n", what, result(n), sent - taken, right ? "right" : "wrong");
}

int main(void) {
    for (size_t i = 0; i < sizeof stream; i++)
        stream[i] = (unsigned char)(i * 7 + i / 251);
    connect_pair(pair);
    /* Calls enough to be accelerated, while the other direction is read. */
    for (int round = 0; round < 40; round++) {
        char byte;
        put(3);
        peek("begins");
        send_all(pair[1], "x", 1);
        recv_all(pair[0], &byte, 1);
    }
    /* Time stamps are the kernel's: from here on it carries the rest. */
    int on = 1;
    CHECK(setsockopt(pair[0], SOL_SOCKET, SO_TIMESTAMP, &on, sizeof on) == 0);
    for (int round = 0; round < 10; round++) {
        put(5);
        peek("returns");
    }
    while (taken < sent) {
        unsigned char piece[7];
        size_t size = sent - taken < sizeof piece ? sent - taken : sizeof piece;
        recv_all(pair[1], piece, size);
        CHECK(memcmp(piece, stream + taken, size) == 0);
        taken += size;
        if (taken < sent)
            peek("taken");
    }
    close_pair(pair);
    return 0;
}
