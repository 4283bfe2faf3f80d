// SPDX-License-Identifier: MIT OR Apache-2.0
/* What is left of a connection when the VM at its other end, or the device, is gone. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/mman.h>
#include <unistd.h>

#include "cases.h"
#include "device.h"

#define PAGE_WORDS 512
#define LENGTH (16 * 8 * PAGE_WORDS)

void hold(char **arguments)
{
	int fd = device_open(O_RDWR);
	uint64_t *words;

	bound(fd, argument(arguments, 0), SERVICE);
	words = map(fd, 0, LENGTH);
	words[0] = 42;
	printf("ready\n");
	for (;;)
		pause();
}

/* A mapping that shows nothing any more: no signal, and writes are harmless. */
static void is_void(uint64_t *words)
{
	size_t at;

	for (at = 0; at < LENGTH / 8; at += PAGE_WORDS) {
		expect(load(&words[at]) == 0);
		store(&words[at], 0);
	}
}

void orphan(char **arguments)
{
	uint64_t slot = argument(arguments, 0);
	int fd = device_open(O_RDWR);
	struct ulnic_lookup lookup = found(fd, slot, SERVICE);
	struct ulnic_connect connect = connected(fd, slot, lookup.endpoint, lookup.key), again;
	struct ulnic_disconnect disconnect = {
		.size = sizeof(disconnect), .connection = connect.connection,
	};
	uint64_t *words = map(fd, connect.offset, LENGTH);
	struct ulnic_info group;

	expect(load(words) == 42);
	bound(fd, LENGTH, 0);
	arm(fd, 0, 0, 0);
	expect(state(fd).live == 1ULL << connect.connection);
	printf("connected\n");
	expect(wait_for(fd, POLLIN, 30000) == (POLLERR | POLLHUP));
	expect(ring(fd, connect.connection) == ECONNRESET);
	expect(state(fd).reset == 1ULL << connect.connection && !state(fd).live);
	is_void(words);
	info(fd, &group);
	if (!group.incarnation[slot])
		expect(try_connect(fd, slot, lookup.endpoint, lookup.key, &again) == EHOSTUNREACH);
	munmap(words, LENGTH);
	expect(call(fd, ULNIC_DISCONNECT, &disconnect) == 0);
	expect(wait_for(fd, POLLIN, 0) == 0);
}

void unbound(char **arguments)
{
	int fd = device_open(O_RDWR);
	struct ulnic_bind mine = bound(fd, LENGTH, 0);
	struct ulnic_state nothing = { .size = sizeof(nothing) };
	struct ulnic_connect connect;
	struct ulnic_info group;
	uint64_t *own, *other;

	(void)arguments;
	info(fd, &group);
	connect = connected(fd, group.slot, mine.endpoint, mine.key);
	own = map(fd, 0, LENGTH);
	other = map(fd, connect.offset, LENGTH);
	own[PAGE_WORDS] = 42;
	expect(load(&other[PAGE_WORDS]) == 42);
	arm(fd, 0, 0, 0);
	printf("ready\n");
	expect(wait_for(fd, POLLIN, 30000) & POLLHUP);
	expect(call(fd, ULNIC_STATE, &nothing) == ENODEV);
	expect(ring(fd, connect.connection) == ENODEV);
	is_void(own);
	is_void(other);
	expect(mmap(NULL, LENGTH, PROT_READ, MAP_SHARED, fd, 0) == MAP_FAILED);
}
