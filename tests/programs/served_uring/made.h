/* The io_uring accepts and connects by itself. */
static struct pair made_pair(int flags)
{
    struct pair p = {0};
    struct io_uring_cqe *cqe;

    p.near = socket(AF_INET, SOCK_STREAM, 0);
    if (flags)
        io_uring_prep_multishot_accept(entry(0), listener, NULL, NULL, 0);
    else
        io_uring_prep_accept(entry(0), listener, NULL, NULL, 0);
    name_it(8);
    io_uring_prep_connect(entry(0), p.near, (void *)&address, sizeof address);
    name_it(9);
    EXPECT(submit(0), 2);
    for (int i = 0; i < 2; i++) {
        EXPECT(io_uring_wait_cqe(&ring, &cqe), 0);
        if (cqe->user_data == 8) {
            expect(!!(cqe->flags & IORING_CQE_F_MORE), flags, "more");
            expect((p.far = cqe->res) >= 0, 1, "accepted");
        } else
            expect(cqe->res, 0, "connected");
        io_uring_cqe_seen(&ring, cqe);
    }
    return p;
}

/* By entries alone, like a server of liburing's examples. */
static void by_entries(struct pair *p)
{
    unsigned char other[64];

    for (int i = 0; i < 300; i++) {
        receive(p->far, 1);
        transmit(p->near, "0123456789", 10, 2);
        EXPECT(submit(2), 2);
        struct io_uring_cqe *cqe;
        for (int k = 0; k < 2; k++) {
            EXPECT(io_uring_wait_cqe(&ring, &cqe), 0);
            expect(cqe->res, 10, "by entries");
            io_uring_cqe_seen(&ring, cqe);
        }
        expect(memcmp(bytes, "0123456789", 10), 0, "by entries");
        io_uring_prep_recv(entry(0), p->near, other, sizeof other, 0);
        name_it(3);
        EXPECT(submit(0), 1);
        transmit(p->far, bytes, 10, 4);
        EXPECT(submit(1), 1);
        completes(4, 10, "back");
        completes(3, 10, "back");
        expect(memcmp(other, "0123456789", 10), 0, "back");
    }
}

static void made(void)
{
    struct pair p = made_pair(0);

    by_entries(&p);
    p.out = p.in = heard_out = heard_in = 0;
    exchange(&p, 20, "plain calls");
    end(&p);
}

static void made_many(void)
{
    struct pair p = made_pair(1), q = {0};
    struct io_uring_cqe *cqe;

    by_entries(&p);
    q.near = socket(AF_INET, SOCK_STREAM, 0);
    EXPECT(connect(q.near, (void *)&address, sizeof address), 0);
    EXPECT(io_uring_wait_cqe(&ring, &cqe), 0);
    expect(cqe->user_data, 8, "the second one");
    expect((q.far = cqe->res) >= 0, 1, "the second one");
    io_uring_cqe_seen(&ring, cqe);
    by_entries(&q);
    end(&p);
    end(&q);
}
