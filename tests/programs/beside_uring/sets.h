/* Epoll sets that the io_uring changes, and waits for. */

/* ---- EPOLL_CTL */
static struct io_uring_sqe *ctl(unsigned long name, int set, int op, int fd, struct epoll_event *event)
{
    struct io_uring_sqe *sqe = entry(name);

    io_uring_prep_epoll_ctl(sqe, set, fd, op, event);
    sqe->user_data = name;
    return sqe;
}

static void wait_for(int set, int fd, const char *what)
{
    struct epoll_event event;

    expect(epoll_wait(set, &event, 1, 5000), 1, what);
    expect(event.data.fd, fd, what);
}

static void sets(void)
{
    enum { PAIRS = 6 };
    struct pair p[PAIRS];
    unsigned char out[PAIRS], in[PAIRS];
    struct epoll_event event[PAIRS], none;
    int set = epoll_create1(EPOLL_CLOEXEC);

    for (int i = 0; i < PAIRS; i++) {
        p[i] = connect_pair();
        out[i] = heard_out, in[i] = heard_in;
        event[i].events = EPOLLIN;
        event[i].data.fd = p[i].near;
        ctl(100 + i, set, EPOLL_CTL_ADD, p[i].near, &event[i]);
    }
    EXPECT(submit(PAIRS), PAIRS);
    for (int i = 0; i < PAIRS; i++)
        EXPECT(result_of(100 + i), 0);
    for (int round = 0; round < 100; round++) {
        int i = round % PAIRS;

        EXPECT(epoll_wait(set, &none, 1, 0), 0);
        say(p[i].far, 50, &p[i].in);
        wait_for(set, p[i].near, "ring member");
        hear(p[i].near, 50, &in[i], "in a set");
        say(p[i].near, 60, &p[i].out);
        hear(p[i].far, 60, &out[i], "in a set");
    }
    /* Errors, each with a plain NOP behind it: that one is not affected. */
    EXPECT(one(ctl(200, set, EPOLL_CTL_ADD, p[0].near, &event[0])), -EEXIST);
    EXPECT(one(ctl(201, set, EPOLL_CTL_MOD, p[0].far, &event[0])), -ENOENT);
    EXPECT(one(ctl(202, set, EPOLL_CTL_DEL, p[0].far, NULL)), -ENOENT);
    EXPECT(one(ctl(203, set, EPOLL_CTL_ADD, 999, &event[0])), -EBADF);
    EXPECT(one(ctl(204, 999, EPOLL_CTL_ADD, p[0].far, &event[0])), -EBADF);
    EXPECT(one(ctl(205, listener, EPOLL_CTL_ADD, p[0].far, &event[0])), -EINVAL);
    EXPECT(one(ctl(206, set, 77, p[0].near, &event[0])), -EINVAL);
    EXPECT(one(ctl(207, set, EPOLL_CTL_MOD, p[0].near, (void *)8)), -EFAULT);
    /* Changed, taken out, put in again, in one batch. */
    event[1].events = EPOLLIN | EPOLLOUT | EPOLLET;
    ctl(210, set, EPOLL_CTL_MOD, p[1].near, &event[1]);
    ctl(211, set, EPOLL_CTL_DEL, p[2].near, NULL);
    ctl(212, set, EPOLL_CTL_DEL, p[3].near, NULL);
    ctl(213, set, EPOLL_CTL_ADD, p[3].near, &event[3]);
    EXPECT(submit(4), 4);
    for (int i = 0; i < 4; i++)
        EXPECT(result_of(210 + i), 0);
    wait_for(set, p[1].near, "changed member");
    EXPECT(epoll_wait(set, &none, 1, 0), 0);
    say(p[2].far, 10, &p[2].in);
    EXPECT(epoll_wait(set, &none, 1, 100), 0);
    hear(p[2].near, 10, &in[2], "taken out");
    say(p[3].far, 10, &p[3].in);
    wait_for(set, p[3].near, "put in again");
    hear(p[3].near, 10, &in[3], "put in again");
    for (int i = 0; i < PAIRS; i++) {
        heard_out = out[i], heard_in = in[i];
        exchange(&p[i], 20, "after");
        end(&p[i]);
    }
    close(set);
}

