/* What a program in C may do wrong with libulsock, and hears of instead of ending. */

#include "must.h"

#include <stdint.h>
#include <sys/socket.h>

enum { HELLO = 1 };

static ulsock_endpoint *server, *client;
static ulsock_writer *message;
static int arrivals, handled;

#define SOMETHING ((void *)1)

/* After a failure, of whatever kind, objects and memory are null, and so can be freed. */
static void failures_leave_nothing(void)
{
    ulsock_endpoint *endpoint = SOMETHING;
    ulsock_peer *peer = SOMETHING;
    ulsock_listener *listener = SOMETHING;
    ulsock_stream *stream = SOMETHING;
    ulsock_task *task = SOMETHING;
    ulsock_caller *caller = SOMETHING;
    ulsock_writer *request = SOMETHING;
    ulsock_reader *reply = SOMETHING;
    ulsock_room *room = SOMETHING;
    ulsock_view *view = SOMETHING;
    ulsock_group *group = SOMETHING;
    ulsock_wire *wire = SOMETHING;
    ulsock_import *import = SOMETHING;
    void *memory = SOMETHING;
    size_t len = 5;

    REFUSED(ULSOCK_BAD_ARGUMENT, ulsock_endpoint_bind(NULL, 0, &endpoint));
    REFUSED(ULSOCK_BAD_ARGUMENT, ulsock_endpoint_connect(NULL, "127.0.0.1:1", &peer));
    REFUSED(ULSOCK_BAD_ARGUMENT, ulsock_listener_bind("\xff", &listener));
    REFUSED(ULSOCK_BAD_ARGUMENT, ulsock_stream_connect(NULL, &stream));
    REFUSED(ULSOCK_BAD_ARGUMENT, ulsock_task_begin(NULL, NULL, &task));
    REFUSED(ULSOCK_BAD_ARGUMENT, ulsock_requests_connect(NULL, "127.0.0.1:1", &caller));
    REFUSED(ULSOCK_BAD_ARGUMENT, ulsock_caller_open(NULL, 1, 0, &request, &reply));
    REFUSED(ULSOCK_BAD_ARGUMENT, ulsock_stream_reserve(NULL, 1, &room));
    REFUSED(ULSOCK_BAD_ARGUMENT, ulsock_stream_view(NULL, &view, NULL));
    REFUSED(ULSOCK_BAD_ARGUMENT, ulsock_group_join(NULL, "group", NULL, 0, 0, &group));
    REFUSED(ULSOCK_BAD_ARGUMENT, ulsock_region_wire(NULL, 0, 1, false, &wire));
    REFUSED(ULSOCK_BAD_ARGUMENT, ulsock_import_open(NULL, &import));
    CHECK(!import);
    import = SOMETHING;
    REFUSED(ULSOCK_BAD_ARGUMENT, ulsock_import_open_within(NULL, 1, &import));
    CHECK(!endpoint && !peer && !listener && !stream && !task && !caller && !request && !reply);
    CHECK(!room && !view && !group && !wire && !import);
    REFUSED(ULSOCK_BAD_ARGUMENT, ulsock_caller_call(NULL, 1, NULL, 0, 0, &memory, &len));
    CHECK(!memory && len == 5);
    memory = SOMETHING;
    REFUSED(ULSOCK_BAD_ARGUMENT, ulsock_reader_read_rest(NULL, SIZE_MAX, &memory, &len));
    CHECK(!memory && len == 5);
}

static void not_to_begin(void *nothing)
{
    (void)nothing;
    CHECK(!"a task begins without a stack");
}

/* Sizes that nothing has. */
static void sizes(void)
{
    ulsock_listener *listener;
    ulsock_stream *near, *far;
    ulsock_address address;
    ulsock_room *room;
    ulsock_task *task;
    char byte = 0;

    MUST(ulsock_listener_bind("127.0.0.1:0", &listener));
    MUST(ulsock_listener_address(listener, &address));
    MUST(ulsock_stream_connect(address.text, &near));
    MUST(ulsock_listener_accept(listener, &far));
    REFUSED(ULSOCK_TOO_LONG, ulsock_stream_reserve(near, SIZE_MAX, &room));
    REFUSED(ULSOCK_TOO_LONG, ulsock_stream_reserve(near, (size_t)1 << 40, &room));
    CHECK(!room);
    REFUSED(ULSOCK_BAD_ARGUMENT, ulsock_stream_write(near, &byte, SIZE_MAX));
    REFUSED(ULSOCK_BAD_ARGUMENT, ulsock_stream_read(near, &byte, SIZE_MAX, NULL));
    /* None of them has kept the stream. */
    MUST(ulsock_stream_write(near, &byte, 1));
    MUST(ulsock_stream_read_exact(far, &byte, 1));
    ulsock_stream_free(near);
    ulsock_stream_free(far);
    ulsock_listener_free(listener);

    ulsock_stack_size(SIZE_MAX);
    ulsock_status status = ulsock_task_begin(not_to_begin, NULL, &task);
    CHECK(status == ULSOCK_OK || status == ULSOCK_NO_MEMORY);
    if (status == ULSOCK_OK)
        MUST(ulsock_task_cancel(task));
    ulsock_task_free(task);
    ulsock_stack_size(0);
}

