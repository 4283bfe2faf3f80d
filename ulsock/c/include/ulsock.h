/* ulsock for programs in C: streams, messages, requests, names, groups and remote memory.
 *
 * This file is made from the Rust crate ulsock_c: change that, and make it again. docs/native.md has a chapter on it.
 *
 * Every call returns a status: ULSOCK_OK, or why nothing was done, which ulsock_error_text() has in words. What a call gives is put
 * where its last arguments point. A result that is not wanted is null there; an object has to be taken. On a failure objects
 * and memory are null, and other results are not written.
 *
 * Objects are given back to the function of their name that ends with _free; null is allowed there. The program sees to
 * it that no call is at work with an object that it frees. Texts end with a zero; addresses are texts, as 192.0.2.1:80 or
 * [2001:db8::1]:80.
 *
 * Tasks and handlers have stacks of their own. A call that has to wait lets the others of its thread run meanwhile; one outside of
 * tasks does, too. They run only while a call of their thread waits. Endpoints, and all that belongs to them, are used in the
 * thread that has made them; everything else is for any thread, where nothing else is said. Functions that are given to the
 * library end by returning: not by longjmp(), by pthread_exit() or by an exception.
 */


#ifndef ULSOCK_H
#define ULSOCK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Bytes of an address as text, with the zero at its end. */
#define ULSOCK_ADDRESS 64

/* Bytes of a key. */
#define ULSOCK_KEY 38

/* How a call went. What has failed is told in words by ulsock_error_text(). */
typedef enum {
    ULSOCK_OK = 0,
    /* Nothing has come within the time, or without waiting; or there is no room. */
    ULSOCK_NOTHING = 1,
    /* A null pointer, a text that is not UTF-8, an address or a number that makes no sense. */
    ULSOCK_BAD_ARGUMENT = 2,
    /* The object belongs to another thread. */
    ULSOCK_WRONG_THREAD = 3,
    /* Another call, of another task or thread, is at work with the object. */
    ULSOCK_BUSY = 4,
    /* A call that may have to wait was made where nothing can: see ulsock_endpoint_on_arrival(). */
    ULSOCK_CANNOT_WAIT = 5,
    /* The task, or the handler, is to end: whoever it worked for has gone. All further calls that wait return this, too. */
    ULSOCK_CANCELLED = 6,
    /* The object was made by the parent of this process. */
    ULSOCK_FORKED = 7,
    /* There is no memory for it. */
    ULSOCK_NO_MEMORY = 8,
    /* The system has refused it: see ulsock_error_number(). */
    ULSOCK_SYSTEM = 9,
    /* The stream has ended before all bytes had come. */
    ULSOCK_END_OF_STREAM = 20,
    /* Bytes that do not lie in the room, the view or the region; or a word that is not aligned. */
    ULSOCK_OUT_OF_RANGE = 21,
    /* Another process, which shares the connection since a fork, has sent since the room was reserved. */
    ULSOCK_OVERTAKEN = 22,
    /* The other end has closed the connection, or has died. */
    ULSOCK_PEER_GONE = 40,
    /* The other end has said what no program of ulsock's says. */
    ULSOCK_NONSENSE = 41,
    /* The other end has no handler of this number. Told once. */
    ULSOCK_NO_HANDLER = 42,
    /* The sender has dropped the message before its end. */
    ULSOCK_ABORTED = 43,
    /* The message has ended before all bytes had come. */
    ULSOCK_TOO_SHORT = 44,
    /* More bytes than there can be. */
    ULSOCK_TOO_LONG = 45,
    /* Messages of this endpoint are being extracted already. */
    ULSOCK_EXTRACTING = 46,
    /* As many as there can be. */
    ULSOCK_TOO_MANY = 47,
    /* The time that the call had is over. The request may have been handled. */
    ULSOCK_DEADLINE_EXCEEDED = 60,
    /* The other end has no such service. */
    ULSOCK_NO_SERVICE = 61,
    /* The handler says that it has failed: see ulsock_error_number() for its code. */
    ULSOCK_FAILED = 62,
    /* The handler could not be given the request. */
    ULSOCK_BAD_REQUEST = 63,
    /* The handler has ended before the end of its reply. */
    ULSOCK_NO_REPLY = 64,
    /* The reply cannot be used: it is longer than bodies can be. */
    ULSOCK_BAD_REPLY = 65,
    /* A service has letters, digits, -, _ and ., and begins with a letter or a digit. */
    ULSOCK_BAD_NAME = 80,
    /* The address has no port. */
    ULSOCK_NO_PORT = 81,
    /* A living process of this user has the name: see ulsock_error_number() for its pid. */
    ULSOCK_TAKEN = 82,
    /* Nobody has the name. */
    ULSOCK_NOT_FOUND = 83,
    /* An environment variable, or the run directory, is wrong. */
    ULSOCK_CONFIGURATION = 84,
    /* No descriptors, or no inotify instances, are left. */
    ULSOCK_NO_DESCRIPTORS = 85,
    /* The buffer is too small for the next message: see ulsock_error_number() for its length. It stays the next. */
    ULSOCK_NO_ROOM = 100,
    /* A ring has a power of two of bytes, 4 KiB to 256 MiB. */
    ULSOCK_BAD_RING = 101,
    /* The group has ended for this member. */
    ULSOCK_ENDED = 102,
    /* A region cannot have this size. */
    ULSOCK_BAD_SIZE = 120,
    /* These bytes are no key of a region. */
    ULSOCK_BAD_KEY = 121,
    /* The exporter has no region with this key. */
    ULSOCK_WRONG_KEY = 122,
    /* The exporter has dropped the region. */
    ULSOCK_REVOKED = 123,
    /* At the address of the key is no exporter. */
    ULSOCK_NO_EXPORTER = 124,
} ulsock;

