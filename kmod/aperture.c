// SPDX-License-Identifier: GPL-2.0
/*
 * The memory of our partition: who has which pages, and when pages may have a
 * new owner. All of it under device->lock.
 *
 * Pages that were withdrawn are in quarantine until every VM that might have
 * them mapped has said that it has not, or has been dead for a good while (a
 * VM that was only paused may wake up and write before its driver finds out).
 */
#include <linux/bitmap.h>
#include <linux/sizes.h>
#include <linux/slab.h>

#include "driver.h"

/* So much is zeroed at a time, with the lock held. */
#define CLEAR_STEP	SZ_64K

static u64 start_of(struct ulnic_device *device)
{
	return device->first + device->slot * device->partition;
}

static unsigned long page_of(struct ulnic_device *device, struct ulnic_aperture *aperture)
{
	return (aperture->offset - start_of(device)) >> PAGE_SHIFT;
}

/* `length`: whole pages. NULL: no room. */
struct ulnic_aperture *ulnic_aperture_new(struct ulnic_device *device, u64 length, u64 service)
{
	unsigned long pages = device->partition >> PAGE_SHIFT;
	unsigned long wanted = length >> PAGE_SHIFT, at;
	struct ulnic_aperture *aperture;

	at = bitmap_find_next_zero_area(device->pages, pages, 0, wanted, 0);
	if (at >= pages)
		return NULL;
	aperture = kzalloc(sizeof(*aperture), GFP_KERNEL_ACCOUNT);
	if (!aperture)
		return NULL;
	bitmap_set(device->pages, at, wanted);
	INIT_LIST_HEAD(&aperture->node);
	aperture->offset = start_of(device) + ((u64)at << PAGE_SHIFT);
	aperture->length = length;
	aperture->service = service;
	aperture->key = ulnic_random();
	return aperture;
}

/* Endpoints that wait for memory should try again. */
void ulnic_count_release(struct ulnic_device *device)
{
	WRITE_ONCE(device->releases, device->releases + 1);
	wake_up_all(&device->room);
}

void ulnic_aperture_free(struct ulnic_device *device, struct ulnic_aperture *aperture)
{
	bitmap_clear(device->pages, page_of(device, aperture), aperture->length >> PAGE_SHIFT);
	kfree(aperture);
	ulnic_count_release(device);
}

/* Zeroes it, before anybody can see it. Takes device->lock by itself, by steps. */
int ulnic_aperture_clear(struct ulnic_device *device, struct ulnic_aperture *aperture)
{
	u64 at;

	for (at = 0; at < aperture->length; at += CLEAR_STEP) {
		u64 length = min_t(u64, CLEAR_STEP, aperture->length - at);

		mutex_lock(&device->lock);
		if (!device->gone)
			memset(device->memory + aperture->offset + at, 0, length);
		mutex_unlock(&device->lock);
		cond_resched();
	}
	return READ_ONCE(device->gone) ? -ENODEV : 0;
}

static bool is_taken(struct ulnic_device *device, u64 service)
{
	u64 index;

	for (index = 0; index < ULNIC_ENDPOINTS_MAX; index++)
		if (device->table[index] && device->table[index]->service == service)
			return true;
	return false;
}

/* From now on it can be connected to. */
int ulnic_aperture_publish(struct ulnic_device *device, struct ulnic_aperture *aperture)
{
	u64 index = 0;

	if (aperture->service && is_taken(device, aperture->service))
		return -EADDRINUSE;
	while (index < ULNIC_ENDPOINTS_MAX && device->table[index])
		index++;
	if (index == ULNIC_ENDPOINTS_MAX)
		return -ENOSPC;
	device->table[index] = aperture;
	aperture->index = index;
	ulnic_publish(device, index);
	ulnic_announce(device);
	return 0;
}

/* Its owner is gone. Endpoints of this VM that are connected to it lose it at once. */
void ulnic_aperture_withdraw(struct ulnic_device *device, struct ulnic_aperture *aperture)
{
	device->table[aperture->index] = NULL;
	ulnic_publish(device, aperture->index);
	ulnic_check_connections(device, device->slot, true);
	ulnic_announce(device);
	aperture->epoch = device->epoch;
	list_add_tail(&aperture->node, &device->quarantine);
	ulnic_release_quarantine(device);
}

/*
 * Whether VM `slot` has acknowledged our `epoch`. What it says may be of an
 * earlier life of ours (then it is no number between the base and now), or
 * any other number.
 */
static bool has_acknowledged(struct ulnic_device *device, u64 slot, u64 epoch)
{
	u64 seen = READ_ONCE(ulnic_slot(device, slot)->seen[device->slot]);
	u64 base = device->epoch_base;

	return seen - base <= device->epoch - base && seen - base >= epoch - base;
}

static bool is_past(struct ulnic_device *device, u64 epoch, unsigned int after_death_ms)
{
	u64 slot;

	for (slot = 0; slot < device->slots; slot++) {
		struct ulnic_peer *peer = &device->peers[slot];

		if (slot == device->slot || peer->life == ULNIC_EMPTY ||
		    has_acknowledged(device, slot, epoch))
			continue;
		if (peer->life != ULNIC_DEAD ||
		    time_before(jiffies, peer->since + msecs_to_jiffies(after_death_ms)))
			return false;
	}
	return true;
}

/* Frees the apertures that no VM can have mapped any more. */
void ulnic_release_quarantine(struct ulnic_device *device)
{
	struct ulnic_aperture *aperture, *next;

	/* The epoch in which this life began, after which nothing of the last is mapped. */
	if (!device->is_partition_free && is_past(device, device->epoch_base, 0)) {
		WRITE_ONCE(device->is_partition_free, true);
		ulnic_count_release(device);
	}
	list_for_each_entry_safe(aperture, next, &device->quarantine, node) {
		if (!is_past(device, aperture->epoch, ulnic_quarantine_ms))
			continue;
		list_del(&aperture->node);
		ulnic_aperture_free(device, aperture);
	}
}

/* Whether an acknowledgment would change anything. */
bool ulnic_is_waiting(struct ulnic_device *device)
{
	return !READ_ONCE(device->is_partition_free) || !list_empty_careful(&device->quarantine);
}

/* The device is gone: no memory needs to be kept from reuse. */
void ulnic_forget_apertures(struct ulnic_device *device)
{
	struct ulnic_aperture *aperture, *next;

	list_for_each_entry_safe(aperture, next, &device->quarantine, node)
		kfree(aperture);
	INIT_LIST_HEAD(&device->quarantine);
}