/* Nothing can wait here, and what is refused has not begun. */
static void arrived(void *user, ulsock_peer *peer)
{
    (void)user;
    REFUSED(ULSOCK_CANNOT_WAIT, ulsock_writer_end(message, "hello", 5));
    ulsock_peer_free(peer);
    arrivals += 1;
}

/* What is lent is not the handler's to free. */
static void hello(void *user, const ulsock_reader *reader)
{
    char text[5];

    (void)user;
    ulsock_reader_free((ulsock_reader *)reader);
    MUST(ulsock_reader_read_exact(reader, text, sizeof text));
    CHECK(memcmp(text, "hello", 5) == 0);
    handled += 1;
}

static void messages(void)
{
    ulsock_address address;
    ulsock_peer *peer;

    MUST(ulsock_endpoint_bind("127.0.0.1:0", 0, &server));
    MUST(ulsock_endpoint_address(server, &address));
    MUST(ulsock_endpoint_on_arrival(server, arrived, NULL));
    MUST(ulsock_endpoint_handle(server, HELLO, hello, NULL));
    MUST(ulsock_endpoint_new(&client));
    MUST(ulsock_endpoint_connect(client, address.text, &peer));
    MUST(ulsock_peer_begin(peer, HELLO, &message));
    while (arrivals == 0)
        MUST(ulsock_endpoint_extract(server, SIZE_MAX, NULL));
    MUST(ulsock_writer_end(message, "hello", 5));
    while (handled == 0)
        MUST(ulsock_endpoint_extract(server, SIZE_MAX, NULL));
    ulsock_writer_free(message);
    ulsock_peer_free(peer);
    ulsock_endpoint_free(client);
    ulsock_endpoint_free(server);
}

static ulsock_key mute_key;

static void open_a_mute_one(void *nothing)
{
    ulsock_import *import = SOMETHING;

    (void)nothing;
    REFUSED(ULSOCK_NOTHING, ulsock_import_open_within(&mute_key, 100, &import));
    CHECK(!import);
    CHECK(ulsock_wait_at_most(100) == -1);
    REFUSED(ULSOCK_NOTHING, ulsock_import_open(&mute_key, &import));
    CHECK(!import && ulsock_wait_at_most(-1) == 100);
}

/* An exporter that never answers, and regions that nobody can have. */
static void regions(void)
{
    ulsock_exporter *exporter;
    ulsock_wire_events *events;
    ulsock_region *region = SOMETHING;
    ulsock_import *import;
    ulsock_listener *mute;
    ulsock_address address;
    ulsock_task *task;

    MUST(ulsock_wire_events_new(&events));
    MUST(ulsock_exporter_bind("127.0.0.1:0", &exporter));
    REFUSED(ULSOCK_BAD_SIZE, ulsock_exporter_export(exporter, 0, events, &region));
    REFUSED(ULSOCK_BAD_SIZE, ulsock_exporter_export(exporter, SIZE_MAX, events, &region));
    REFUSED(ULSOCK_NO_MEMORY, ulsock_exporter_export(exporter, (size_t)1 << 46, events, &region));
    CHECK(!region);
    MUST(ulsock_exporter_export(exporter, 5000, events, &region));
    MUST(ulsock_region_key(region, &mute_key));
    MUST(ulsock_import_open_within(&mute_key, 10000, &import));
    CHECK(ulsock_import_size(import) == 5000);
    ulsock_import_free(import);

    MUST(ulsock_listener_bind("127.0.0.1:0", &mute));
    MUST(ulsock_listener_address(mute, &address));
    MUST(ulsock_key_set_address(&mute_key, address.text));
    open_a_mute_one(NULL);
    MUST(ulsock_task_begin(open_a_mute_one, NULL, &task));
    MUST(ulsock_task_join(task));
    ulsock_task_free(task);
    ulsock_listener_free(mute);
    ulsock_region_free(region);
    ulsock_exporter_free(exporter);
    ulsock_wire_events_free(events);
}

int main(void)
{
    failures_leave_nothing();
    sizes();
    regions();
    messages();
    printf("done\n");
    return 0;
}
