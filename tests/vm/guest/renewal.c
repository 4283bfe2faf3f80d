// SPDX-License-Identifier: MIT OR Apache-2.0
/*
 * Memory that has a new owner while a process of another VM still writes to what
 * it had mapped of the old one: the new owner must have nothing but zeros.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "cases.h"
#include "device.h"

#define LENGTH (16 * 4096)
#define PATIENCE 10000	/* ms */
#define LOOKS 20

static void stays_zero(uint64_t *words)
{
	int look;
	size_t at;

	for (look = 0; look < LOOKS; look++) {
		for (at = 0; at < LENGTH / 8; at++)
			expect(load(&words[at]) == 0);
		usleep(2000);
	}
}

static void await_writer(uint64_t *words)
{
	int waited;

	for (waited = 0; waited < PATIENCE && !load(words); waited++)
		usleep(1000);
	expect(load(words));
}

void renew(char **arguments)
{
	uint64_t count = argument(arguments, 0);
	struct ulnic_info group;

	while (count--) {
		int first = device_open(O_RDWR), second = device_open(O_RDWR);
		uint64_t *words, length;

		info(first, &group);
		/* More than half of all: the second one is the same memory. */
		length = group.partition / 4096 * 3 / 4 * 4096;
		bound(first, length, SERVICE);
		words = map(first, 0, LENGTH);
		await_writer(words);
		munmap(words, LENGTH);
		close(first);
		bound(second, length, 0);
		words = map(second, 0, LENGTH);
		stays_zero(words);
		munmap(words, LENGTH);
		close(second);
	}
}

void anew(char **arguments)
{
	int fd = device_open(O_RDWR | O_NONBLOCK);
	struct ulnic_bind bind = { .size = sizeof(bind) };
	struct ulnic_info group;
	uint64_t *words;

	(void)arguments;
	info(fd, &group);
	bind.length = group.partition / 4096 * 3 / 4 * 4096;
	expect(call(fd, ULNIC_BIND, &bind) == EAGAIN);
	printf("waiting\n");
	while (call(fd, ULNIC_BIND, &bind)) {
		expect(errno == EAGAIN);
		usleep(1000);
	}
	words = map(fd, 0, LENGTH);
	stays_zero(words);
}

void stale(char **arguments)
{
	uint64_t slot = argument(arguments, 0), count = argument(arguments, 1);
	int end = argument(arguments, 2), fd = device_open(O_RDWR);

	while (count--) {
		struct ulnic_disconnect disconnect = { .size = sizeof(disconnect) };
		struct ulnic_connect connect;
		unsigned char *bytes;

		for (;;) {
			struct ulnic_lookup lookup = found(fd, slot, SERVICE);

			/* It may have gone since. */
			if (!try_connect(fd, slot, lookup.endpoint, lookup.key, &connect))
				break;
		}
		bytes = map(fd, connect.offset, LENGTH);
		printf("mapped\n");
		while (state(fd).live)
			memset(bytes, 0xbb, LENGTH);
		expect(ring(fd, connect.connection) == end);
		munmap(bytes, LENGTH);
		disconnect.connection = connect.connection;
		expect(call(fd, ULNIC_DISCONNECT, &disconnect) == 0);
	}
}
