/* Connections by entries in a random mixture, with a child that sends back what it gets: no byte may be lost, doubled or
 * out of order, and nothing may wait for ever. */
enum { ENDS = 8, ROUNDS = 30000, MOST = 16384 };
enum { SENT = 1, RECEIVED, POLLED, CANCELLED, OTHER };

static struct end {
    int fd, sending, receiving, polling;
    unsigned char out[3000], in[3000], next_out, next_in;
    long sent, got;
} ends[ENDS];

static void send_back(void)
{
    struct pollfd all[ENDS];
    char some[4096];
    int open = ENDS, yes = 1;

    for (int i = 0; i < ENDS; i++) {
        all[i] = (struct pollfd){.fd = accept(listener, NULL, NULL), .events = POLLIN};
        setsockopt(all[i].fd, IPPROTO_TCP, TCP_NODELAY, &yes, sizeof yes);
    }
    while (open && poll(all, ENDS, -1) > 0)
        for (int i = 0; i < ENDS; i++) {
            int n = all[i].revents ? recv(all[i].fd, some, sizeof some, 0) : -1;

            if (all[i].revents && n <= 0)
                all[i].fd = -1, open--;
            for (int done = 0, k; done < n; done += k)
                if ((k = send(all[i].fd, some + done, n - done, MSG_NOSIGNAL)) <= 0)
                    _exit(1);
        }
    _exit(0);
}

static void name_of(int kind, struct end *e)
{
    name_it(kind << 8 | (e - ends));
}

static void begin_to_send(struct end *e)
{
    unsigned char next = e->next_out;
    int n = 1 + rand() % sizeof e->out;

    fill(e->out, n, &next);
    if (rand() % 2)
        io_uring_prep_send(entry(0), e->fd, e->out, n, 0);
    else
        io_uring_prep_write(entry(0), e->fd, e->out, n, 0);
    name_of(SENT, e);
    e->sending = 1;
}

static void begin_to_receive(struct end *e)
{
    int n = 1 + rand() % sizeof e->in;

    if (rand() % 2)
        io_uring_prep_recv(entry(0), e->fd, e->in, n, 0);
    else
        io_uring_prep_read(entry(0), e->fd, e->in, n, 0);
    name_of(RECEIVED, e);
    e->receiving = 1;
}

static void begin_something(struct end *e)
{
    static struct __kernel_timespec time = {.tv_nsec = 300000};
    unsigned char some[100];
    int n;

    switch (rand() % 16) {
    case 0:
        if (e->receiving) {
            io_uring_prep_cancel64(entry(0), RECEIVED << 8 | (e - ends), 0);
            name_of(CANCELLED, e);
        }
        break;
    case 1:
        io_uring_prep_timeout(entry(0), &time, 0, 0);
        name_of(OTHER, e);
        break;
    case 2:
        if (!e->polling) {
            io_uring_prep_poll_add(entry(0), e->fd, POLLIN);
            name_of(POLLED, e);
            e->polling = 1;
        }
        break;
    case 3:
        if (!e->receiving && (n = recv(e->fd, some, sizeof some, MSG_DONTWAIT)) > 0) {
            check(some, n, &e->next_in, "by a call");
            e->got += n;
        }
        break;
    default:
        if (!e->receiving)
            begin_to_receive(e);
        if (!e->sending && e->sent - e->got < MOST)
            begin_to_send(e);
    }
}

static void ended_one(struct io_uring_cqe *cqe)
{
    struct end *e = &ends[cqe->user_data & 255];

    switch (cqe->user_data >> 8) {
    case SENT:
        expect(cqe->res > 0, 1, "soak: sent");
        e->next_out += cqe->res, e->sent += cqe->res, e->sending = 0;
        break;
    case RECEIVED:
        e->receiving = 0;
        if (cqe->res == -ECANCELED)
            break;
        expect(cqe->res > 0, 1, "soak: received");
        check(e->in, cqe->res, &e->next_in, "soak");
        e->got += cqe->res;
        break;
    case POLLED:
        expect(cqe->res, POLLIN, "soak: polled");
        e->polling = 0;
    }
}

static void wait_somehow(void)
{
    struct __kernel_timespec time = {.tv_nsec = 200000};
    struct io_uring_cqe *cqe;
    int any = 0;

    for (int i = 0; i < ENDS; i++)
        any |= ends[i].receiving && ends[i].sent > ends[i].got;
    switch (rand() % 6) {
    case 0:
        io_uring_submit(&ring);
        break;
    case 1:
        io_uring_submit_and_wait_timeout(&ring, &cqe, 1 + rand() % 2, &time, NULL);
        break;
    case 2:
        io_uring_submit_and_get_events(&ring);
        break;
    case 3:
        io_uring_submit(&ring);
        io_uring_wait_cqe_timeout(&ring, &cqe, &time);
        break;
    default:
        io_uring_submit_and_wait(&ring, any);
    }
    while (!io_uring_peek_cqe(&ring, &cqe)) {
        ended_one(cqe);
        io_uring_cqe_seen(&ring, cqe);
    }
}

static void soak(void)
{
    int status, yes = 1;
    pid_t child;

    if (!(child = fork()))
        send_back();
    for (int i = 0; i < ENDS; i++) {
        ends[i].fd = socket(AF_INET, SOCK_STREAM, 0);
        EXPECT(connect(ends[i].fd, (void *)&address, sizeof address), 0);
        EXPECT(setsockopt(ends[i].fd, IPPROTO_TCP, TCP_NODELAY, &yes, sizeof yes), 0);
    }
    for (int round = 0; round < ROUNDS; round++) {
        begin_something(&ends[rand() % ENDS]);
        if (rand() % 3 == 0)
            wait_somehow();
    }
    for (int i = 0; i < ENDS; i++)
        while (ends[i].sending || ends[i].got < ends[i].sent) {
            if (!ends[i].receiving)
                begin_to_receive(&ends[i]);
            wait_somehow();
        }
    for (int i = 0; i < ENDS; i++) {
        struct end *e = &ends[i];

        io_uring_prep_cancel64(entry(0), RECEIVED << 8 | i, 0);
        name_of(CANCELLED, e);
        io_uring_prep_cancel64(entry(0), POLLED << 8 | i, 0);
        name_of(CANCELLED, e);
        EXPECT(submit(0) >= 2, 1);
        EXPECT(close(e->fd), 0);
    }
    EXPECT(waitpid(child, &status, 0), child);
    EXPECT(status, 0);
}
