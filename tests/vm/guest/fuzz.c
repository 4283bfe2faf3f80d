// SPDX-License-Identifier: MIT OR Apache-2.0
/*
 * Random calls with half-sensible arguments, by two processes at once: the
 * kernel must bear it, and no mapping that was granted may raise a signal.
 */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "cases.h"
#include "device.h"

#define FILES 6
#define MAPPINGS 8

struct fuzzer {
	uint64_t seed;
	uint64_t done[8];	/* calls that succeeded, by request */
	int files[FILES];
	struct ulnic_bind bound[FILES];
	struct { unsigned char *at; size_t length; } mappings[MAPPINGS];
};

static uint64_t pick(struct fuzzer *fuzzer, uint64_t below)
{
	return next_random(&fuzzer->seed) % below;
}

/* Numbers at which things go wrong. */
static uint64_t number(struct fuzzer *fuzzer)
{
	static const uint64_t edges[] = {
		0, 1, 2, 7, 8, 15, 16, 63, 64, 255, 256, 1023, 1024, 4095, 4096, 8192, 1 << 20,
		1ULL << 32, (1ULL << 32) - 8, 1ULL << 63, UINT64_MAX, UINT64_MAX - 4095,
	};

	if (pick(fuzzer, 8) == 0)
		return next_random(&fuzzer->seed);
	return edges[pick(fuzzer, sizeof(edges) / sizeof(edges[0]))];
}

static const unsigned long requests[] = {
	ULNIC_INFO, ULNIC_BIND, ULNIC_LOOKUP, ULNIC_CONNECT,
	ULNIC_DISCONNECT, ULNIC_RING, ULNIC_TRIPWIRE, ULNIC_STATE,
};

/* Mostly right arguments: wrong ones are refused before anything happens. */
static void fill(struct fuzzer *fuzzer, size_t which, uint64_t *words)
{
	unsigned long size = _IOC_SIZE(requests[which]);
	struct ulnic_bind *known = &fuzzer->bound[pick(fuzzer, FILES)];
	size_t at;

	memset(words, 0, size);
	words[0] = pick(fuzzer, 20) ? size : number(fuzzer);
	words[1] = pick(fuzzer, 20) ? 0 : number(fuzzer);
	for (at = 2; at < 5 && at < size / 8 - 1; at++)
		words[at] = number(fuzzer);
	if (requests[which] == ULNIC_BIND && pick(fuzzer, 3))
		words[2] = 4096 * (1 + pick(fuzzer, 64));
	if (requests[which] == ULNIC_CONNECT && pick(fuzzer, 4)) {
		words[2] = pick(fuzzer, 3);
		words[3] = known->endpoint;
		words[4] = known->key;
	}
	if (requests[which] == ULNIC_RING || requests[which] == ULNIC_DISCONNECT)
		words[2] = pick(fuzzer, 4);
	if (!pick(fuzzer, 30))
		words[size / 8 - 1] = number(fuzzer);
}

static void ask(struct fuzzer *fuzzer, size_t file)
{
	size_t which = pick(fuzzer, sizeof(requests) / sizeof(requests[0]));
	uint64_t words[64];

	fill(fuzzer, which, words);
	if (call(fuzzer->files[file], requests[which], words))
		return;
	fuzzer->done[which]++;
	if (requests[which] == ULNIC_BIND)
		memcpy(&fuzzer->bound[file], words, sizeof(struct ulnic_bind));
}

static void touch(struct fuzzer *fuzzer, size_t which)
{
	size_t at = fuzzer->mappings[which].length;

	if (at) {
		at = pick(fuzzer, at);
		fuzzer->mappings[which].at[at] += 1;
	}
}

static void forget(struct fuzzer *fuzzer, size_t which)
{
	if (fuzzer->mappings[which].length)
		munmap(fuzzer->mappings[which].at, fuzzer->mappings[which].length);
	fuzzer->mappings[which].length = 0;
}

static void remap(struct fuzzer *fuzzer, size_t file, size_t which)
{
	uint64_t area = pick(fuzzer, 4) ? pick(fuzzer, 4) << 32 : number(fuzzer);
	uint64_t offset = (area + 4096 * pick(fuzzer, 3)) & ~4095ULL;
	size_t length = 4096 * (1 + pick(fuzzer, 4));
	void *at;

	forget(fuzzer, which);
	at = mmap(NULL, length, PROT_READ | PROT_WRITE, MAP_SHARED, fuzzer->files[file], offset);
	if (at == MAP_FAILED)
		return;
	fuzzer->mappings[which].at = at;
	fuzzer->mappings[which].length = length;
	touch(fuzzer, which);
}

static void reopen(struct fuzzer *fuzzer, size_t file)
{
	close(fuzzer->files[file]);
	fuzzer->files[file] = device_open(O_RDWR | O_NONBLOCK);
}

static void run(uint64_t seed, uint64_t count)
{
	struct fuzzer fuzzer = { .seed = seed };
	size_t file, which;

	for (file = 0; file < FILES; file++)
		fuzzer.files[file] = device_open(O_RDWR | O_NONBLOCK);
	while (count--) {
		file = pick(&fuzzer, FILES);
		which = pick(&fuzzer, MAPPINGS);
		switch (pick(&fuzzer, 16)) {
		case 0:
			reopen(&fuzzer, file);
			break;
		case 1:
		case 2:
			remap(&fuzzer, file, which);
			break;
		case 3:
			forget(&fuzzer, which);
			break;
		case 4:
		case 5:
			touch(&fuzzer, which);
			break;
		case 6:
			wait_for(fuzzer.files[file], POLLIN | POLLPRI, 0);
			break;
		default:
			ask(&fuzzer, file);
		}
	}
	for (which = 0; which < sizeof(fuzzer.done) / sizeof(fuzzer.done[0]); which++) {
		printf("%s%lu", which ? ", " : "calls that succeeded: ", fuzzer.done[which]);
		if (!fuzzer.done[which])
			fail(": request %zu never", which);
	}
	printf("\n");
	exit(0);
}

void fuzz(char **arguments)
{
	uint64_t seed = argument(arguments, 0), count = argument(arguments, 1);
	int process, status;

	for (process = 0; process < 2; process++)
		if (!fork())
			run(seed + process, count);
	for (process = 0; process < 2; process++) {
		expect(wait(&status) > 0);
		if (status)
			fail("a process ended with status %#x", status);
	}
}
