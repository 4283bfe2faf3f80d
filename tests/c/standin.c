/* A connection whose unread bytes only a stopped peer could send again is passed on: what takes its
 * place keeps every number and every place in epoll sets. Prints what a reader sees. */
#include "peer.h"

enum { UNREAD = 5000 };

static int by_data(const void *one, const void *two) {
    uint64_t a = ((const struct epoll_event *)one)->data.u64;
    uint64_t b = ((const struct epoll_event *)two)->data.u64;
    return (a > b) - (a < b);
}

static void show(const char *what, int set) {
    struct epoll_event events[8];
    int n = epoll_wait(set, events, 8, 300);
    CHECK(n >= 0);
    qsort(events, n, sizeof events[0], by_data);
    printf("%s:", what);
    for (int i = 0; i < n; i++)
        printf(" %x of %d", events[i].events, (int)events[i].data.u64);
    printf("\n");
    fflush(stdout);
}

/* Passes the number to ourselves and closes what arrives. */
static void pass(int fd) {
    int ends[2];
    char byte = 'x';
    char control[CMSG_SPACE(sizeof fd)] = {0};
    struct iovec piece = {&byte, 1};
    struct msghdr message = {.msg_iov = &piece, .msg_iovlen = 1, .msg_control = control,
                             .msg_controllen = sizeof control};
    CHECK(socketpair(AF_UNIX, SOCK_STREAM, 0, ends) == 0);
    struct cmsghdr *header = CMSG_FIRSTHDR(&message);
    header->cmsg_level = SOL_SOCKET;
    header->cmsg_type = SCM_RIGHTS;
    header->cmsg_len = CMSG_LEN(sizeof fd);
    memcpy(CMSG_DATA(header), &fd, sizeof fd);
    CHECK(sendmsg(ends[0], &message, 0) == 1);
    CHECK(recvmsg(ends[1], &message, 0) == 1);
    memcpy(&fd, CMSG_DATA(CMSG_FIRSTHDR(&message)), sizeof fd);
    close(fd);
    close_pair(ends);
}

static void add(int set, int fd, uint32_t events, int data) {
    struct epoll_event event = {.events = events, .data.u64 = data};
    CHECK(epoll_ctl(set, EPOLL_CTL_ADD, fd, &event) == 0);
}

int main(void) {
    static char bytes[UNREAD];
    struct peer peer = peer_start();
    int level = epoll_create1(0), edge = epoll_create1(0), shot = epoll_create1(0);
    int outer = epoll_create1(0), twin = dup(peer.fd);
    CHECK(fcntl(twin, F_SETFD, FD_CLOEXEC) == 0);
    add(level, peer.fd, EPOLLIN, 1);
    add(level, twin, EPOLLIN | EPOLLOUT, 2);
    add(edge, peer.fd, EPOLLIN | EPOLLRDHUP | EPOLLET, 3);
    add(shot, peer.fd, EPOLLIN | EPOLLONESHOT, 4);
    add(outer, edge, EPOLLIN, 5);
    peer_order(peer, UNREAD, STOP);
    await_stop(peer);
    await_bytes(peer.fd, UNREAD);
    show("shot before", shot);
    pass(peer.fd);
    show("level", level);
    show("shot", shot);
    show("outer", outer);
    show("edge", edge);
    printf("close-on-exec %d and %d\n", fcntl(peer.fd, F_GETFD), fcntl(twin, F_GETFD));
    recv_all(twin, bytes, UNREAD - 1);
    show("level with one byte", level);
    recv_all(peer.fd, bytes, 1);
    show("level with none", level);
    show("edge with none", edge);
    struct epoll_event again = {.events = EPOLLIN | EPOLLONESHOT, .data.u64 = 6};
    CHECK(epoll_ctl(shot, EPOLL_CTL_MOD, peer.fd, &again) == 0);
    show("shot with none", shot);
    /* And it goes on, both ways. */
    kill(peer.pid, SIGCONT);
    peer_order(peer, 10, GO_ON);
    await_bytes(twin, 10);
    show("level", level);
    show("shot", shot);
    show("outer", outer);
    show("edge", edge);
    recv_all(peer.fd, bytes, 10);
    CHECK(epoll_ctl(level, EPOLL_CTL_DEL, twin, NULL) == 0);
    close(twin);
    peer_order(peer, 0, EXIT);
    show("the end", edge);
    printf("%zd\n", recv(peer.fd, bytes, 1, 0));
    peer_end(peer);
    return 0;
}
