// SPDX-License-Identifier: GPL-2.0
/*
 * The shared region: how it is divided, how a VM takes a slot, and what it
 * says of itself there.
 */
#include <linux/delay.h>
#include <linux/nospec.h>
#include <linux/random.h>
#include <linux/sizes.h>

#include "driver.h"

/* A claim stands when no other VM has overwritten it for so long. */
#define SETTLE_MS	400
#define CLAIMS		10

#define REGISTER_POSITION	8

struct ulnic_slot *ulnic_slot(struct ulnic_device *device, u64 slot)
{
	return (void *)(device->memory + PAGE_SIZE + slot * ULNIC_SLOT_BYTES);
}

/* A number that cannot be guessed, and that no other VM has. */
u64 ulnic_random(void)
{
	u64 number;

	do {
		number = get_random_u64();
	} while (!number);
	return number;
}

/*
 * All of it must be whole pages of one partition, and no more than can be
 * mapped: anything may be asked here.
 */
bool ulnic_is_in_partition(struct ulnic_device *device, u64 slot, u64 offset, u64 length)
{
	u64 start = device->first + slot * device->partition;

	return offset >= start && offset - start < device->partition &&
	       length && length <= device->partition - (offset - start) &&
	       length <= ULNIC_APERTURE_MAX &&
	       PAGE_ALIGNED(offset) && PAGE_ALIGNED(length);
}

/* Of our own table we know better than what stands in the region. */
static int own_entry(struct ulnic_device *device, u64 index, struct ulnic_entry *entry)
{
	struct ulnic_aperture *aperture = device->table[index];

	if (!aperture)
		return -ENOENT;
	entry->key = aperture->key;
	entry->offset = aperture->offset;
	entry->length = aperture->length;
	entry->service = aperture->service;
	return 0;
}

/*
 * An entry of a VM's table: each word is read once, and the key again after
 * them, since its owner may be changing it.
 */
int ulnic_read_entry(struct ulnic_device *device, u64 slot, u64 index, struct ulnic_entry *entry)
{
	struct ulnic_entry *from;

	/* Programs ask for any: no guess of the processor is to read beyond. */
	slot = array_index_nospec(slot, device->slots);
	index = array_index_nospec(index, ULNIC_ENDPOINTS_MAX);
	from = &ulnic_slot(device, slot)->table[index];
	if (slot == device->slot)
		return own_entry(device, index, entry);
	/* The key is written last, so that the others are there. */
	entry->key = smp_load_acquire(&from->key);
	entry->offset = READ_ONCE(from->offset);
	entry->length = READ_ONCE(from->length);
	entry->service = READ_ONCE(from->service);
	/* The key is read again after the words that it stands for. */
	smp_rmb();
	if (!entry->key || READ_ONCE(from->key) != entry->key)
		return -ENOENT;
	if (!ulnic_is_in_partition(device, slot, entry->offset, entry->length))
		return -ENOENT;
	return 0;
}

static struct ulnic_superblock superblock_of(struct ulnic_device *device)
{
	struct ulnic_superblock block = {
		.magic = ULNIC_MAGIC,
		.version = ULNIC_VERSION,
		.size = device->size,
		.slots = device->slots,
		.page = PAGE_SIZE,
	};

	return block;
}

static void write_superblock(struct ulnic_device *device)
{
	struct ulnic_superblock block = superblock_of(device);

	memcpy(device->memory, &block, sizeof(block));
}

/* Every VM finds the same division, since it follows from the size alone. */
int ulnic_divide(struct ulnic_device *device)
{
	u64 *block = (void *)device->memory, there[sizeof(struct ulnic_superblock) / sizeof(u64)];
	struct ulnic_superblock ours;
	size_t at;

	if (device->size < SZ_1M)
		return -EINVAL;
	device->slots = clamp_t(u64, device->size / SZ_1M, 2, ULNIC_SLOTS_MAX);
	device->first = PAGE_ALIGN(PAGE_SIZE + device->slots * ULNIC_SLOT_BYTES);
	device->partition = rounddown((device->size - device->first) / device->slots, PAGE_SIZE);
	ours = superblock_of(device);

	for (at = 0; at < ARRAY_SIZE(there); at++)
		there[at] = READ_ONCE(block[at]);
	if (there[0])
		return memcmp(&ours, there, sizeof(ours)) ? -EPROTO : 0;
	write_superblock(device);
	return 0;
}

/* The first slot where nobody is and wants to be, or else where nothing moves. */
static int free_slot(struct ulnic_device *device, u64 *found)
{
	u64 beats[ULNIC_SLOTS_MAX], claims[ULNIC_SLOTS_MAX], slot;

	for (slot = 0; slot < device->slots; slot++) {
		struct ulnic_slot *there = ulnic_slot(device, slot);

		beats[slot] = READ_ONCE(there->beat);
		claims[slot] = READ_ONCE(there->claim);
		if (!claims[slot] && !READ_ONCE(there->incarnation)) {
			*found = slot;
			return 0;
		}
	}
	msleep(ulnic_dead_ms);
	for (slot = 0; slot < device->slots; slot++) {
		struct ulnic_slot *there = ulnic_slot(device, slot);

		if (READ_ONCE(there->beat) == beats[slot] &&
		    READ_ONCE(there->claim) == claims[slot]) {
			*found = slot;
			return 0;
		}
	}
	return -ENOSPC;
}

