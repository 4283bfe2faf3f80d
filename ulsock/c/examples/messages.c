/* Messages: a server whose handlers add up the numbers of messages that come in pieces, several at a time, and answer.
 *
 *     messages server 127.0.0.1:0
 *     messages client
 */

#include "must.h"

enum { ADD = 1, SUM = 2, NOBODY = 3 };
enum { STREAMS = 8, NUMBERS = 5000 };

/* Reads pieces of its own size, whatever the sender's were, and waits wherever there is nothing yet. */
static void add(void *user, const ulsock_reader *message)
{
    uint64_t numbers[3], sum[2] = {0, 0};
    ulsock_peer *sender;
    size_t n;

    (void)user;
    MUST(ulsock_reader_read_exact(message, &sum[0], sizeof sum[0]));
    for (;;) {
        ulsock_status status = ulsock_reader_read_up_to(message, numbers, sizeof numbers, &n);

        /* The sender is gone. */
        if (status != ULSOCK_OK)
            return;
        for (size_t at = 0; at < n / sizeof numbers[0]; at++)
            sum[1] += numbers[at];
        if (n < sizeof numbers)
            break;
    }
    MUST(ulsock_reader_peer(message, &sender));
    ulsock_status sent = ulsock_peer_send(sender, SUM, sum, sizeof sum);
    CHECK(sent == ULSOCK_OK || sent == ULSOCK_PEER_GONE || sent == ULSOCK_CANCELLED);
    ulsock_peer_free(sender);
}

static void arrived(void *user, ulsock_peer *peer)
{
    int *arrivals = user;

    *arrivals += 1;
    /* Nothing can wait here. */
    REFUSED(ULSOCK_CANNOT_WAIT, ulsock_sleep(1));
    ulsock_peer_free(peer);
}

static void serve(const char *at)
{
    ulsock_endpoint *endpoint;
    ulsock_address address;
    int arrivals = 0;

    MUST(ulsock_endpoint_bind(at, 0, &endpoint));
    MUST(ulsock_endpoint_handle(endpoint, ADD, add, NULL));
    MUST(ulsock_endpoint_on_arrival(endpoint, arrived, &arrivals));
    MUST(ulsock_endpoint_address(endpoint, &address));
    announce("message-sums", address.text);
    MUST(ulsock_endpoint_serve(endpoint));
}

/* One of the messages that are sent at the same time. */
struct stream {
    ulsock_peer *peer;
    uint64_t number;
    ulsock_task *task;
};

static void send_numbers(void *argument)
{
    struct stream *stream = argument;
    ulsock_writer *message;

    MUST(ulsock_peer_begin(stream->peer, ADD, &message));
    MUST(ulsock_writer_piece(message, &stream->number, sizeof stream->number));
    for (uint64_t at = 0; at < NUMBERS; at++) {
        uint64_t number = at * (stream->number + 1);

        MUST(ulsock_writer_piece(message, &number, sizeof number));
        if (at % 100 == 0) {
            MUST(ulsock_writer_push(message));
            MUST(ulsock_yield());
        }
    }
    MUST(ulsock_writer_end(message, NULL, 0));
    REFUSED(ULSOCK_BAD_ARGUMENT, ulsock_writer_end(message, NULL, 0));
    ulsock_writer_free(message);
}

struct answers {
    int count;
    bool came[STREAMS];
};

static void answered(void *user, const ulsock_reader *message)
{
    struct answers *answers = user;
    uint64_t sum[2];

    MUST(ulsock_reader_read_exact(message, sum, sizeof sum));
    REFUSED(ULSOCK_TOO_SHORT, ulsock_reader_read_exact(message, sum + 1, 1));
    CHECK(sum[0] < STREAMS && !answers->came[sum[0]]);
    CHECK(sum[1] == (sum[0] + 1) * NUMBERS * (NUMBERS - 1) / 2);
    answers->came[sum[0]] = true;
    answers->count += 1;
}

static void talk(void)
{
    struct answers answers = {0};
    struct stream streams[STREAMS];
    ulsock_address address;
    ulsock_endpoint *endpoint;
    ulsock_peer *peer;
    size_t taken;
    ulsock_status status;

    look_up("message-sums", &address);
    MUST(ulsock_endpoint_new(&endpoint));
    MUST(ulsock_endpoint_handle(endpoint, SUM, answered, &answers));
    REFUSED(ULSOCK_BAD_ARGUMENT, ulsock_endpoint_handle(endpoint, 0xff00, answered, NULL));
    MUST(ulsock_endpoint_connect(endpoint, address.text, &peer));
    for (uint64_t number = 0; number < STREAMS; number++) {
        streams[number] = (struct stream){.peer = peer, .number = number};
        MUST(ulsock_task_begin(send_numbers, &streams[number], &streams[number].task));
    }
    while (answers.count < STREAMS)
        MUST(ulsock_endpoint_extract(endpoint, SIZE_MAX, &taken));
    for (int number = 0; number < STREAMS; number++) {
        MUST(ulsock_task_join(streams[number].task));
        ulsock_task_free(streams[number].task);
    }
    REFUSED(ULSOCK_NOTHING, ulsock_endpoint_extract_now(endpoint, SIZE_MAX, &taken));
    CHECK(ulsock_wait_at_most(20) == -1);
    REFUSED(ULSOCK_NOTHING, ulsock_endpoint_extract(endpoint, SIZE_MAX, &taken));
    CHECK(ulsock_wait_at_most(-1) == 20);

    /* A number without a handler: told with one of the next messages to it. */
    do {
        status = ulsock_peer_send(peer, NOBODY, "?", 1);
        MUST(ulsock_sleep(1));
        ulsock_endpoint_extract_now(endpoint, SIZE_MAX, &taken);
    } while (status == ULSOCK_OK);
    REFUSED(ULSOCK_NO_HANDLER, status);

    MUST(ulsock_peer_close(peer));
    REFUSED(ULSOCK_PEER_GONE, ulsock_peer_gone(peer));
    ulsock_peer_free(peer);
    ulsock_endpoint_free(endpoint);
    printf("done\n");
}

int main(int argc, char **argv)
{
    if (argc == 3 && strcmp(argv[1], "server") == 0)
        serve(argv[2]);
    else if (argc == 2 && strcmp(argv[1], "client") == 0)
        talk();
    else
        fprintf(stderr, "usage: messages server ADDRESS | messages client\n");
    return argc < 2;
}
