/* What the examples do with errors: say them, and end. */

#ifndef MUST_H
#define MUST_H

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <ulsock.h>

/* The call is done, or the program ends with the reason. */
#define MUST(call) must((call), #call)

/* The call fails in this way, and no other. */
#define REFUSED(status, call) refused((status), (call), #call)

static inline void must(ulsock_status status, const char *call)
{
    if (status != ULSOCK_OK) {
        const char *text = status == ULSOCK_NOTHING ? "nothing has come" : ulsock_error_text();

        fprintf(stderr, "%s: %s (%d)\n", call, text, (int)status);
        exit(1);
    }
}

static inline void refused(ulsock_status expected, ulsock_status status, const char *call)
{
    if (status != expected) {
        fprintf(stderr, "%s: %d instead of %d\n", call, (int)status, (int)expected);
        exit(1);
    }
}

#define CHECK(condition)                                                                  \
    do {                                                                                  \
        if (!(condition)) {                                                               \
            fprintf(stderr, "%s:%d: %s does not hold\n", __FILE__, __LINE__, #condition); \
            exit(1);                                                                      \
        }                                                                                 \
    } while (0)

/* Registers the name that the clients look for. It is held until the process ends. */
static inline void announce(const char *service, const char *address)
{
    ulsock_names *names;
    ulsock_registration *registration;

    MUST(ulsock_names_open(false, &names));
    MUST(ulsock_names_register(names, service, 0, address, &registration));
    ulsock_names_free(names);
    printf("ready\n");
    fflush(stdout);
}

/* Waits until somebody has the name, and gives his address. */
static inline void look_up(const char *service, ulsock_address *address)
{
    ulsock_names *names;
    ulsock_name_events *events;
    ulsock_name_event event;

    MUST(ulsock_names_open(false, &names));
    MUST(ulsock_names_subscribe(names, service, 0, 0, &events));
    MUST(ulsock_name_events_next(events, 20000, &event));
    CHECK(event.appeared);
    *address = event.place.address;
    ulsock_name_events_free(events);
    ulsock_names_free(names);
}

#endif