/* What a member receives, in order for each other member. */
typedef enum {
    /* A message is in the room, so many bytes of it. */
    ULSOCK_EVENT_MESSAGE,
    /* From now on its messages come, and it gets what is sent here. */
    ULSOCK_EVENT_JOINED,
    /* It has said that it leaves. All its messages have come before. */
    ULSOCK_EVENT_LEFT,
    /* It was killed, or the way to it was lost, or it has been put out. Perhaps it had sent more. */
    ULSOCK_EVENT_FAILED,
} ulsock_event;

/* A peer whose services can be called. */
typedef struct ulsock_caller ulsock_caller;

/* Where messages are sent from, and received. It belongs to the thread that has made it. */
typedef struct ulsock_endpoint ulsock_endpoint;

/* Exports regions at an address. Any thread may use it. */
typedef struct ulsock_exporter ulsock_exporter;

/* A membership in a group. One thread may send while another one receives. */
typedef struct ulsock_group ulsock_group;

/* Memory of an exporter, to be written. Any thread may do so. */
typedef struct ulsock_import ulsock_import;

/* Accepts connections. */
typedef struct ulsock_listener ulsock_listener;

/* Hears of names. Any thread may use it, one at a time. */
typedef struct ulsock_name_events ulsock_name_events;

/* The names that this process can see. Any thread may use them. */
typedef struct ulsock_names ulsock_names;

/* Another endpoint, to which messages can be sent. Freeing it does not end the connection. */
typedef struct ulsock_peer ulsock_peer;

/* A message, a request or a reply, as it comes: it is read in pieces of any size, whatever the sender's were. */
typedef struct ulsock_reader ulsock_reader;

/* Bytes that have come, where they are. */
typedef struct ulsock_view ulsock_view;

/* Memory that others can write who have its key. Any thread may use it. */
typedef struct ulsock_region ulsock_region;

/* A name of this process. It is withdrawn when this is freed, and when the process ends, however it does. */
typedef struct ulsock_registration ulsock_registration;

/* The requests of an endpoint, in both directions. */
typedef struct ulsock_requests ulsock_requests;

/* Room for bytes that are to be sent. */
typedef struct ulsock_room ulsock_room;

/* A connection. */
typedef struct ulsock_stream ulsock_stream;

/* A function that runs beside others in the thread that has begun it, on a stack of its own. */
typedef struct ulsock_task ulsock_task;

/* A wire on a range of a region. */
typedef struct ulsock_wire ulsock_wire;

/* A set of tripwires: those of all regions that were exported with it. Any thread may use it, one at a time. */
typedef struct ulsock_wire_events ulsock_wire_events;

