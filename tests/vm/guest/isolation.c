// SPDX-License-Identifier: MIT OR Apache-2.0
/* What processes of one VM see of each other: nothing, without a key. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "cases.h"
#include "device.h"

#define LENGTH (16 * 4096)
#define ROUNDS 50

static bool is_all(unsigned char *bytes, unsigned char value)
{
	size_t at;

	for (at = 0; at < LENGTH; at++)
		if (bytes[at] != value)
			return false;
	return true;
}

/* A process with an aperture full of its own byte, which nobody else may change. */
static void neighbour(int number, int ready, int go)
{
	int fd = device_open(O_RDWR);
	struct ulnic_bind mine = bound(fd, LENGTH, 0);
	unsigned char *bytes = map(fd, 0, LENGTH);
	int round;
	char byte;

	expect(is_all(bytes, 0));
	expect(write(ready, &mine, sizeof(mine)) == sizeof(mine));
	for (round = 0; round < ROUNDS; round++) {
		memset(bytes, number * ROUNDS + round + 1, LENGTH);
		usleep(1000);
		expect(is_all(bytes, number * ROUNDS + round + 1));
	}
	expect(write(ready, "", 1) == 1);
	expect(read(go, &byte, 1) == 1);
	expect(is_all(bytes, number * ROUNDS + ROUNDS));
	exit(0);
}

static pid_t start(int number, struct ulnic_bind *theirs, int *done, int *go)
{
	int ready[2], signal[2];
	pid_t child;

	expect(pipe(ready) == 0 && pipe(signal) == 0);
	child = fork();
	if (!child)
		neighbour(number, ready[1], signal[0]);
	expect(read(ready[0], theirs, sizeof(*theirs)) == sizeof(*theirs));
	*done = ready[0];
	*go = signal[1];
	return child;
}

static void ended_well(pid_t child)
{
	int status;

	expect(waitpid(child, &status, 0) == child);
	expect(WIFEXITED(status) && WEXITSTATUS(status) == 0);
}

void isolation(char **arguments)
{
	int fd = device_open(O_RDWR), done[2], go[2];
	struct ulnic_connect connect;
	struct ulnic_bind theirs[2];
	struct ulnic_info group;
	unsigned char *seen;
	pid_t children[2];
	char byte;

	(void)arguments;
	info(fd, &group);
	children[0] = start(0, &theirs[0], &done[0], &go[0]);
	children[1] = start(1, &theirs[1], &done[1], &go[1]);
	expect(theirs[0].endpoint != theirs[1].endpoint && theirs[0].key != theirs[1].key);

	/* The key of one is none of the other. */
	expect(try_connect(fd, group.slot, theirs[0].endpoint, theirs[1].key, &connect) == EACCES);
	expect(try_connect(fd, group.slot, theirs[1].endpoint, theirs[0].key, &connect) == EACCES);
	expect(try_connect(fd, group.slot, theirs[0].endpoint, theirs[0].key ^ 1, &connect) == EACCES);
	/* With the right one we see that one, and no more of it than there is. */
	connect = connected(fd, group.slot, theirs[0].endpoint, theirs[0].key);
	expect(connect.length == LENGTH);
	expect(mmap(NULL, LENGTH + 4096, PROT_READ, MAP_SHARED, fd, connect.offset) == MAP_FAILED);
	seen = map(fd, connect.offset, LENGTH);

	expect(read(done[0], &byte, 1) == 1 && read(done[1], &byte, 1) == 1);
	expect(is_all(seen, ROUNDS));
	expect(wait_for(fd, 0, 0) == 0);
	expect(write(go[0], "", 1) == 1);
	ended_well(children[0]);

	/* It has gone: we are told, and what we have mapped reaches nobody. */
	expect(wait_for(fd, 0, 2000) & POLLERR);
	expect(ring(fd, connect.connection) == EPIPE);
	expect(state(fd).closed == 1ULL << connect.connection);
	expect(is_all(seen, 0));
	memset(seen, 0xee, LENGTH);
	expect(write(go[1], "", 1) == 1);
	ended_well(children[1]);
}

/*
 * An endpoint goes while another has it mapped; its memory gets a new owner.
 * Whatever the old peer does through its mapping, the new owner has zeros.
 */
void reuse(char **arguments)
{
	struct ulnic_info group;
	int round;

	(void)arguments;
	for (round = 0; round < ROUNDS; round++) {
		int owner = device_open(O_RDWR), peer = device_open(O_RDWR), next;
		struct ulnic_bind first, second;
		unsigned char *stale, *fresh;
		struct ulnic_connect connect;
		struct ulnic_disconnect disconnect = { .size = sizeof(disconnect) };

		info(owner, &group);
		/* More than half of all: the second one is the same memory. */
		first = bound(owner, group.partition / 4096 * 3 / 4 * 4096, 0);
		connect = connected(peer, group.slot, first.endpoint, first.key);
		stale = map(peer, connect.offset, LENGTH);
		memset(stale, 0xaa, LENGTH);
		close(owner);
		next = device_open(O_RDWR);
		second = bound(next, first.length, 0);
		fresh = map(next, 0, LENGTH);
		memset(stale, 0xbb, LENGTH);
		expect(second.key != first.key);
		expect(is_all(fresh, 0));
		expect(try_connect(peer, group.slot, first.endpoint, first.key, &connect) == EACCES);
		/* The number of a connection is not free as long as it is mapped. */
		expect(call(peer, ULNIC_DISCONNECT, &disconnect) == EBUSY);
		munmap(stale, LENGTH);
		expect(call(peer, ULNIC_DISCONNECT, &disconnect) == 0);
		expect(wait_for(peer, 0, 0) == 0);
		munmap(fresh, LENGTH);
		close(next);
		close(peer);
	}
}
