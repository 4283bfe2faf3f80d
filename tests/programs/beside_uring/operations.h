/* Operations on a connection. */

/* ---- Every operation on a connection that has bytes to be read: they come exactly, by the io_uring and by calls. */
static int received(int kind, int fd, unsigned char *into, int n)
{
    struct iovec iov = {into, n};
    struct msghdr message = {.msg_iov = &iov, .msg_iovlen = 1};
    struct io_uring_sqe *sqe = entry(0);
    int ends[2], got;

    switch (kind) {
    case 0: io_uring_prep_recv(sqe, fd, into, n, 0); break;
    case 1: io_uring_prep_read(sqe, fd, into, n, 0); break;
    case 2: io_uring_prep_readv(sqe, fd, &iov, 1, 0); break;
    case 3: io_uring_prep_recvmsg(sqe, fd, &message, 0); break;
    case 4:
        io_uring_prep_poll_add(sqe, fd, POLLIN);
        sqe->user_data = 50;
        EXPECT(one(sqe) & POLLIN, POLLIN);
        return recv(fd, into, n, 0);
    case 5:
        EXPECT(pipe(ends), 0);
        io_uring_prep_splice(sqe, fd, -1, ends[1], -1, n, 0);
        sqe->user_data = 50;
        got = one(sqe);
        if (got > 0)
            EXPECT(read(ends[0], into, got), got);
        close(ends[0]);
        close(ends[1]);
        return got;
    case 6:
        EXPECT(io_uring_register_files(&ring, &fd, 1), 0);
        io_uring_prep_recv(sqe, 0, into, n, 0);
        sqe->flags |= IOSQE_FIXED_FILE;
        sqe->user_data = 50;
        got = one(sqe);
        EXPECT(io_uring_unregister_files(&ring), 0);
        return got;
    case 7: io_uring_prep_recv(sqe, fd, into, n, 0); sqe->flags |= IOSQE_ASYNC; break;
    default: exit(2);
    }
    sqe->user_data = 50;
    return one(sqe);
}

static int sent(int kind, int fd, unsigned char *from, int n)
{
    struct iovec iov = {from, n};
    struct msghdr message = {.msg_iov = &iov, .msg_iovlen = 1};
    struct io_uring_sqe *sqe = entry(0);
    int ends[2], got;

    switch (kind % 6) {
    case 0: io_uring_prep_send(sqe, fd, from, n, 0); break;
    case 1: io_uring_prep_write(sqe, fd, from, n, 0); break;
    case 2: io_uring_prep_writev(sqe, fd, &iov, 1, 0); break;
    case 3: io_uring_prep_sendmsg(sqe, fd, &message, 0); break;
    case 4: io_uring_prep_send(sqe, fd, from, n, 0); sqe->flags |= IOSQE_IO_DRAIN; break;
    case 5:
        EXPECT(pipe(ends), 0);
        EXPECT(write(ends[1], from, n), n);
        io_uring_prep_splice(sqe, ends[0], -1, fd, -1, n, 0);
        sqe->user_data = 51;
        got = one(sqe);
        close(ends[0]);
        close(ends[1]);
        return got;
    }
    sqe->user_data = 51;
    return one(sqe);
}

/* In an epoll set, too, which waits for it once with bytes that the io_uring then takes, once for a call. */
static void in_set(struct pair *p, int kind, const char *what)
{
    struct epoll_event event = {.events = EPOLLIN, .data.fd = p->near}, none;
    unsigned char bytes[SIZE];
    int set = epoll_create1(0);

    EXPECT(epoll_ctl(set, EPOLL_CTL_ADD, p->near, &event), 0);
    for (int i = 0; i < 10; i++) {
        EXPECT(epoll_wait(set, &none, 1, 0), 0);
        say(p->far, 100, &p->in);
        wait_for(set, p->near, what);
        expect(received(kind, p->near, bytes, 100), 100, what);
        check(bytes, 100, &heard_in, what);
        EXPECT(epoll_wait(set, &none, 1, 0), 0);
        say(p->far, 70, &p->in);
        wait_for(set, p->near, what);
        hear(p->near, 70, &heard_in, what);
    }
    close(set);
}

static void operations(void)
{
    unsigned char bytes[SIZE];

    for (int kind = 0; kind < 8; kind++) {
        struct pair p = connect_pair();
        unsigned char in = heard_in, out = heard_out;
        char what[32];
        int n;

        sprintf(what, "operation %d", kind);
        say(p.far, 3000, &p.in);
        hear(p.near, 100, &in, what);
        n = received(kind, p.near, bytes, 1000);
        expect(n > 0, 1, what);
        check(bytes, n, &in, what);
        hear(p.near, 2900 - n, &in, what);
        say(p.near, 500, &p.out);
        fill(bytes, 700, &p.out);
        expect(sent(kind, p.near, bytes, 700), 700, what);
        say(p.near, 300, &p.out);
        hear(p.far, 1500, &out, what);
        heard_in = in, heard_out = out;
        exchange(&p, 50, what);
        /* And mixed, from here on. */
        for (int i = 0; i < 20; i++) {
            say(p.far, 100, &p.in);
            n = received(kind, p.near, bytes, 60);
            expect(n > 0, 1, what);
            check(bytes, n, &heard_in, what);
            hear(p.near, 100 - n, &heard_in, what);
        }
        in_set(&p, kind, what);
        end(&p);
    }
}