/* A message, a request or a reply that is being sent. Others can be under way to the same peer meanwhile. */
typedef struct ulsock_writer ulsock_writer;

/* The result of a call. */
typedef ulsock ulsock_status;

/* An address as text: `192.0.2.1:80`, `[2001:db8::1]:80`. */
typedef struct {
    char text[ULSOCK_ADDRESS];
} ulsock_address;

/* Where somebody can be reached who has registered a name. */
typedef struct {
    ulsock_address address;
    uint32_t instance;
    /* The user that has registered it. */
    uint32_t uid;
    /* As the process sees itself, in its own pid namespace. */
    uint32_t pid;
    /* The address of the daemon of its host; an empty text: on this host. */
    ulsock_address host;
} ulsock_place;

/* What has happened to a name. */
typedef struct {
    /* It has appeared; else it has disappeared. */
    bool appeared;
    ulsock_place place;
} ulsock_name_event;

/* A member of a group. Who leaves and joins again is another member. */
typedef struct {
    /* By chance; tells it from all others of the group. */
    uint32_t number;
    /* As the process sees itself, in its own pid namespace. */
    uint32_t pid;
    /* The address of the daemon of its host; an empty text: on this host. */
    ulsock_address host;
} ulsock_member;

typedef struct {
    ulsock_event kind;
    /* Of a message. */
    size_t len;
    ulsock_member member;
} ulsock_group_event;

/* What an importer has to know of a region. It is a secret: a program gives it to whom it trusts with the region. */
typedef struct {
    uint8_t bytes[ULSOCK_KEY];
} ulsock_key;

