/* SPDX-License-Identifier: GPL-2.0 */
/*
 * How the VMs of a group divide the shared region. README.md says why.
 *
 *	superblock | slot 0 | slot 1 | ... | partition 0 | partition 1 | ...
 *
 * A slot and its partition belong to one VM. Each word of a slot is written
 * by that VM's driver only, so no word needs an atomic read-modify-write
 * between VMs. Everything that is read here was written by somebody else, or
 * may have been scribbled over: it is read once and checked before use.
 */
#ifndef ULNIC_REGION_H
#define ULNIC_REGION_H

#include <linux/build_bug.h>
#include <linux/types.h>

#include "ulnic.h"

#define ULNIC_MAGIC	0x313043494e4c5500ULL	/* "\0ULNIC01" */

/* Each driver writes the same words here, and refuses a region that differs. */
struct ulnic_superblock {
	u64 magic;
	u64 version;
	u64 size;
	u64 slots;
	u64 page;
};

/* A published aperture. All zeros: none. The key is written last. */
struct ulnic_entry {
	u64 key;
	u64 offset;	/* in the region, inside the partition of the slot */
	u64 length;
	u64 service;
};

struct ulnic_slot {
	u64 claim;		/* who has the slot, or wants it */
	u64 incarnation;	/* 0: nobody is here */
	u64 beat;		/* counts up as long as the VM lives */
	/*
	 * Counts the changes of the table, from a random number on. An entry
	 * is zeroed before the epoch counts that.
	 */
	u64 epoch;
	u64 bell;		/* the doorbell of this VM; ULNIC_NO_BELL: none */
	u64 reserved[3];
	/*
	 * By slot: the epoch of that slot up to which this VM has given up
	 * all mappings of apertures that were withdrawn.
	 */
	u64 seen[ULNIC_SLOTS_MAX];
	struct ulnic_entry table[ULNIC_ENDPOINTS_MAX];
};

/* The doorbell register has 16 bits for it. */
#define ULNIC_BELLS		65536
#define ULNIC_NO_BELL		(~0ULL)

#define ULNIC_SLOT_BYTES	(3 * 4096)
static_assert(sizeof(struct ulnic_slot) <= ULNIC_SLOT_BYTES);

#endif /* ULNIC_REGION_H */
