/* A forked child uses the epoll set of its parent for the first time while the parent changes what is
 * registered there: what the parent registered last holds, in every round. */
#include "pair.h"

enum { ROUNDS = 60 };

static atomic_int *shared; /* 1: the child is about to begin; 2: it is done */

static void child(int set) {
    struct epoll_event event;
    atomic_store(shared, 1);
    epoll_wait(set, &event, 1, 0);
    atomic_store(shared, 2);
    _exit(0);
}

static void change(int set, int fd, uint32_t events, uint64_t data) {
    struct epoll_event event = {.events = events, .data.u64 = data};
    CHECK(epoll_ctl(set, EPOLL_CTL_MOD, fd, &event) == 0);
}

/* One-shot members whose last change arms them; the rest of the time they are changed over and over. */
static void round_of(int number, int *wrong) {
    int pair[2], set = epoll_create1(0), status;
    struct epoll_event event = {.events = EPOLLOUT | EPOLLONESHOT, .data.u64 = 1};
    warm_pair(pair);
    CHECK(epoll_ctl(set, EPOLL_CTL_ADD, pair[1], &event) == 0);
    CHECK(epoll_wait(set, &event, 1, 1000) == 1);
    atomic_store(shared, 0);
    pid_t pid = fork();
    if (pid == 0)
        child(set);
    while (atomic_load(shared) == 0) {
    }
    uint64_t data = 2;
    /* Now and then the last change comes while the child is at it. */
    for (int turn = 0; turn < number % 20 * 10 || (number % 2 && atomic_load(shared) != 2); turn++)
        change(set, pair[1], 0, data++);
    change(set, pair[1], EPOLLIN | EPOLLONESHOT, data);
    CHECK(waitpid(pid, &status, 0) == pid && status == 0);
    send_all(pair[0], "x", 1);
    int n = epoll_wait(set, &event, 1, 2000);
    if (n != 1 || event.data.u64 != data || event.events != EPOLLIN)
        (*wrong)++;
    if (epoll_wait(set, &event, 1, 0) != 0)
        (*wrong)++;
    change(set, pair[1], EPOLLIN, 7);
    n = epoll_wait(set, &event, 1, 2000);
    if (n != 1 || event.data.u64 != 7)
        (*wrong)++;
    close(set);
    close_pair(pair);
}

int main(void) {
    shared = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    CHECK(shared != MAP_FAILED);
    int wrong = 0;
    for (int number = 0; number < ROUNDS; number++)
        round_of(number, &wrong);
    printf("wrong: %d\n", wrong);
    return 0;
}
