/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* The ivshmem device without its driver: what a hostile VM has. */
#ifndef RAW_H
#define RAW_H

#include <stddef.h>
#include <stdint.h>

struct raw {
	volatile uint64_t *memory;	/* the region, or its beginning */
	size_t length;
	uint64_t size;			/* of the whole region */
	volatile uint32_t *registers;
};

struct raw raw_open(void);

#endif