/* ---- The end of a connection by the io_uring. */
static void endings(void)
{
    unsigned char bytes[SIZE];
    struct io_uring_sqe *sqe;

    for (int kind = 0; kind < 4; kind++) {
        struct pair p = connect_pair();
        unsigned char out = heard_out;
        int number = p.near;

        say(p.near, 600, &p.out);
        switch (kind) {
        case 0:
            sqe = entry(0);
            io_uring_prep_shutdown(sqe, p.near, SHUT_WR);
            sqe->user_data = 1;
            EXPECT(one(sqe), 0);
            break;
        case 1:
            sqe = entry(0);
            io_uring_prep_close(sqe, p.near);
            sqe->user_data = 1;
            EXPECT(one(sqe), 0);
            break;
        default:
            /* A chain: what it sends comes, and then the end. Or it breaks, and the descriptor lives on. */
            fill(bytes, 50, &p.out);
            sqe = entry(0);
            io_uring_prep_send(sqe, kind == 2 ? p.near : -1, bytes, 50, 0);
            sqe->flags |= IOSQE_IO_LINK;
            sqe->user_data = 1;
            sqe = entry(0);
            io_uring_prep_close(sqe, p.near);
            sqe->user_data = 2;
            EXPECT(submit(2), 2);
            EXPECT(result_of(1), kind == 2 ? 50 : -EBADF);
            EXPECT(result_of(2), kind == 2 ? 0 : -ECANCELED);
        }
        if (kind == 3) {
            EXPECT(send(p.near, bytes, 50, 0), 50);
            hear(p.far, 650, &out, "after a broken chain");
            EXPECT(close(p.near), 0);
        } else {
            hear(p.far, kind == 2 ? 650 : 600, &out, "before the end");
        }
        EXPECT(recv(p.far, bytes, 1, 0), 0);
        if (kind == 1 || kind == 2) {
            EXPECT(fcntl(number, F_GETFD), -1);
            /* The number is free, and may be another connection. */
            struct pair q = connect_pair();
            exchange(&q, 20, "the next one");
            end(&q);
        } else if (kind == 0) {
            close(p.near);
        }
        close(p.far);
    }
}

/* ---- Multishot receive into provided buffers, until the peer ends. */
static void shots(void)
{
    struct pair p = connect_pair();
    unsigned char in = heard_in, *buffers = malloc(64 * 256);
    struct io_uring_sqe *sqe = entry(0);
    struct io_uring_cqe *cqe;
    int total = 0, ended = 0;

    io_uring_prep_provide_buffers(sqe, buffers, 256, 64, 1, 0);
    sqe->user_data = 1;
    EXPECT(one(sqe) >= 0, 1);
    say(p.far, 2000, &p.in);
    hear(p.near, 10, &in, "before");
    sqe = entry(0);
    io_uring_prep_recv_multishot(sqe, p.near, NULL, 0, 0);
    sqe->flags |= IOSQE_BUFFER_SELECT;
    sqe->buf_group = 1;
    sqe->user_data = 2;
    EXPECT(submit(0), 1);
    say(p.far, 3000, &p.in);
    shutdown(p.far, SHUT_WR);
    while (!ended) {
        if (io_uring_peek_cqe(&ring, &cqe)) {
            EXPECT(syscall(SYS_io_uring_enter, ring.ring_fd, 0, 1, IORING_ENTER_GETEVENTS, NULL, 0), 0);
            continue;
        }
        expect(cqe->res >= 0, 1, "multishot");
        if (cqe->res > 0)
            check(buffers + 256 * (cqe->flags >> IORING_CQE_BUFFER_SHIFT), cqe->res, &in, "multishot");
        total += cqe->res;
        ended = cqe->res == 0;
        io_uring_cqe_seen(&ring, cqe);
    }
    EXPECT(total, 4990);
    end(&p);
}

/* ---- The io_uring holds a connection whose number is closed: as a fixed file, or by an operation that waits. */
static void closed_numbers(void)
{
    struct pair p = connect_pair();
    unsigned char in = heard_in, out = heard_out, bytes[SIZE];
    struct io_uring_sqe *sqe;

    say(p.far, 100, &p.in);
    say(p.near, 50, &p.out);
    EXPECT(io_uring_register_files(&ring, &p.near, 1), 0);
    EXPECT(close(p.near), 0);
    for (int i = 0; i < 20; i++) {
        sqe = entry(0);
        io_uring_prep_recv(sqe, 0, bytes, 100, MSG_WAITALL);
        sqe->flags |= IOSQE_FIXED_FILE;
        sqe->user_data = 1;
        EXPECT(one(sqe), 100);
        check(bytes, 100, &in, "fixed file");
        fill(bytes, 70, &p.out);
        sqe = entry(0);
        io_uring_prep_send(sqe, 0, bytes, 70, 0);
        sqe->flags |= IOSQE_FIXED_FILE;
        sqe->user_data = 2;
        EXPECT(one(sqe), 70);
        hear(p.far, i ? 70 : 120, &out, "from a fixed file");
        say(p.far, 100, &p.in);
    }
    EXPECT(io_uring_unregister_files(&ring), 0);
    close(p.far);

    p = connect_pair();
    in = heard_in;
    sqe = entry(0);
    io_uring_prep_recv(sqe, p.near, bytes, 100, 0);
    sqe->user_data = 3;
    EXPECT(submit(0), 1);
    EXPECT(close(p.near), 0);
    usleep(10000);
    say(p.far, 40, &p.in);
    EXPECT(result_of(3), 40);
    check(bytes, 40, &in, "after the close");
    EXPECT(recv(p.far, bytes, 1, 0), 0);
    close(p.far);
}
