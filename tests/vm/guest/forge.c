// SPDX-License-Identifier: MIT OR Apache-2.0
/*
 * A hostile VM that keeps to the protocol (kmod/region.h) but for what its table
 * says: apertures that are not its own. Another one tries to connect to them.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#include "cases.h"
#include "device.h"
#include "raw.h"

#define PAGE 4096
#define SLOTS 16
#define SLOT_BYTES (3 * PAGE)
#define FIRST (PAGE + SLOTS * SLOT_BYTES)
#define KEY 77

/* Words of a slot, and of an entry of its table. */
enum { INCARNATION = 1, BEAT = 2, EPOCH = 3, BELL = 4, TABLE = 24, ENTRY = 4 };

struct lie {
	uint64_t offset;
	uint64_t length;
};

/* The first is no lie. */
static size_t lies(uint64_t slot, uint64_t size, struct lie *told)
{
	uint64_t partition = (size - FIRST) / SLOTS / PAGE * PAGE;
	uint64_t own = FIRST + slot * partition;
	const struct lie all[] = {
		{ own, partition < ULNIC_APERTURE_MAX ? partition : ULNIC_APERTURE_MAX },
		{ 0, PAGE },				/* the superblock */
		{ PAGE, PAGE },				/* a slot */
		{ own - PAGE, PAGE },			/* the neighbours' */
		{ own - PAGE, 2 * PAGE },
		{ own + partition, PAGE },
		{ own, partition + PAGE },
		{ own + partition - PAGE, 2 * PAGE },
		{ own + PAGE, UINT64_MAX - own + 1 - PAGE },	/* wraps */
		{ own + PAGE, UINT64_MAX / PAGE * PAGE },
		{ size, PAGE },				/* not in the region */
		{ UINT64_MAX / PAGE * PAGE, 2 * PAGE },
		{ own + 8, PAGE },
		{ own, PAGE + 8 },
		{ own, 0 },
		{ own, ULNIC_APERTURE_MAX + PAGE },	/* would show as another's */
	};
	size_t at;

	for (at = 0; at < sizeof(all) / sizeof(all[0]); at++)
		told[at] = all[at];
	return at;
}

void forge(char **arguments)
{
	uint64_t slot = argument(arguments, 0), beat;
	struct raw raw = raw_open();
	volatile uint64_t *words = raw.memory + (PAGE + slot * SLOT_BYTES) / 8;
	struct lie told[32];
	size_t count = lies(slot, raw.size, told), at;

	for (at = 0; at < count; at++) {
		volatile uint64_t *entry = words + TABLE + ENTRY * at;

		entry[1] = told[at].offset;
		entry[2] = told[at].length;
		entry[3] = SERVICE + at;
		entry[0] = KEY + at;
	}
	words[BELL] = UINT64_MAX;
	words[EPOCH] = 1;
	words[INCARNATION] = 1;
	printf("ready\n");
	for (beat = 1;; beat++) {
		words[BEAT] = beat;
		usleep(20000);
	}
}

void deceived(char **arguments)
{
	uint64_t slot = argument(arguments, 0), size = argument(arguments, 1);
	int fd = device_open(O_RDWR);
	struct ulnic_connect connect;
	struct ulnic_lookup lookup = { .size = sizeof(lookup), .slot = slot };
	struct lie told[32];
	size_t count = lies(slot, size, told), at;

	found(fd, slot, SERVICE);
	expect(try_connect(fd, slot, 0, KEY, &connect) == 0);
	expect(connect.length == told[0].length);
	munmap(map(fd, connect.offset, connect.length), connect.length);
	for (at = 1; at < count; at++) {
		if (try_connect(fd, slot, at, KEY + at, &connect) != EACCES)
			fail("connected to offset %#lx, length %#lx", told[at].offset, told[at].length);
		lookup.service = SERVICE + at;
		expect(call(fd, ULNIC_LOOKUP, &lookup) == ENOENT);
	}
}
