/* Somebody waits for completions by a descriptor. */
#include <sys/eventfd.h>
#include <sys/select.h>

static int readable(int fd)
{
    struct pollfd one = {.fd = fd, .events = POLLIN};

    return poll(&one, 1, 2000);
}

static void polled_ring(void)
{
    struct pair p = waiting();

    EXPECT(send(p.far, "ab", 2, 0), 2);
    EXPECT(readable(ring.ring_fd), 1);
    completes(1, 2, "seen by poll");
    end(&p);
}

static void selected_ring(void)
{
    struct pair p = waiting();
    struct timeval time = {.tv_sec = 2};
    fd_set set;

    EXPECT(send(p.far, "ab", 2, 0), 2);
    FD_ZERO(&set);
    FD_SET(ring.ring_fd, &set);
    EXPECT(select(ring.ring_fd + 1, &set, NULL, NULL, &time), 1);
    completes(1, 2, "seen by select");
    end(&p);
}

static void epolled_ring(void)
{
    struct pair p = waiting();
    struct epoll_event event = {.events = EPOLLIN};
    int set = epoll_create1(0);

    EXPECT(epoll_ctl(set, EPOLL_CTL_ADD, ring.ring_fd, &event), 0);
    EXPECT(send(p.far, "ab", 2, 0), 2);
    EXPECT(epoll_wait(set, &event, 1, 2000), 1);
    completes(1, 2, "seen by epoll");
    end(&p);
}

static void counted_ring(void)
{
    struct pair p = waiting();
    int count = eventfd(0, 0);

    EXPECT(io_uring_register_eventfd(&ring, count), 0);
    EXPECT(send(p.far, "ab", 2, 0), 2);
    EXPECT(readable(count), 1);
    completes(1, 2, "seen by an eventfd");
    end(&p);
}
