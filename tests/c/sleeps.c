/* sleeps polls|waits: sleeps on connections that are on the kernel; the test counts the system calls. Each sleep is ended
 * by a message, some by their time limit. */
#include "pair.h"
#include <sched.h>

enum { SLEEPS = 200, EXPIRED = 20 };

static int sender;
static sem_t wanted;

/* Sends when the other thread sleeps, or is about to. */
static void *send_later(void *unused) {
    char byte = 1;
    for (int i = 0; i < SLEEPS; i++) {
        sem_wait(&wanted);
        nap_us(100);
        send_all(sender, &byte, 1);
    }
    return unused;
}

static void receive_one(int fd) {
    char byte;
    recv_all(fd, &byte, 1);
}

static void sleep_in_poll(void) {
    int pair[2];
    connect_pair(pair);
    sender = pair[1];
    struct pollfd entry = {.fd = pair[0], .events = POLLIN};
    for (int i = 0; i < SLEEPS; i++) {
        sem_post(&wanted);
        CHECK(poll(&entry, 1, -1) == 1 && entry.revents == POLLIN);
        receive_one(pair[0]);
    }
    for (int i = 0; i < EXPIRED; i++)
        CHECK(poll(&entry, 1, 1) == 0 && entry.revents == 0);
    close_pair(pair);
}

static void sleep_in_set(int set, const int pair[2], int times) {
    struct epoll_event event = {.events = EPOLLIN};
    CHECK(epoll_ctl(set, EPOLL_CTL_ADD, pair[0], &event) == 0);
    sender = pair[1];
    for (int i = 0; i < times; i++) {
        sem_post(&wanted);
        CHECK(epoll_wait(set, &event, 1, -1) == 1);
        receive_one(pair[0]);
    }
    CHECK(epoll_ctl(set, EPOLL_CTL_DEL, pair[0], NULL) == 0);
}

/* The first connection of the set is on rings. The others are too short for that. */
static void sleep_in_sets(void) {
    int set = epoll_create1(0), pair[2];
    warm_pair(pair);
    sleep_in_set(set, pair, 2);
    close_pair(pair);
    for (int i = 2; i < SLEEPS; i += 2) {
        connect_pair(pair);
        sleep_in_set(set, pair, 2);
        close_pair(pair);
    }
    close(set);
}

int main(int argc, char **argv) {
    /* On one CPU a thread that waits awake gives way to the others: that is counted. */
    cpu_set_t cpus;
    CHECK(sched_getaffinity(0, sizeof cpus, &cpus) == 0);
    for (int cpu = 0, found = 0; cpu < CPU_SETSIZE; cpu++) {
        if (CPU_ISSET(cpu, &cpus) && found++)
            CPU_CLR(cpu, &cpus);
    }
    CHECK(sched_setaffinity(0, sizeof cpus, &cpus) == 0);
    CHECK(argc == 2 && sem_init(&wanted, 0, 0) == 0);
    pthread_t thread;
    CHECK(pthread_create(&thread, NULL, send_later, NULL) == 0);
    if (strcmp(argv[1], "polls") == 0)
        sleep_in_poll();
    else
        sleep_in_sets();
    pthread_join(thread, NULL);
    printf("done\n");
    return 0;
}