/* ---- Chains and drains with EPOLL_CTL: the kernel does those that are not the first. */
static void chains(void)
{
    struct pair p = connect_pair(), q = connect_pair();
    struct epoll_event event = {.events = EPOLLIN, .data.fd = p.near}, other = {.events = EPOLLIN, .data.fd = q.near}, none;
    struct io_uring_sqe *sqe;
    int set = epoll_create1(0), ends[2];
    char byte;

    EXPECT(pipe2(ends, O_NONBLOCK), 0);
    /* The first of a chain is ours; one that fails breaks it. */
    sqe = ctl(1, set, EPOLL_CTL_DEL, p.near, NULL);
    sqe->flags |= IOSQE_IO_LINK;
    ctl(2, set, EPOLL_CTL_ADD, p.near, &event);
    EXPECT(submit(2), 2);
    EXPECT(result_of(1), -ENOENT);
    EXPECT(result_of(2), -ECANCELED);
    say(p.far, 5, &p.in);
    EXPECT(epoll_wait(set, &none, 1, 50), 0);
    /* An entry before it fails: it is not done. */
    sqe = entry(3);
    io_uring_prep_read(sqe, -1, &byte, 1, 0);
    sqe->user_data = 3;
    sqe->flags |= IOSQE_IO_LINK;
    ctl(4, set, EPOLL_CTL_ADD, p.near, &event);
    EXPECT(submit(2), 2);
    EXPECT(result_of(3), -EBADF);
    EXPECT(result_of(4), -ECANCELED);
    EXPECT(epoll_wait(set, &none, 1, 50), 0);
    /* One that succeeds later. */
    sqe = entry(5);
    io_uring_prep_poll_add(sqe, ends[0], POLLIN);
    sqe->user_data = 5;
    sqe->flags |= IOSQE_IO_LINK;
    ctl(6, set, EPOLL_CTL_ADD, p.near, &event);
    EXPECT(submit(0), 2);
    EXPECT(epoll_wait(set, &none, 1, 50), 0);
    EXPECT(write(ends[1], "x", 1), 1);
    EXPECT(result_of(5), POLLIN);
    EXPECT(result_of(6), 0);
    wait_for(set, p.near, "later");
    /* A drain waits for what is under way, and what is behind it for the drain. */
    EXPECT(read(ends[0], &byte, 1), 1);
    sqe = entry(7);
    io_uring_prep_poll_add(sqe, ends[0], POLLIN);
    sqe->user_data = 7;
    sqe = entry(8);
    io_uring_prep_nop(sqe);
    sqe->user_data = 8;
    sqe->flags |= IOSQE_IO_DRAIN;
    ctl(9, set, EPOLL_CTL_ADD, q.near, &other);
    EXPECT(submit(0), 3);
    say(q.far, 5, &q.in);
    wait_for(set, p.near, "the other one");
    EXPECT(epoll_ctl(set, EPOLL_CTL_DEL, p.near, NULL), 0);
    EXPECT(epoll_wait(set, &none, 1, 50), 0);
    EXPECT(write(ends[1], "x", 1), 1);
    EXPECT(result_of(7), POLLIN);
    EXPECT(result_of(8), 0);
    EXPECT(result_of(9), 0);
    wait_for(set, q.near, "after the drain");
    end(&p);
    end(&q);
    close(set);
}

/* ---- An epoll set of ours that the io_uring waits for. */
static void waits_for_set(void)
{
    struct pair p = connect_pair();
    struct epoll_event event = {.events = EPOLLIN, .data.fd = p.near};
    unsigned char in = heard_in;
    int set = epoll_create1(0);

    EXPECT(epoll_ctl(set, EPOLL_CTL_ADD, p.near, &event), 0);
    for (int i = 0; i < 30; i++) {
        struct io_uring_sqe *sqe = entry(0);

        io_uring_prep_poll_add(sqe, set, POLLIN);
        sqe->user_data = 1;
        EXPECT(submit(0), 1);
        say(p.far, 20, &p.in);
        EXPECT(result_of(1), POLLIN);
        wait_for(set, p.near, "polled set");
        hear(p.near, 20, &in, "polled set");
    }
    end(&p);
    close(set);
}
