/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * What all cases need: the calls of the device, each of which ends the program
 * with a message if it does not do what the case expects.
 */
#ifndef DEVICE_H
#define DEVICE_H

#include <poll.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "ulnic.h"

/* A service that needs no privilege, for the cases to find each other. */
#define SERVICE 2000

/* Ends the program with a line on stdout; exit status 1. */
void fail(const char *format, ...) __attribute__((format(printf, 1, 2), noreturn));

#define expect(condition) \
	((condition) ? (void)0 : fail("%s:%d: not so: %s", __FILE__, __LINE__, #condition))

int device_open(int flags);

/* 0, or the errno. `size` and what must be zero are the caller's. */
int call(int fd, unsigned long request, void *argument);

void info(int fd, struct ulnic_info *info);
struct ulnic_bind bound(int fd, uint64_t length, uint64_t service);
/* 0 or the errno. */
int try_connect(int fd, uint64_t slot, uint64_t endpoint, uint64_t key,
		struct ulnic_connect *connect);
struct ulnic_connect connected(int fd, uint64_t slot, uint64_t endpoint, uint64_t key);
/* Waits until there is such a service in the VM. */
struct ulnic_lookup found(int fd, uint64_t slot, uint64_t service);
int ring(int fd, uint64_t connection);
void arm(int fd, uint64_t wire, uint64_t offset, uint64_t position);
struct ulnic_state state(int fd);
void *map(int fd, uint64_t offset, size_t length);
/* What poll() says of `events` within the time; 0: nothing. */
short wait_for(int fd, short events, int milliseconds);

/* Words that somebody else writes. */
static inline uint64_t load(uint64_t *word)
{
	return __atomic_load_n(word, __ATOMIC_ACQUIRE);
}

static inline void store(uint64_t *word, uint64_t value)
{
	__atomic_store_n(word, value, __ATOMIC_RELEASE);
}

/* A number that its seed decides. */
uint64_t next_random(uint64_t *seed);

uint64_t argument(char **argv, int number);

#endif
