/* Remote memory: an exporter that waits for writes into two ranges of its memory, and an importer that writes there. The key goes
 * by a request.
 *
 *     memory exporter ADDRESS
 *     memory importer
 */

#include "must.h"

#include <poll.h>

enum { KEY = 1, SIZE = 1 << 20, ROUNDS = 2000 };

static void tell_key(void *user, const ulsock_reader *request, const ulsock_writer *reply)
{
    (void)request;
    MUST(ulsock_writer_end(reply, user, sizeof(ulsock_key)));
}

static void serve(void *argument)
{
    REFUSED(ULSOCK_CANCELLED, ulsock_endpoint_serve(argument));
}

/* The next wire that has fired, by the descriptor, as a loop of the program's own would wait. */
static uint64_t next_by_fd(ulsock_wire_events *events)
{
    uint64_t wire;
    struct pollfd fd = {.fd = ulsock_wire_events_fd(events), .events = POLLIN};

    while (ulsock_wire_events_next(events, 0, &wire) == ULSOCK_NOTHING)
        CHECK(poll(&fd, 1, 20000) == 1);
    return wire;
}

static void receive(ulsock_region *region, ulsock_wire_events *events)
{
    ulsock_wire *head, *tail, *none;
    uint64_t wire, round = 0, seen, word;
    unsigned char bytes[1000];

    MUST(ulsock_region_wire(region, 0, 8, false, &head));
    MUST(ulsock_region_wire(region, SIZE - 8, 8, true, &tail));
    REFUSED(ULSOCK_OUT_OF_RANGE, ulsock_region_wire(region, SIZE - 8, 9, true, &none));
    CHECK(none == NULL);
    while (round < ROUNDS) {
        MUST(ulsock_wire_events_next(events, 20000, &wire));
        CHECK(wire == ulsock_wire_number(head));
        MUST(ulsock_region_load(region, 0, &seen));
        CHECK(seen >= round && seen <= ROUNDS);
        round = seen;
        /* What was written before the word is there. */
        MUST(ulsock_region_read(region, 4096, bytes, sizeof bytes));
        for (size_t at = 1; at < sizeof bytes; at++)
            CHECK(round == 0 || round < ROUNDS || bytes[at] == bytes[0]);
    }
    MUST(ulsock_region_store(region, 8, 1));
    CHECK(next_by_fd(events) == ulsock_wire_number(tail));
    MUST(ulsock_region_load(region, SIZE - 8, &word));
    CHECK(word == 7);
    REFUSED(ULSOCK_OUT_OF_RANGE, ulsock_region_load(region, 4, &word));
    ulsock_wire_free(head);
    ulsock_wire_free(tail);
}

/* Exporter and endpoint listen at all addresses, if they are to be reached from other hosts. */
static void export_to(const char *at, const char *own_address)
{
    ulsock_exporter *exporter;
    ulsock_wire_events *events;
    ulsock_region *region;
    ulsock_endpoint *endpoint;
    ulsock_requests *requests;
    ulsock_address address;
    ulsock_key key;
    ulsock_task *task;

    MUST(ulsock_exporter_bind(at, &exporter));
    MUST(ulsock_wire_events_new(&events));
    MUST(ulsock_exporter_export(exporter, SIZE, events, &region));
    MUST(ulsock_region_key(region, &key));
    if (own_address != NULL) {
        char reached[ULSOCK_ADDRESS + 32];

        MUST(ulsock_exporter_address(exporter, &address));
        snprintf(reached, sizeof reached, "%s%s", own_address, strrchr(address.text, ':'));
        MUST(ulsock_key_set_address(&key, reached));
    }

    MUST(ulsock_endpoint_bind(at, 0, &endpoint));
    MUST(ulsock_requests_new(endpoint, 0, 0, &requests));
    MUST(ulsock_requests_handle(requests, KEY, tell_key, &key));
    MUST(ulsock_task_begin(serve, endpoint, &task));
    MUST(ulsock_endpoint_address(endpoint, &address));
    announce("memory", address.text);
    receive(region, events);

    MUST(ulsock_task_cancel(task));
    MUST(ulsock_task_join(task));
    ulsock_task_free(task);
    ulsock_requests_free(requests);
    ulsock_endpoint_free(endpoint);
    ulsock_region_free(region);
    ulsock_exporter_free(exporter);
    ulsock_wire_events_free(events);
    printf("done\n");
}

static void fetch_key(ulsock_key *key)
{
    ulsock_address address;
    ulsock_endpoint *endpoint;
    ulsock_requests *requests;
    ulsock_caller *caller;
    void *reply;
    size_t len;

    look_up("memory", &address);
    MUST(ulsock_endpoint_new(&endpoint));
    MUST(ulsock_requests_new(endpoint, 0, 0, &requests));
    MUST(ulsock_requests_connect(requests, address.text, &caller));
    MUST(ulsock_caller_call(caller, KEY, NULL, 0, 10000, &reply, &len));
    CHECK(len == sizeof *key);
    memcpy(key, reply, len);
    free(reply);
    ulsock_caller_free(caller);
    ulsock_requests_free(requests);
    ulsock_endpoint_free(endpoint);
}

static void import(void)
{
    ulsock_import *import;
    ulsock_key key, wrong;
    unsigned char bytes[1000];
    uint64_t word = 7;

    fetch_key(&key);
    wrong = key;
    wrong.bytes[ULSOCK_KEY - 1] ^= 1;
    REFUSED(ULSOCK_WRONG_KEY, ulsock_import_open(&wrong, &import));
    MUST(ulsock_import_open(&key, &import));
    CHECK(ulsock_import_size(import) == SIZE);
    printf("shared %d\n", ulsock_import_is_shared(import));
    for (uint64_t round = 1; round <= ROUNDS; round++) {
        memset(bytes, (int)round, sizeof bytes);
        MUST(ulsock_import_write(import, 4096, bytes, sizeof bytes));
        MUST(ulsock_import_write(import, 0, &round, sizeof round));
    }
    MUST(ulsock_import_flush(import));
    REFUSED(ULSOCK_OUT_OF_RANGE, ulsock_import_write(import, SIZE - 7, &word, 8));
    MUST(ulsock_import_write(import, SIZE - 8, &word, sizeof word));
    /* The exporter ends when it has seen that. */
    while (ulsock_import_check(import) == ULSOCK_OK)
        MUST(ulsock_sleep(1));
    ulsock_import_free(import);
    printf("done\n");
}

int main(int argc, char **argv)
{
    if (argc >= 3 && strcmp(argv[1], "exporter") == 0)
        export_to(argv[2], argc > 3 ? argv[3] : NULL);
    else if (argc == 2 && strcmp(argv[1], "importer") == 0)
        import();
    else
        fprintf(stderr, "usage: memory exporter ADDRESS [HOST] | memory importer\n");
    return argc < 2;
}
