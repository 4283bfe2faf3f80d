// SPDX-License-Identifier: MIT OR Apache-2.0
/* Calls and mappings that must fail, and how. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <unistd.h>

#include "cases.h"
#include "device.h"

#define PAGE 4096
#define LENGTH (4 * PAGE)

/* 0 or the errno. */
static int try_map(int fd, uint64_t offset, size_t length, int protection, int flags)
{
	void *at = mmap(NULL, length, protection, flags, fd, offset);

	if (at == MAP_FAILED)
		return errno;
	munmap(at, length);
	return 0;
}

static const unsigned long requests[] = {
	ULNIC_INFO, ULNIC_BIND, ULNIC_LOOKUP, ULNIC_CONNECT,
	ULNIC_DISCONNECT, ULNIC_RING, ULNIC_TRIPWIRE, ULNIC_STATE,
};

/* Every structure: a wrong size, an unknown flag, a bad address. */
static void headers(int fd)
{
	uint64_t words[64];
	size_t at;

	for (at = 0; at < sizeof(requests) / sizeof(requests[0]); at++) {
		memset(words, 0, sizeof(words));
		words[0] = _IOC_SIZE(requests[at]) - 8;
		expect(call(fd, requests[at], words) == EINVAL);
		words[0] = _IOC_SIZE(requests[at]) + 8;
		expect(call(fd, requests[at], words) == EINVAL);
		words[0] = _IOC_SIZE(requests[at]);
		words[1] = 1ULL << 63;
		expect(call(fd, requests[at], words) == EINVAL);
		expect(call(fd, requests[at], (void *)8) == EFAULT);
		expect(call(fd, requests[at] + 0x40, words) == ENOTTY);
		expect(call(fd, requests[at] + (8 << 16), words) == ENOTTY);
	}
}

#define RESERVED_MUST_BE_ZERO(type, request) do {			\
	struct type structure = { .size = sizeof(structure) };		\
	((uint64_t *)&structure)[offsetof(struct type, reserved) / 8] = 1;	\
	expect(call(fd, request, &structure) == EINVAL);		\
} while (0)

static void reserved(int fd)
{
	RESERVED_MUST_BE_ZERO(ulnic_info, ULNIC_INFO);
	RESERVED_MUST_BE_ZERO(ulnic_bind, ULNIC_BIND);
	RESERVED_MUST_BE_ZERO(ulnic_lookup, ULNIC_LOOKUP);
	RESERVED_MUST_BE_ZERO(ulnic_connect, ULNIC_CONNECT);
	RESERVED_MUST_BE_ZERO(ulnic_disconnect, ULNIC_DISCONNECT);
	RESERVED_MUST_BE_ZERO(ulnic_ring, ULNIC_RING);
	RESERVED_MUST_BE_ZERO(ulnic_tripwire, ULNIC_TRIPWIRE);
	RESERVED_MUST_BE_ZERO(ulnic_state, ULNIC_STATE);
}

static void binding(int fd)
{
	struct ulnic_bind bind = { .size = sizeof(bind) };
	int other = device_open(O_RDWR);

	expect(call(fd, ULNIC_BIND, &bind) == EINVAL);
	bind.length = UINT64_MAX;
	expect(call(fd, ULNIC_BIND, &bind) == ENOSPC);
	bind.length = ULNIC_APERTURE_MAX + PAGE;
	expect(call(fd, ULNIC_BIND, &bind) == ENOSPC);
	expect(try_map(fd, 0, PAGE, PROT_READ, MAP_SHARED) == EACCES);

	expect(bound(fd, LENGTH - 1, SERVICE + 1).length == LENGTH);
	bind.length = PAGE;
	expect(call(fd, ULNIC_BIND, &bind) == EISCONN);
	bind.service = SERVICE + 1;
	expect(call(other, ULNIC_BIND, &bind) == EADDRINUSE);
	close(other);
}

static void mappings(int fd)
{
	int both = PROT_READ | PROT_WRITE;
	char *at;

	expect(try_map(fd, 0, LENGTH, both, MAP_SHARED) == 0);
	expect(try_map(fd, PAGE, LENGTH - PAGE, both, MAP_SHARED) == 0);
	expect(try_map(fd, 0, LENGTH, both, MAP_PRIVATE) == EACCES);
	expect(try_map(fd, 0, LENGTH, PROT_READ | PROT_EXEC, MAP_SHARED) == EACCES);
	expect(try_map(fd, 0, LENGTH + PAGE, both, MAP_SHARED) == EINVAL);
	expect(try_map(fd, PAGE, LENGTH, both, MAP_SHARED) == EINVAL);
	expect(try_map(fd, LENGTH, PAGE, both, MAP_SHARED) == EINVAL);
	expect(try_map(fd, ULNIC_CONNECTION_OFFSET(0) - PAGE, 2 * PAGE, both, MAP_SHARED) == EINVAL);
	expect(try_map(fd, ULNIC_CONNECTION_OFFSET(0), PAGE, both, MAP_SHARED) == EACCES);
	expect(try_map(fd, ULNIC_CONNECTION_OFFSET(63), PAGE, both, MAP_SHARED) == EACCES);
	expect(try_map(fd, ULNIC_CONNECTION_OFFSET(64), PAGE, both, MAP_SHARED) == EINVAL);
	expect(try_map(fd, 1ULL << 62, PAGE, both, MAP_SHARED) == EINVAL);

	at = map(fd, 0, LENGTH);
	expect(mremap(at, LENGTH, 2 * LENGTH, MREMAP_MAYMOVE) == MAP_FAILED);
	expect(mprotect(at, LENGTH, PROT_READ | PROT_EXEC) && errno == EACCES);
	munmap(at + PAGE, PAGE);
	expect(mremap(at, PAGE, 2 * PAGE, 0) == MAP_FAILED);
	munmap(at, LENGTH);
}

