// SPDX-License-Identifier: MIT OR Apache-2.0
/*
 * A server and its clients, in several VMs, that sleep until they are rung, for
 * each message anew. A wake-up that is lost shows as a poll() that waits in
 * vain.
 */
#include <fcntl.h>
#include <stdio.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#include "cases.h"
#include "device.h"

#define LENGTH 4096
#define PATIENCE_MS 20000

/* In the server's aperture, by the client's slot. Each word has one writer. */
struct desk {
	uint64_t hello;		/* 1 when the two below are there */
	uint64_t endpoint;
	uint64_t key;
	uint64_t request;	/* counts up */
	uint64_t goodbye;
};

struct client {
	bool is_here;
	uint64_t seen;
	uint64_t connection;
	uint64_t *reply;	/* the only word of its aperture */
};

static uint64_t desk_at(uint64_t slot)
{
	return slot * sizeof(struct desk);
}

static void welcome(int fd, uint64_t slot, struct desk *desk, struct client *client)
{
	struct ulnic_connect connect = connected(fd, slot, load(&desk->endpoint), load(&desk->key));

	client->is_here = true;
	client->seen = 0;
	client->connection = connect.connection;
	client->reply = map(fd, connect.offset, LENGTH);
	arm(fd, slot, desk_at(slot) + offsetof(struct desk, request), 0);
	arm(fd, 16 + slot, desk_at(slot) + offsetof(struct desk, goodbye), 0);
}

static void part_from(int fd, uint64_t slot, struct desk *desk, struct client *client)
{
	struct ulnic_disconnect disconnect = {
		.size = sizeof(disconnect), .connection = client->connection,
	};

	munmap(client->reply, LENGTH);
	expect(call(fd, ULNIC_DISCONNECT, &disconnect) == 0);
	client->is_here = false;
	desk->request = 0;
	desk->goodbye = 0;
	desk->hello = 0;
	arm(fd, 32 + slot, desk_at(slot) + offsetof(struct desk, hello), 0);
	arm(fd, slot, desk_at(slot) + offsetof(struct desk, request), 0);
	arm(fd, 16 + slot, desk_at(slot) + offsetof(struct desk, goodbye), 0);
}

/* Says whether the client has gone. */
static bool attend(int fd, uint64_t slot, struct desk *desk, struct client *client)
{
	uint64_t request;

	if (!client->is_here && load(&desk->hello)) {
		welcome(fd, slot, desk, client);
		arm(fd, 32 + slot, desk_at(slot) + offsetof(struct desk, hello), 1);
	}
	if (!client->is_here)
		return false;
	request = load(&desk->request);
	if (request != client->seen) {
		expect(request == client->seen + 1);
		client->seen = request;
		arm(fd, slot, desk_at(slot) + offsetof(struct desk, request), request);
		store(client->reply, request);
		expect(ring(fd, client->connection) == 0);
	}
	if (!load(&desk->goodbye))
		return false;
	part_from(fd, slot, desk, client);
	return true;
}

void serve(char **arguments)
{
	uint64_t clients = argument(arguments, 0), slot;
	struct client known[ULNIC_SLOTS_MAX] = {};
	int fd = device_open(O_RDWR);
	struct desk *desks;

	bound(fd, LENGTH, SERVICE);
	desks = map(fd, 0, LENGTH);
	for (slot = 0; slot < ULNIC_SLOTS_MAX; slot++)
		arm(fd, 32 + slot, desk_at(slot) + offsetof(struct desk, hello), 0);
	while (clients) {
		expect(wait_for(fd, POLLIN, 3 * PATIENCE_MS) & POLLIN);
		for (slot = 0; slot < ULNIC_SLOTS_MAX; slot++)
			clients -= attend(fd, slot, &desks[slot], &known[slot]);
	}
}

static double seconds(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return now.tv_sec + now.tv_nsec / 1e9;
}

void talk(char **arguments)
{
	uint64_t slot = argument(arguments, 0), count = argument(arguments, 1), number;
	int fd = device_open(O_RDWR);
	struct ulnic_lookup server = found(fd, slot, SERVICE);
	struct ulnic_bind mine = bound(fd, LENGTH, 0);
	struct ulnic_connect connect = connected(fd, slot, server.endpoint, server.key);
	uint64_t *reply = map(fd, 0, LENGTH);
	struct ulnic_info group;
	struct desk *desk;
	double start;

	info(fd, &group);
	desk = (struct desk *)map(fd, connect.offset, LENGTH) + group.slot;
	desk->endpoint = mine.endpoint;
	desk->key = mine.key;
	store(&desk->hello, 1);
	expect(ring(fd, connect.connection) == 0);
	start = seconds();
	for (number = 1; number <= count; number++) {
		arm(fd, 0, 0, number - 1);
		store(&desk->request, number);
		expect(ring(fd, connect.connection) == 0);
		if (!(wait_for(fd, POLLIN, PATIENCE_MS) & POLLIN))
			fail("message %lu: no wake-up; the reply is %lu", number, load(reply));
		expect(load(reply) == number);
	}
	printf("%lu round trips, %.0f us each\n", count, (seconds() - start) * 1e6 / count);
	store(&desk->goodbye, 1);
	expect(ring(fd, connect.connection) == 0);
}
