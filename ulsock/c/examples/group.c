/* A group: every member sends, and receives what all others send, in order.
 *
 *     group ADDRESS MEMBERS MESSAGES
 */

#include "must.h"

#include <unistd.h>

/* What is known of another member. */
struct other {
    uint32_t number;
    uint32_t next;
    bool over;
};

static struct other others[16];
static size_t known;

static struct other *other(uint32_t number)
{
    for (size_t at = 0; at < known; at++)
        if (others[at].number == number)
            return &others[at];
    fprintf(stderr, "nobody has the number %u\n", number);
    exit(1);
}

/* Takes what comes next, if it comes in time. Whether it has come. */
static bool hear(ulsock_group *group, int64_t milliseconds, uint32_t messages)
{
    ulsock_group_event event;
    uint32_t number;
    ulsock_status status = ulsock_group_recv(group, &number, sizeof number, milliseconds, &event);

    if (status == ULSOCK_NOTHING)
        return false;
    MUST(status);
    switch (event.kind) {
    case ULSOCK_EVENT_JOINED:
        CHECK(known < sizeof others / sizeof *others);
        others[known++] = (struct other){.number = event.member.number};
        break;
    case ULSOCK_EVENT_MESSAGE:
        CHECK(event.len == sizeof number);
        CHECK(number == other(event.member.number)->next);
        other(event.member.number)->next += 1;
        break;
    case ULSOCK_EVENT_LEFT:
        CHECK(other(event.member.number)->next == messages);
        other(event.member.number)->over = true;
        break;
    case ULSOCK_EVENT_FAILED:
        fprintf(stderr, "%u has failed\n", event.member.number);
        exit(1);
    }
    return true;
}

static size_t how_many_are_over(void)
{
    size_t over = 0;

    for (size_t at = 0; at < known; at++)
        over += others[at].over;
    return over;
}

static size_t how_many_have_sent(uint32_t messages)
{
    size_t sent = 0;

    for (size_t at = 0; at < known; at++)
        sent += others[at].next == messages;
    return sent;
}

int main(int argc, char **argv)
{
    ulsock_names *names;
    ulsock_group *group;
    size_t count;

    if (argc != 4) {
        fprintf(stderr, "usage: group ADDRESS MEMBERS MESSAGES\n");
        return 1;
    }
    const size_t wanted = (size_t)atoi(argv[2]) - 1;
    const uint32_t messages = (uint32_t)atoi(argv[3]);

    MUST(ulsock_names_open(false, &names));
    REFUSED(ULSOCK_BAD_RING, ulsock_group_join(names, "readings", argv[1], 5000, 0, &group));
    CHECK(group == NULL);
    MUST(ulsock_group_join(names, "readings", argv[1], 0, 0, &group));
    ulsock_names_free(names);
    while (known < wanted)
        hear(group, -1, messages);
    MUST(ulsock_group_members(group, NULL, 0, &count));
    CHECK(count == wanted);

    for (uint32_t number = 0; number < messages; number++) {
        MUST(ulsock_group_send(group, &number, sizeof number));
        while (hear(group, 0, messages))
            ;
    }
    while (how_many_have_sent(messages) < wanted)
        hear(group, -1, messages);
    MUST(ulsock_group_flush(group));
    REFUSED(ULSOCK_TOO_LONG, ulsock_group_send(group, argv, (size_t)1 << 30));
    printf("done with %zu\n", how_many_are_over());
    ulsock_group_free(group);
    return 0;
}
