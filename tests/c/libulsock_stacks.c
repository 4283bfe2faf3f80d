/* Tasks and handlers of libulsock where no more stacks are to be had: who begins one is told, who is to be handled waits, and all goes on
   when there are some again. */

#include "must.h"

#include <stdint.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <unistd.h>

enum { HELLO = 1, MOST = 8192 };

#define MIB ((size_t)1 << 20)

static int handled, runs;

static void sleeper(void *nothing)
{
    (void)nothing;
    runs += 1;
    (void)ulsock_sleep(60000);
}

static void end(ulsock_task *task)
{
    MUST(ulsock_task_cancel(task));
    MUST(ulsock_task_join(task));
    ulsock_task_free(task);
}

static void as_many_as_a_thread_can_have(void)
{
    static ulsock_task *tasks[MOST];
    ulsock_task *other;

    ulsock_stack_size(0);
    for (size_t i = 0; i < MOST; i++)
        MUST(ulsock_task_begin(sleeper, NULL, &tasks[i]));
    REFUSED(ULSOCK_TOO_MANY, ulsock_task_begin(sleeper, NULL, &other));
    CHECK(other == NULL);
    end(tasks[7]);
    MUST(ulsock_task_begin(sleeper, NULL, &tasks[7]));
    REFUSED(ULSOCK_TOO_MANY, ulsock_task_begin(sleeper, NULL, &other));
    CHECK(runs > 0);
    for (size_t i = 0; i < MOST; i++)
        end(tasks[i]);
}

/* How much more address space this process can have; how much it could have. */
static rlim_t leave(size_t bytes)
{
    struct rlimit limit;
    rlim_t before;
    long pages;
    FILE *file = fopen("/proc/self/statm", "r");

    CHECK(file && fscanf(file, "%ld", &pages) == 1);
    fclose(file);
    CHECK(getrlimit(RLIMIT_AS, &limit) == 0);
    before = limit.rlim_cur;
    limit.rlim_cur = (rlim_t)pages * (rlim_t)sysconf(_SC_PAGESIZE) + bytes;
    CHECK(setrlimit(RLIMIT_AS, &limit) == 0);
    return before;
}

static void put_back(rlim_t before)
{
    struct rlimit limit;

    CHECK(getrlimit(RLIMIT_AS, &limit) == 0);
    limit.rlim_cur = before;
    CHECK(setrlimit(RLIMIT_AS, &limit) == 0);
}

static void hello(void *user, const ulsock_reader *reader)
{
    char text[5];

    (void)user;
    MUST(ulsock_reader_read_exact(reader, text, sizeof text));
    CHECK(memcmp(text, "hello", 5) == 0);
    handled += 1;
}

static void without_address_space(void)
{
    ulsock_endpoint *server, *client;
    ulsock_address address;
    ulsock_peer *peer;
    ulsock_task *task, *other;
    rlim_t before;

    MUST(ulsock_endpoint_bind("127.0.0.1:0", 0, &server));
    MUST(ulsock_endpoint_address(server, &address));
    MUST(ulsock_endpoint_handle(server, HELLO, hello, NULL));
    MUST(ulsock_endpoint_new(&client));
    MUST(ulsock_endpoint_connect(client, address.text, &peer));
    MUST(ulsock_peer_send(peer, HELLO, "hello", 5));
    while (handled == 0)
        MUST(ulsock_endpoint_extract(server, SIZE_MAX, NULL));

    /* Room for one, and for what else the program wants. */
    before = leave(768 * MIB);
    ulsock_stack_size(512 * MIB);
    MUST(ulsock_task_begin(sleeper, NULL, &task));
    REFUSED(ULSOCK_NO_MEMORY, ulsock_task_begin(sleeper, NULL, &other));
    CHECK(other == NULL);
    MUST(ulsock_peer_send(peer, HELLO, "hello", 5));
    MUST(ulsock_peer_send(peer, HELLO, "hello", 5));
    CHECK(ulsock_wait_at_most(100) == -1);
    for (int i = 0; i < 4; i++)
        (void)ulsock_endpoint_extract(server, SIZE_MAX, NULL);
    CHECK(ulsock_wait_at_most(-1) == 100);
    CHECK(handled == 1);
    /* One after the other they have the stack that is given back. */
    end(task);
    while (handled < 3)
        MUST(ulsock_endpoint_extract(server, SIZE_MAX, NULL));
    /* What anybody else gives back is found, too. */
    MUST(ulsock_task_begin(sleeper, NULL, &task));
    MUST(ulsock_peer_send(peer, HELLO, "hello", 5));
    CHECK(ulsock_wait_at_most(100) == -1);
    (void)ulsock_endpoint_extract(server, SIZE_MAX, NULL);
    CHECK(ulsock_wait_at_most(-1) == 100);
    CHECK(handled == 3);
    put_back(before);
    while (handled < 4)
        MUST(ulsock_endpoint_extract(server, SIZE_MAX, NULL));
    end(task);
    ulsock_peer_free(peer);
    ulsock_endpoint_free(client);
    ulsock_endpoint_free(server);
}

int main(void)
{
    as_many_as_a_thread_can_have();
    without_address_space();
    printf("done\n");
    return 0;
}
