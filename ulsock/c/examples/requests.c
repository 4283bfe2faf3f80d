/* Requests: a server with services that add, fail, take too long, or answer a stream with a stream.
 *
 *     requests server 127.0.0.1:0
 *     requests client
 */

#include "must.h"

#include <ctype.h>

enum { ADD = 1, UPPER = 2, SLOW = 3, CANCELLED = 4, NOBODY = 5 };

static int cancelled;

static void add(void *user, const ulsock_reader *request, const ulsock_writer *reply)
{
    int64_t numbers[2], sum;

    (void)user;
    if (ulsock_reader_read_exact(request, numbers, sizeof numbers) != ULSOCK_OK) {
        MUST(ulsock_writer_fail(reply, 22, "two numbers were expected"));
        return;
    }
    if (__builtin_add_overflow(numbers[0], numbers[1], &sum))
        MUST(ulsock_writer_fail(reply, 34, "the sum is too large"));
    else
        MUST(ulsock_writer_end(reply, &sum, sizeof sum));
}

static void upper(void *user, const ulsock_reader *request, const ulsock_writer *reply)
{
    char room[100];
    size_t n;

    (void)user;
    while (ulsock_reader_read(request, room, sizeof room, &n) == ULSOCK_OK && n > 0) {
        for (size_t at = 0; at < n; at++)
            room[at] = (char)toupper((unsigned char)room[at]);
        if (ulsock_writer_piece(reply, room, n) != ULSOCK_OK || ulsock_writer_push(reply) != ULSOCK_OK)
            return;
    }
    ulsock_writer_end(reply, NULL, 0);
}

static void slow(void *user, const ulsock_reader *request, const ulsock_writer *reply)
{
    uint64_t left;

    (void)user;
    MUST(ulsock_reader_time_left(request, &left));
    CHECK(left <= 50);
    /* Nobody waits for it any more. */
    REFUSED(ULSOCK_CANCELLED, ulsock_sleep(10000));
    REFUSED(ULSOCK_CANCELLED, ulsock_writer_end(reply, NULL, 0));
    cancelled += 1;
}

static void tell_cancelled(void *user, const ulsock_reader *request, const ulsock_writer *reply)
{
    (void)user, (void)request;
    MUST(ulsock_writer_end(reply, &cancelled, sizeof cancelled));
}

static void serve(const char *at)
{
    ulsock_endpoint *endpoint;
    ulsock_requests *requests;
    ulsock_address address;

    MUST(ulsock_endpoint_bind(at, 0, &endpoint));
    MUST(ulsock_requests_new(endpoint, 0, 0, &requests));
    MUST(ulsock_requests_handle(requests, ADD, add, NULL));
    MUST(ulsock_requests_handle(requests, UPPER, upper, NULL));
    MUST(ulsock_requests_handle(requests, SLOW, slow, NULL));
    MUST(ulsock_requests_handle(requests, CANCELLED, tell_cancelled, NULL));
    MUST(ulsock_endpoint_address(endpoint, &address));
    announce("request-sums", address.text);
    MUST(ulsock_endpoint_serve(endpoint));
}

static void call_add(const ulsock_caller *caller)
{
    void *reply;
    size_t len;

    for (int64_t round = 0; round < 2000; round++) {
        int64_t numbers[2] = {round, -2 * round}, sum;

        MUST(ulsock_caller_call(caller, ADD, numbers, sizeof numbers, 10000, &reply, &len));
        CHECK(len == sizeof sum);
        memcpy(&sum, reply, len);
        CHECK(sum == -round);
        free(reply);
    }
    int64_t large[2] = {INT64_MAX, 1};
    REFUSED(ULSOCK_FAILED, ulsock_caller_call(caller, ADD, large, sizeof large, 0, &reply, &len));
    CHECK(ulsock_error_number() == 34 && strstr(ulsock_error_text(), "too large"));
    REFUSED(ULSOCK_FAILED, ulsock_caller_call(caller, ADD, large, 9, 0, &reply, &len));
    CHECK(ulsock_error_number() == 22);
    REFUSED(ULSOCK_NO_SERVICE, ulsock_caller_call(caller, NOBODY, NULL, 0, 0, &reply, &len));
}

static void call_upper(const ulsock_caller *caller)
{
    ulsock_writer *request;
    ulsock_reader *reply;
    char word[16], back[16];
    size_t n;

    MUST(ulsock_caller_open(caller, UPPER, 0, &request, &reply));
    for (int round = 0; round < 500; round++) {
        size_t len = (size_t)snprintf(word, sizeof word, "word %d", round);

        MUST(ulsock_writer_piece(request, word, len));
        MUST(ulsock_writer_push(request));
        MUST(ulsock_reader_read_exact(reply, back, len));
        for (size_t at = 0; at < len; at++)
            CHECK(back[at] == toupper((unsigned char)word[at]));
    }
    MUST(ulsock_writer_end(request, "the end", 7));
    MUST(ulsock_reader_read_up_to(reply, back, sizeof back, &n));
    CHECK(n == 7 && memcmp(back, "THE END", 7) == 0);
    ulsock_writer_free(request);
    ulsock_reader_free(reply);
}

static void talk(void)
{
    ulsock_endpoint *endpoint;
    ulsock_requests *requests;
    ulsock_address address;
    ulsock_caller *caller;
    void *reply;
    int count;

    look_up("request-sums", &address);
    MUST(ulsock_endpoint_new(&endpoint));
    MUST(ulsock_requests_new(endpoint, 0, 0, &requests));
    MUST(ulsock_requests_connect(requests, address.text, &caller));
    call_add(caller);
    call_upper(caller);
    REFUSED(ULSOCK_DEADLINE_EXCEEDED, ulsock_caller_call(caller, SLOW, "", 0, 50, &reply, NULL));
    do {
        MUST(ulsock_caller_call(caller, CANCELLED, NULL, 0, 0, &reply, NULL));
        memcpy(&count, reply, sizeof count);
        free(reply);
    } while (count == 0);
    ulsock_caller_free(caller);
    ulsock_requests_free(requests);
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
        fprintf(stderr, "usage: requests server ADDRESS | requests client\n");
    return argc < 2;
}