/* One that may only read must not have anything that it can write. */
static void read_only(void)
{
	int fd = device_open(O_RDONLY);

	bound(fd, PAGE, 0);
	expect(try_map(fd, 0, PAGE, PROT_READ | PROT_WRITE, MAP_SHARED) == EACCES);
	expect(try_map(fd, 0, PAGE, PROT_READ, MAP_SHARED) == EACCES);
	close(fd);
}

static void tripwires(int fd)
{
	struct ulnic_tripwire wire = { .size = sizeof(wire) };
	uint64_t *words = map(fd, 0, LENGTH);
	int unbound_fd = device_open(O_RDWR);

	expect(call(unbound_fd, ULNIC_TRIPWIRE, &wire) == ENOTCONN);
	close(unbound_fd);
	wire.wire = ULNIC_WIRES_MAX;
	expect(call(fd, ULNIC_TRIPWIRE, &wire) == EINVAL);
	wire.wire = 0;
	wire.offset = 4;
	expect(call(fd, ULNIC_TRIPWIRE, &wire) == EINVAL);
	wire.offset = LENGTH;
	expect(call(fd, ULNIC_TRIPWIRE, &wire) == EINVAL);
	wire.offset = UINT64_MAX - 7;
	expect(call(fd, ULNIC_TRIPWIRE, &wire) == EINVAL);
	wire.flags = ULNIC_TRIPWIRE_DISARM;
	expect(call(fd, ULNIC_TRIPWIRE, &wire) == EINVAL);

	/* The last word of all, across the end of the numbers. */
	arm(fd, 63, LENGTH - 8, UINT64_MAX);
	words[LENGTH / 8 - 1] = UINT64_MAX;
	expect(wait_for(fd, POLLIN, 0) == 0);
	words[LENGTH / 8 - 1] = 0;
	expect(wait_for(fd, POLLIN, 0) == POLLIN);
	expect(state(fd).passed == 1ULL << 63);
	/* A level: it stays, until it is armed further on. */
	expect(wait_for(fd, POLLIN, 0) == POLLIN);
	arm(fd, 63, LENGTH - 8, 0);
	expect(wait_for(fd, POLLIN, 0) == 0);
	wire.wire = 63;
	wire.offset = 0;
	expect(call(fd, ULNIC_TRIPWIRE, &wire) == 0);
	words[LENGTH / 8 - 1] = 1;
	expect(wait_for(fd, POLLIN, 0) == 0);
	munmap(words, LENGTH);
}

static void connections(int fd)
{
	struct ulnic_disconnect disconnect = { .size = sizeof(disconnect), .connection = 64 };
	struct ulnic_lookup lookup = { .size = sizeof(lookup), .service = SERVICE };
	struct ulnic_connect connect;
	struct ulnic_info group;

	info(fd, &group);
	expect(group.version == ULNIC_VERSION && group.page == PAGE && group.slot < group.slots);
	expect(group.incarnation[group.slot] != 0);
	expect(ring(fd, 0) == ENOTCONN);
	expect(ring(fd, UINT64_MAX) == ENOTCONN);
	expect(call(fd, ULNIC_DISCONNECT, &disconnect) == ENOTCONN);
	expect(try_connect(fd, group.slots, 0, 1, &connect) == EINVAL);
	expect(try_connect(fd, UINT64_MAX, 0, 1, &connect) == EINVAL);
	expect(try_connect(fd, group.slots - 1, 0, 1, &connect) == EHOSTUNREACH);
	expect(try_connect(fd, group.slot, UINT64_MAX, 1, &connect) == EACCES);
	expect(try_connect(fd, group.slot, 255, 0, &connect) == EACCES);
	lookup.slot = group.slots;
	expect(call(fd, ULNIC_LOOKUP, &lookup) == EINVAL);
	lookup.slot = group.slots - 1;
	expect(call(fd, ULNIC_LOOKUP, &lookup) == EHOSTUNREACH);
	lookup.slot = group.slot;
	expect(call(fd, ULNIC_LOOKUP, &lookup) == ENOENT);
	lookup.service = 0;
	expect(call(fd, ULNIC_LOOKUP, &lookup) == EINVAL);
}

/* A privileged service, as somebody who is nobody. */
static void unprivileged(void)
{
	struct ulnic_lookup lookup = { .size = sizeof(lookup), .service = ULNIC_SERVICE_NICD };
	struct ulnic_bind bind = {
		.size = sizeof(bind), .length = PAGE, .service = ULNIC_SERVICE_NICD,
	};
	int fd = device_open(O_RDWR);

	expect(seteuid(65534) == 0);
	expect(call(fd, ULNIC_BIND, &bind) == EACCES);
	expect(call(fd, ULNIC_LOOKUP, &lookup) == EACCES);
	bind.service = SERVICE;
	expect(call(fd, ULNIC_BIND, &bind) == 0);
	expect(seteuid(0) == 0);
	close(fd);
}

void misuse(char **arguments)
{
	int fd = device_open(O_RDWR);

	(void)arguments;
	expect(wait_for(fd, POLLPRI, 0) == POLLPRI);
	headers(fd);
	reserved(fd);
	binding(fd);
	mappings(fd);
	read_only();
	tripwires(fd);
	connections(fd);
	unprivileged();
	close(fd);
}