/*
 * A VM that wants a slot writes a random number there, and has it if that number
 * still stands after a while. The owner of a slot writes its number again with each
 * heartbeat, so that a late claim does not stand.
 */
static int claim_any(struct ulnic_device *device)
{
	u64 slot, number;
	int error, tries;

	for (tries = 0; tries < CLAIMS; tries++) {
		error = free_slot(device, &slot);
		if (error)
			return error;
		number = ulnic_random();
		WRITE_ONCE(ulnic_slot(device, slot)->claim, number);
		msleep(SETTLE_MS + get_random_u32() % SETTLE_MS);
		if (READ_ONCE(ulnic_slot(device, slot)->claim) == number) {
			device->slot = slot;
			device->incarnation = number;
			return 0;
		}
	}
	return -EBUSY;
}

/*
 * The server of ivshmem-doorbell has given us a number that no other VM has:
 * if there is a slot of that number we need not wait, unless somebody has
 * claimed it by the other way.
 */
static bool claim_own(struct ulnic_device *device)
{
	struct ulnic_slot *slot;

	if (device->bell >= device->slots)
		return false;
	slot = ulnic_slot(device, device->bell);
	if (READ_ONCE(slot->claim) && READ_ONCE(slot->bell) != device->bell)
		return false;
	device->slot = device->bell;
	device->incarnation = ulnic_random();
	WRITE_ONCE(slot->claim, device->incarnation);
	return true;
}

/*
 * The numbers themselves cannot be the slots: QEMU (7.2) must not see a number
 * for the second time, since it has freed what it kept for the first one
 * (hw/misc/ivshmem.c, close_peer_eventfds()), so that they only grow.
 */
int ulnic_claim(struct ulnic_device *device)
{
	device->bell = ULNIC_NO_BELL;
	if (device->has_doorbell)
		device->bell = readl(device->registers + REGISTER_POSITION);
	return claim_own(device) ? 0 : claim_any(device);
}

/* Starts a life in our slot: what an earlier one has left there is void. */
void ulnic_join(struct ulnic_device *device)
{
	struct ulnic_slot *ours = ulnic_slot(device, device->slot);

	WRITE_ONCE(ours->incarnation, 0);
	memset(ours->table, 0, sizeof(ours->table));
	memset(ours->seen, 0, sizeof(ours->seen));
	device->epoch_base = get_random_u64();
	device->epoch = device->epoch_base;
	device->is_partition_free = false;
	ulnic_restate(device);
}

/* Peers need not wait for our heart to stand still. */
void ulnic_leave(struct ulnic_device *device)
{
	struct ulnic_slot *ours = ulnic_slot(device, device->slot);

	memset(ours->table, 0, sizeof(ours->table));
	WRITE_ONCE(ours->claim, 0);
	/* A VM that finds the slot empty finds no table either. */
	smp_store_release(&ours->incarnation, 0);
}

/* Writes an entry of our table as `device->table` has it. */
void ulnic_publish(struct ulnic_device *device, u64 index)
{
	struct ulnic_entry *entry = &ulnic_slot(device, device->slot)->table[index];
	struct ulnic_aperture *aperture = device->table[index];

	if (!aperture) {
		WRITE_ONCE(entry->key, 0);
		/* No VM may find this key with the words of the next entry. */
		smp_wmb();
		return;
	}
	WRITE_ONCE(entry->offset, aperture->offset);
	WRITE_ONCE(entry->length, aperture->length);
	WRITE_ONCE(entry->service, aperture->service);
	/* A VM that finds the key finds the words that it stands for. */
	smp_store_release(&entry->key, aperture->key);
}

/*
 * Writes all that we say of ourselves, the table before the epoch that counts
 * its changes. Done again with each heartbeat, since somebody may have
 * scribbled over it.
 */
void ulnic_restate(struct ulnic_device *device)
{
	struct ulnic_slot *ours = ulnic_slot(device, device->slot);
	u64 index;

	write_superblock(device);
	for (index = 0; index < ULNIC_ENDPOINTS_MAX; index++)
		ulnic_publish(device, index);
	/* A VM that acknowledges the epoch has seen the table. */
	smp_store_release(&ours->epoch, device->epoch);
	WRITE_ONCE(ours->claim, device->incarnation);
	WRITE_ONCE(ours->beat, device->beat);
	WRITE_ONCE(ours->bell, device->bell);
	/* A VM that finds the new life finds nothing of the last one. */
	smp_store_release(&ours->incarnation, device->incarnation);
}
