// SPDX-License-Identifier: MIT OR Apache-2.0
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <unistd.h>

#include "device.h"

void fail(const char *format, ...)
{
	va_list arguments;

	va_start(arguments, format);
	vprintf(format, arguments);
	va_end(arguments);
	printf("\n");
	fflush(stdout);
	_exit(1);
}

int device_open(int flags)
{
	int fd = open("/dev/ulnic0", flags | O_CLOEXEC);

	if (fd < 0)
		fail("open: %s", strerror(errno));
	return fd;
}

int call(int fd, unsigned long request, void *argument)
{
	return ioctl(fd, request, argument) ? errno : 0;
}

static void succeed(int fd, unsigned long request, void *argument, const char *what)
{
	int error = call(fd, request, argument);

	if (error)
		fail("%s: %s", what, strerror(error));
}

void info(int fd, struct ulnic_info *info)
{
	memset(info, 0, sizeof(*info));
	info->size = sizeof(*info);
	succeed(fd, ULNIC_INFO, info, "info");
}

struct ulnic_bind bound(int fd, uint64_t length, uint64_t service)
{
	struct ulnic_bind bind = { .size = sizeof(bind), .length = length, .service = service };

	succeed(fd, ULNIC_BIND, &bind, "bind");
	return bind;
}

int try_connect(int fd, uint64_t slot, uint64_t endpoint, uint64_t key,
		struct ulnic_connect *connect)
{
	memset(connect, 0, sizeof(*connect));
	connect->size = sizeof(*connect);
	connect->slot = slot;
	connect->endpoint = endpoint;
	connect->key = key;
	return call(fd, ULNIC_CONNECT, connect);
}

struct ulnic_connect connected(int fd, uint64_t slot, uint64_t endpoint, uint64_t key)
{
	struct ulnic_connect connect;
	int error = try_connect(fd, slot, endpoint, key, &connect);

	if (error)
		fail("connect: %s", strerror(error));
	return connect;
}

struct ulnic_lookup found(int fd, uint64_t slot, uint64_t service)
{
	struct ulnic_lookup lookup = { .size = sizeof(lookup), .slot = slot, .service = service };
	int tries, error = 0;

	for (tries = 0; tries < 2000; tries++) {
		error = call(fd, ULNIC_LOOKUP, &lookup);
		if (!error)
			return lookup;
		usleep(10000);
	}
	fail("lookup: %s", strerror(error));
}

int ring(int fd, uint64_t connection)
{
	struct ulnic_ring ring = { .size = sizeof(ring), .connection = connection };

	return call(fd, ULNIC_RING, &ring);
}

void arm(int fd, uint64_t wire, uint64_t offset, uint64_t position)
{
	struct ulnic_tripwire tripwire = {
		.size = sizeof(tripwire), .wire = wire, .offset = offset, .position = position,
	};

	succeed(fd, ULNIC_TRIPWIRE, &tripwire, "tripwire");
}

struct ulnic_state state(int fd)
{
	struct ulnic_state state = { .size = sizeof(state) };

	succeed(fd, ULNIC_STATE, &state, "state");
	return state;
}

void *map(int fd, uint64_t offset, size_t length)
{
	void *at = mmap(NULL, length, PROT_READ | PROT_WRITE, MAP_SHARED, fd, offset);

	if (at == MAP_FAILED)
		fail("mmap: %s", strerror(errno));
	return at;
}

short wait_for(int fd, short events, int milliseconds)
{
	struct pollfd poller = { .fd = fd, .events = events };
	int ready = poll(&poller, 1, milliseconds);

	if (ready < 0)
		fail("poll: %s", strerror(errno));
	return ready ? poller.revents : 0;
}

uint64_t next_random(uint64_t *seed)
{
	uint64_t z = *seed += 0x9e3779b97f4a7c15;

	z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9;
	z = (z ^ (z >> 27)) * 0x94d049bb133111eb;
	return z ^ (z >> 31);
}

uint64_t argument(char **argv, int number)
{
	int at;

	for (at = 0; at <= number; at++)
		if (!argv[at])
			fail("argument %d is missing", number);
	return strtoull(argv[number], NULL, 0);
}
