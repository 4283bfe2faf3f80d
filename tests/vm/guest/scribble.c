// SPDX-License-Identifier: MIT OR Apache-2.0
/*
 * A hostile VM: it maps the whole region past the driver, writes rubbish over
 * it, and rings everybody all the time.
 */
#include <stdio.h>
#include <time.h>

#include "cases.h"
#include "device.h"
#include "raw.h"

#define PAGE 4096
#define SLOTS_BYTES (64 * PAGE)
#define DOORBELL 3	/* word of BAR 0 */

/* Rubbish, or what looks like sense: small numbers, words of somewhere else. */
static uint64_t rubbish(uint64_t *seed, volatile uint64_t *memory)
{
	uint64_t dice = next_random(seed);

	switch (dice % 4) {
	case 0:
		return next_random(seed) % 4096;
	case 1:
		return memory[next_random(seed) % (SLOTS_BYTES / 8)] + dice % 3;
	case 2:
		return (next_random(seed) % 65536) * 4096;
	default:
		return next_random(seed);
	}
}

/* Mostly where the drivers talk; anywhere; and where owners of apertures say who they are. */
static size_t somewhere(uint64_t *seed, size_t length)
{
	switch (next_random(seed) % 16) {
	case 0:
		return next_random(seed) % (length / 8);
	case 1:
		return next_random(seed) % (length / PAGE) * (PAGE / 8) + next_random(seed) % 8;
	default:
		return next_random(seed) % (SLOTS_BYTES / 8);
	}
}

void scribble(char **arguments)
{
	uint64_t seed = argument(arguments, 0), words = 0, at;
	time_t end = time(NULL) + argument(arguments, 1);
	struct raw raw = raw_open();
	volatile uint64_t *memory = raw.memory;

	while (time(NULL) < end) {
		for (at = 0; at < 10000; at++, words++) {
			memory[somewhere(&seed, raw.length)] = rubbish(&seed, memory);
			if (at % 16 == 0)
				raw.registers[DOORBELL] = (at / 16 % 4) << 16;
		}
	}
	printf("%lu words\n", words);
}