#ifdef __cplusplus
extern "C" {
#endif // __cplusplus

/* What went wrong in the last call of this thread that has failed, in words. Valid until the next one fails. */
const char *ulsock_error_text(void);

/* The number that belongs to it: errno of ULSOCK_SYSTEM, the code of ULSOCK_FAILED, the pid of ULSOCK_TAKEN, the length of
 * ULSOCK_NO_ROOM; else 0. */
int64_t ulsock_error_number(void);

/* From now on every call of this task, or of this thread outside of tasks, that has waited for so many milliseconds gives up:
 * ULSOCK_NOTHING (negative: never; so it is at first). One that gives up in the middle may have sent or received a part: a stream or a
 * message that it was sending is not to be used any more. Calls that are given a time of their own keep to that. Returns what held
 * before. */
int64_t ulsock_wait_at_most(int64_t milliseconds);

/* Bytes of address space for the stack of each task and handler that begins from now on: 256 KiB, if nothing is said; at
 * least 16 KiB, at most 8 GiB. Below each is a page that cannot be touched. */
void ulsock_stack_size(size_t bytes);

/* Begins a task: `function(argument)` runs beside this in this thread, whenever somebody of the thread waits in a call of this
 * library. It may wait, too. `task` is null if nobody will ask for it. A thread that ends cancels its tasks then, and so does the
 * first thread when it returns from main() or calls exit() outside of tasks.
 *
 * ULSOCK_NO_MEMORY: there is no address space for its stack. ULSOCK_TOO_MANY: the thread has 8,192 tasks and handlers already. */
ulsock_status ulsock_task_begin(void (*function)(void *argument),
                                void *argument,
                                ulsock_task **task);

/* Waits until the task has ended. A task cannot wait for its own end: ULSOCK_BAD_ARGUMENT. */
ulsock_status ulsock_task_join(const ulsock_task *task);

/* Tells the task to end: the call in which it waits, and all further ones that would have to wait, return ULSOCK_CANCELLED.
 * It has ended when ulsock_task_join() returns. The function of one that has not begun is never called. */
ulsock_status ulsock_task_cancel(const ulsock_task *task);

/* The task goes on. */
void ulsock_task_free(ulsock_task *task);

/* Lets all tasks of this thread run that have something to do. */
ulsock_status ulsock_yield(void);

/* Waits for so long; other tasks of this thread run meanwhile. */
ulsock_status ulsock_sleep(uint32_t milliseconds);

/* Listens at an address, `192.0.2.1:80`, `[::]:0` or `name:80`. */
ulsock_status ulsock_listener_bind(const char *at, ulsock_listener **listener);

/* Where it listens. */
ulsock_status ulsock_listener_address(const ulsock_listener *listener, ulsock_address *address);

/* Waits for the next connection. */
ulsock_status ulsock_listener_accept(const ulsock_listener *listener, ulsock_stream **stream);

void ulsock_listener_free(ulsock_listener *listener);

/* Connects to an address; of a name, to the first of its addresses that answers. */
ulsock_status ulsock_stream_connect(const char *to, ulsock_stream **stream);

/* Reads some bytes, as soon as there are any; `n` is 0 at the end of the stream. */
ulsock_status ulsock_stream_read(const ulsock_stream *stream, void *room, size_t len, size_t *n);

/* Fills the room: ULSOCK_END_OF_STREAM if the stream ends before. */
ulsock_status ulsock_stream_read_exact(const ulsock_stream *stream, void *room, size_t len);

/* Looks at some bytes, as soon as there are any, which stay the next. */
ulsock_status ulsock_stream_peek(const ulsock_stream *stream, void *room, size_t len, size_t *n);

/* Writes all of the bytes. */
ulsock_status ulsock_stream_write(const ulsock_stream *stream, const void *bytes, size_t len);

/* Ends one direction or both: `how` is SHUT_RD, SHUT_WR or SHUT_RDWR. */
ulsock_status ulsock_stream_shutdown(const ulsock_stream *stream, int how);

/* Whether small pieces are sent at once on kernel TCP. */
ulsock_status ulsock_stream_set_nodelay(const ulsock_stream *stream, bool yes);

ulsock_status ulsock_stream_local_address(const ulsock_stream *stream, ulsock_address *address);

ulsock_status ulsock_stream_peer_address(const ulsock_stream *stream, ulsock_address *address);

/* Closes the connection. No call may be at work with it. */
void ulsock_stream_free(ulsock_stream *stream);

/* Room for `len` bytes, at most 256 MiB (ULSOCK_TOO_LONG), in the ring itself if it has so much. Until it is committed or freed,
 * no other call can use the stream (ULSOCK_BUSY), and the stream may not be freed. It belongs to this thread. */
ulsock_status ulsock_stream_reserve(const ulsock_stream *stream,
                                    size_t len,
                                    ulsock_room **room);

/* Whether it is in the ring, and not in a buffer of the stream's own. */
bool ulsock_room_is_in_ring(const ulsock_room *room);

/* Puts bytes into the room. */
ulsock_status ulsock_room_write_at(const ulsock_room *room, size_t at, const void *bytes, size_t len);

/* Sends the first `n` bytes, and frees nothing: the room is freed by ulsock_room_free(), also if this has failed. */
ulsock_status ulsock_room_commit(const ulsock_room *room,
                                 size_t n);

/* What was not committed is not sent. */
void ulsock_room_free(ulsock_room *room);

/* What has come, where it is, as soon as there is something; `len` is 0 at the end of the stream. Until it is consumed or
 * freed, no other call can use the stream (ULSOCK_BUSY), and the stream may not be freed. It belongs to this thread. */
ulsock_status ulsock_stream_view(const ulsock_stream *stream,
                                 ulsock_view **view,
                                 size_t *len);

/* Copies bytes out of the view. The other end may still change them there: only what was copied out can be relied on. */
ulsock_status ulsock_view_read_at(const ulsock_view *view,
                                  size_t at,
                                  void *room,
                                  size_t len);

/* Takes the first `n` bytes off the stream. */
ulsock_status ulsock_view_consume(const ulsock_view *view, size_t n);

/* What was not consumed stays the next. */
void ulsock_view_free(ulsock_view *view);

/* Adds these bytes. Waits while the peer has not taken enough of what was sent before. */
ulsock_status ulsock_writer_piece(const ulsock_writer *writer, const void *bytes, size_t len);

/* Sends the pieces so far: small ones would else wait for more of them. */
ulsock_status ulsock_writer_push(const ulsock_writer *writer);

/* Adds these bytes, perhaps none, and ends it. It is still to be freed, unless it was lent to a handler. */
ulsock_status ulsock_writer_end(const ulsock_writer *writer, const void *bytes, size_t len);

/* Of a reply: there is none, because the handler has failed. The caller gets ULSOCK_FAILED with this code and at most 1024
 * bytes of this text, when the handler returns. */
ulsock_status ulsock_writer_fail(const ulsock_writer *writer,
                                 uint32_t code,
                                 const char *text);

/* One that was not ended is aborted: its reader hears of that, if it was begun. This does nothing with what is lent to a
 * handler, which ends when the handler returns. */
void ulsock_writer_free(ulsock_writer *writer);

/* Sends a message of one piece. Waits while the peer has not taken enough of what was sent before. */
ulsock_status ulsock_peer_send(const ulsock_peer *peer, uint16_t number, const void *bytes, size_t len);

/* Begins a message of any number of pieces. */
ulsock_status ulsock_peer_begin(const ulsock_peer *peer, uint16_t number, ulsock_writer **message);

/* Its address; of one that has connected to this endpoint, that of its connection. */
ulsock_status ulsock_peer_address(const ulsock_peer *peer, ulsock_address *address);

/* Waits until the peer is gone, and tells why: ULSOCK_PEER_GONE, or what else has ended it. */
ulsock_status ulsock_peer_gone(const ulsock_peer *peer);

bool ulsock_peer_is_gone(const ulsock_peer *peer);

/* Whether two are the same: a peer can be held more than once. */
bool ulsock_peer_is_same(const ulsock_peer *one, const ulsock_peer *other);

/* Ends the connection, after all that was sent. What has not been extracted of the peer's messages is lost. */
ulsock_status ulsock_peer_close(const ulsock_peer *peer);

void ulsock_peer_free(ulsock_peer *peer);

/* Reads some bytes, as soon as there are any; `n` is 0 at the end. */
ulsock_status ulsock_reader_read(const ulsock_reader *reader, void *room, size_t len, size_t *n);

/* Reads until the room is full or nothing is left. */
ulsock_status ulsock_reader_read_up_to(const ulsock_reader *reader, void *room, size_t len, size_t *n);

/* Fills the room: ULSOCK_TOO_SHORT if there is not as much. */
ulsock_status ulsock_reader_read_exact(const ulsock_reader *reader, void *room, size_t len);

/* Reads all that is left, if it is not more than `most` bytes (ULSOCK_TOO_LONG), into memory that the program gives to free(). */
ulsock_status ulsock_reader_read_rest(const ulsock_reader *reader,
                                      size_t most,
                                      void **bytes,
                                      size_t *len);

/* Who sends it. The peer is the program's, who frees it. */
ulsock_status ulsock_reader_peer(const ulsock_reader *reader, ulsock_peer **peer);

/* Of a request: after so many milliseconds its caller stops waiting, and the handler is cancelled. ULSOCK_NOTHING: never. */
ulsock_status ulsock_reader_time_left(const ulsock_reader *reader,
                                      uint64_t *milliseconds);

/* What was not read is skipped; a reply that was not read to its end is cancelled. This does nothing with what is lent to a
 * handler, which ends when the handler returns. */
void ulsock_reader_free(ulsock_reader *reader);

/* An endpoint that can only connect. */
ulsock_status ulsock_endpoint_new(ulsock_endpoint **endpoint);

/* An endpoint that others can connect to. `window` is what each peer may have sent that no handler has taken yet; 0: 256 KiB. */
ulsock_status ulsock_endpoint_bind(const char *at,
                                   size_t window,
                                   ulsock_endpoint **endpoint);

/* Where others can connect to; an empty text for one that can only connect. */
ulsock_status ulsock_endpoint_address(const ulsock_endpoint *endpoint, ulsock_address *address);

/* From now on messages of this number, below 0xff00, are handled so. A handler begins when the first bytes of its message have
 * come, has a stack of its own, and may wait: others run meanwhile. It runs while somebody extracts. The message is lent to it: it
 * reads as much as it likes, and what it has not read when it returns is skipped. */
ulsock_status ulsock_endpoint_handle(const ulsock_endpoint *endpoint,
                                     uint16_t number,
                                     void (*handler)(void *user, const ulsock_reader *message),
                                     void *user);

/* From now on this is called with each peer that has connected to this endpoint, before its first message is handled. The peer
 * is the program's, who frees it. In the call nothing can wait (ULSOCK_CANNOT_WAIT): it may begin tasks. */
ulsock_status ulsock_endpoint_on_arrival(const ulsock_endpoint *endpoint,
                                         void (*function)(void *user, ulsock_peer *peer),
                                         void *user);

/* Connects to another endpoint. */
ulsock_status ulsock_endpoint_connect(const ulsock_endpoint *endpoint, const char *to, ulsock_peer **peer);

/* Hands at most `most` bytes of what has come to handlers, and tells how many they have taken; waits until there is something.
 * An endpoint that does not extract holds its senders back. */
ulsock_status ulsock_endpoint_extract(const ulsock_endpoint *endpoint,
                                      size_t most,
                                      size_t *taken);

/* The same without waiting: ULSOCK_NOTHING if nothing has come. */
ulsock_status ulsock_endpoint_extract_now(const ulsock_endpoint *endpoint, size_t most, size_t *taken);

/* Extracts until its task is cancelled, or something fails. */
ulsock_status ulsock_endpoint_serve(const ulsock_endpoint *endpoint);

/* Closes the endpoint and all its connections; its handlers are cancelled. If it has requests: when they are freed, too, with
 * their callers and the streams of these. */
void ulsock_endpoint_free(ulsock_endpoint *endpoint);

/* Sends a request and waits for its reply, for at most so many milliseconds (0: as long as it takes): ULSOCK_DEADLINE_EXCEEDED.
 * The program gives `reply` to free(). The endpoint is served meanwhile. */
ulsock_status ulsock_caller_call(const ulsock_caller *caller,
                                 uint16_t service,
                                 const void *request,
                                 size_t len,
                                 uint32_t milliseconds,
                                 void **reply,
                                 size_t *reply_len);

/* Begins a call whose request and reply are streams. Its handler is started at once. Freeing `reply` before its end cancels the
 * call. */
ulsock_status ulsock_caller_open(const ulsock_caller *caller,
                                 uint16_t service,
                                 uint32_t milliseconds,
                                 ulsock_writer **request,
                                 ulsock_reader **reply);

/* Freeing it does not end the connection. */
void ulsock_caller_free(ulsock_caller *caller);

/* The requests of an endpoint, which can have them once. At most `calls` handlers run at a time for each peer (0: 1024); a body
 * that is received in one piece has at most `body` bytes (0: 16 MiB). */
ulsock_status ulsock_requests_new(const ulsock_endpoint *endpoint,
                                  size_t calls,
                                  size_t body,
                                  ulsock_requests **requests);

/* From now on calls of this service are handled so: the handler reads the request, writes the reply, and ends it. Both are lent
 * to it until it returns. Each handler has a stack of its own, and may wait. It runs while the
 * endpoint is served, or while somebody calls. It is cancelled when its caller is gone, has cancelled, or has no time left. */
ulsock_status ulsock_requests_handle(const ulsock_requests *requests,
                                     uint16_t service,
                                     void (*handler)(void *user,
                                                     const ulsock_reader *request,
                                                     const ulsock_writer *reply),
                                     void *user);

/* Connects to an endpoint with services. */
ulsock_status ulsock_requests_connect(const ulsock_requests *requests,
                                      const char *to,
                                      ulsock_caller **caller);

/* Calls a peer of the endpoint, whoever has connected to whom. */
ulsock_status ulsock_requests_caller(const ulsock_requests *requests,
                                     const ulsock_peer *peer,
                                     ulsock_caller **caller);

/* No call is handled any more when all callers and streams of it are freed, too. */
void ulsock_requests_free(ulsock_requests *requests);

/* The names of this user, of root and of the owner of the run directory; or those of all users, any of whom can register any
 * name: look at the `uid` of a place. */
ulsock_status ulsock_names_open(bool of_all_users,
                                ulsock_names **names);

void ulsock_names_free(ulsock_names *names);

/* Registers a name for an address, at which the program should listen already. The programs of a user have each name once on a
 * host: ULSOCK_TAKEN. */
ulsock_status ulsock_names_register(const ulsock_names *names,
                                    const char *service,
                                    uint32_t instance,
                                    const char *address,
                                    ulsock_registration **registration);

void ulsock_registration_free(ulsock_registration *registration);

/* Where this instance is: on this host if it can be, first of this user's; else on any other host that has it. ULSOCK_NOT_FOUND */
ulsock_status ulsock_names_find(const ulsock_names *names,
                                const char *service,
                                uint32_t instance,
                                ulsock_place *place);

/* Any instance of the service, another one each time: of those on this host if there are any, else of all. */
ulsock_status ulsock_names_find_any(const ulsock_names *names, const char *service, ulsock_place *place);

/* All places of the instances from `first` to `last`, on all hosts, by instance. `count` is how many there are; the first `room`
 * of them are put into `places`. */
ulsock_status ulsock_names_range(const ulsock_names *names,
                                 const char *service,
                                 uint32_t first,
                                 uint32_t last,
                                 ulsock_place *places,
                                 size_t room,
                                 size_t *count);

/* Hears which of the instances from `first` to `last` appear and disappear; those that are there now appear first. */
ulsock_status ulsock_names_subscribe(const ulsock_names *names,
                                     const char *service,
                                     uint32_t first,
                                     uint32_t last,
                                     ulsock_name_events **events);

/* The next event; ULSOCK_NOTHING if none comes within so many milliseconds (negative: as long as it takes; 0: without waiting). */
ulsock_status ulsock_name_events_next(const ulsock_name_events *events,
                                      int64_t milliseconds,
                                      ulsock_name_event *event);

/* For loops that wait by themselves: when this descriptor is readable, ask for events until there is nothing. It belongs to
 * `events`. -1: another call is at work with them. */
int ulsock_name_events_fd(const ulsock_name_events *events);

void ulsock_name_events_free(ulsock_name_events *events);

/* Joins the group of this name. `address` is where other members connect to; null: this host only (`127.0.0.1:0`); for others let
 * it be `0.0.0.0:0`. `ring` is the size of the member's ring, a power of two (0: 1 MiB); a message has at most a quarter of it. Who
 * takes nothing for `patience` milliseconds, while this member waits for him, is put out (0: 30 s; negative: never). */
ulsock_status ulsock_group_join(const ulsock_names *names,
                                const char *service,
                                const char *address,
                                size_t ring,
                                int64_t patience,
                                ulsock_group **group);

/* By which others know this member. */
uint32_t ulsock_group_number(const ulsock_group *group);

/* All who get what is sent now. `count` is how many there are; the first `room` of them are put into `members`. */
ulsock_status ulsock_group_members(const ulsock_group *group,
                                   ulsock_member *members,
                                   size_t room,
                                   size_t *count);

/* Sends a message to all members; waits while one of them has not taken what is in its place. */
ulsock_status ulsock_group_send(const ulsock_group *group, const void *bytes, size_t len);

/* The same without waiting: ULSOCK_NOTHING if there is no room. */
ulsock_status ulsock_group_try_send(const ulsock_group *group, const void *bytes, size_t len);

/* Waits until all members have taken all that was sent so far. */
ulsock_status ulsock_group_flush(const ulsock_group *group);

/* What comes next: a message, which is copied into the room, or something that has happened to a member; ULSOCK_NOTHING if nothing
 * comes within so many milliseconds (negative: as long as it takes; 0: without waiting). ULSOCK_NO_ROOM: the message is longer, and
 * still the next. */
ulsock_status ulsock_group_recv(const ulsock_group *group,
                                void *room,
                                size_t len,
                                int64_t milliseconds,
                                ulsock_group_event *event);

/* For loops that wait by themselves: call this, then receive until there is nothing (0 milliseconds), then wait until the
 * descriptor is readable. It belongs to the group. -1: another call is at work with it. */
int ulsock_group_fd(const ulsock_group *group);

/* Leaves the group. What was sent still comes to all members on this host; ulsock_group_flush() waits for those elsewhere. */
void ulsock_group_free(ulsock_group *group);

ulsock_status ulsock_wire_events_new(ulsock_wire_events **events);

/* The wire that somebody has written to next, by its number (ulsock_wire_number()); ULSOCK_NOTHING if none is within so many
 * milliseconds (negative: as long as it takes; 0: without waiting). Writes that touch a wire before its event is taken are one. */
ulsock_status ulsock_wire_events_next(const ulsock_wire_events *events,
                                      int64_t milliseconds,
                                      uint64_t *wire);

/* For loops that wait by themselves: when this descriptor is readable, ask for events until there is nothing. It belongs to
 * `events`. -1: another call is at work with them. */
int ulsock_wire_events_fd(const ulsock_wire_events *events);

void ulsock_wire_events_free(ulsock_wire_events *events);

/* Listens at an address for importers; a thread of the library serves them. */
ulsock_status ulsock_exporter_bind(const char *at, ulsock_exporter **exporter);

ulsock_status ulsock_exporter_address(const ulsock_exporter *exporter, ulsock_address *address);

/* It goes on as long as one of its regions is held. */
void ulsock_exporter_free(ulsock_exporter *exporter);

/* Makes a region of so many bytes, all zero, whose wires report to these events. Its memory is taken from the system now. */
ulsock_status ulsock_exporter_export(const ulsock_exporter *exporter,
                                     size_t size,
                                     const ulsock_wire_events *events,
                                     ulsock_region **region);

/* What an importer needs. */
ulsock_status ulsock_region_key(const ulsock_region *region, ulsock_key *key);

/* The same region, where others reach its exporter by another address: one that listens at all addresses, say. */
ulsock_status ulsock_key_set_address(ulsock_key *key, const char *address);

/* Copies bytes out of the region. Importers may change them there at any time: only what was copied out can be relied on. */
ulsock_status ulsock_region_read(const ulsock_region *region,
                                 size_t offset,
                                 void *room,
                                 size_t len);

/* Puts bytes there. This trips no wire. */
ulsock_status ulsock_region_write(const ulsock_region *region, size_t offset, const void *bytes, size_t len);

/* The word of eight bytes at a multiple of eight. Who has read it sees what its writer had written before. */
ulsock_status ulsock_region_load(const ulsock_region *region, size_t offset, uint64_t *word);

ulsock_status ulsock_region_store(const ulsock_region *region, size_t offset, uint64_t word);

/* From now on writes into this range fire the wire, each when it is complete; or only the first, until it is set again. */
ulsock_status ulsock_region_wire(const ulsock_region *region,
                                 size_t offset,
                                 size_t len,
                                 bool once,
                                 ulsock_wire **wire);

/* By which its events tell it: no other wire of this process has the same. */
uint64_t ulsock_wire_number(const ulsock_wire *wire);

/* Sets a wire again that fires once. What was written meanwhile can be read now. */
ulsock_status ulsock_wire_rearm(const ulsock_wire *wire);

/* It fires no more. */
void ulsock_wire_free(ulsock_wire *wire);

/* Revokes the region: writes into it fail with ULSOCK_REVOKED. */
void ulsock_region_free(ulsock_region *region);

/* Imports the region of this key, however long its exporter takes to answer. ULSOCK_BAD_KEY, ULSOCK_WRONG_KEY, ULSOCK_NO_EXPORTER */
ulsock_status ulsock_import_open(const ulsock_key *key,
                                 ulsock_import **import);

/* The same, but ULSOCK_NOTHING if the exporter has not answered within so many milliseconds (negative: as long as it takes). */
ulsock_status ulsock_import_open_within(const ulsock_key *key,
                                        int64_t milliseconds,
                                        ulsock_import **import);

size_t ulsock_import_size(const ulsock_import *import);

/* Whether a write is a copy into memory that the exporter shares. */
bool ulsock_import_is_shared(const ulsock_import *import);

/* Why the region cannot be written any more, if it cannot. */
ulsock_status ulsock_import_check(const ulsock_import *import);

/* Puts bytes there. Where the memory is shared they are in place when this returns; else ulsock_import_flush() waits for that. */
ulsock_status ulsock_import_write(const ulsock_import *import,
                                  size_t offset,
                                  const void *bytes,
                                  size_t len);

/* Waits until everything that was written is in place, and its wires have fired. */
ulsock_status ulsock_import_flush(const ulsock_import *import);

void ulsock_import_free(ulsock_import *import);

#ifdef __cplusplus
}  // extern "C"
#endif  // __cplusplus

#endif  /* ULSOCK_H */
