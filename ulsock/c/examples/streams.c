/* Streams: an echo server that has a task for each connection, and a client that writes and reads in the ring itself.
 *
 *     streams server 127.0.0.1:0
 *     streams client
 */

#include "must.h"

#include <sys/socket.h>

enum { ROUNDS = 2000, LARGEST = 100000 };

static void echo(void *argument)
{
    ulsock_stream *stream = argument;
    char room[4096];
    size_t n;

    while (ulsock_stream_read(stream, room, sizeof room, &n) == ULSOCK_OK && n > 0)
        MUST(ulsock_stream_write(stream, room, n));
    ulsock_stream_free(stream);
}

static void serve(const char *at)
{
    ulsock_listener *listener;
    ulsock_address address;

    MUST(ulsock_listener_bind(at, &listener));
    MUST(ulsock_listener_address(listener, &address));
    announce("echo", address.text);
    for (;;) {
        ulsock_stream *stream;

        MUST(ulsock_listener_accept(listener, &stream));
        MUST(ulsock_task_begin(echo, stream, NULL));
    }
}

static unsigned char pattern(size_t round, size_t at)
{
    return (unsigned char)(round * 31 + at * 7 + at / 251);
}

/* Writes into the ring, where there is room for it. */
static void send_in_place(ulsock_stream *stream, size_t round, size_t len)
{
    static unsigned char bytes[LARGEST];
    ulsock_room *room;

    for (size_t at = 0; at < len; at++)
        bytes[at] = pattern(round, at);
    MUST(ulsock_stream_reserve(stream, len, &room));
    REFUSED(ULSOCK_BUSY, ulsock_stream_write(stream, bytes, 1));
    REFUSED(ULSOCK_OUT_OF_RANGE, ulsock_room_write_at(room, len, bytes, 1));
    MUST(ulsock_room_write_at(room, 0, bytes, len / 2));
    MUST(ulsock_room_write_at(room, len / 2, bytes + len / 2, len - len / 2));
    MUST(ulsock_room_commit(room, len));
    ulsock_room_free(room);
}

/* Looks at what has come where it is. */
static void receive_in_place(ulsock_stream *stream, size_t round, size_t len)
{
    static unsigned char bytes[LARGEST];

    for (size_t done = 0; done < len;) {
        ulsock_view *view;
        size_t n;

        MUST(ulsock_stream_view(stream, &view, &n));
        CHECK(n > 0);
        if (n > len - done)
            n = len - done;
        MUST(ulsock_view_read_at(view, 0, bytes, n));
        MUST(ulsock_view_consume(view, n));
        ulsock_view_free(view);
        for (size_t at = 0; at < n; at++)
            CHECK(bytes[at] == pattern(round, done + at));
        done += n;
    }
}

static void talk(void)
{
    ulsock_address address;
    ulsock_stream *stream;
    char byte;
    size_t n;

    look_up("echo", &address);
    MUST(ulsock_stream_connect(address.text, &stream));
    MUST(ulsock_stream_set_nodelay(stream, true));
    for (size_t round = 0; round < ROUNDS; round++) {
        size_t len = round % 100 == 0 ? 50000 : 1 + round % 64;

        send_in_place(stream, round, len);
        receive_in_place(stream, round, len);
    }
    MUST(ulsock_stream_shutdown(stream, SHUT_WR));
    MUST(ulsock_stream_read(stream, &byte, 1, &n));
    CHECK(n == 0);
    REFUSED(ULSOCK_END_OF_STREAM, ulsock_stream_read_exact(stream, &byte, 1));
    ulsock_stream_free(stream);
    REFUSED(ULSOCK_BAD_ARGUMENT, ulsock_stream_read(NULL, &byte, 1, &n));
    printf("done\n");
}

int main(int argc, char **argv)
{
    if (argc == 3 && strcmp(argv[1], "server") == 0)
        serve(argv[2]);
    else if (argc == 2 && strcmp(argv[1], "client") == 0)
        talk();
    else
        fprintf(stderr, "usage: streams server ADDRESS | streams client\n");
    return argc < 2;
}
