// SPDX-License-Identifier: GPL-2.0
/*
 * The life of the group: our heartbeat, the others', what is to be done when
 * one comes, changes its table or dies.
 */
#include "driver.h"

#define BEAT	msecs_to_jiffies(100)

/* Heartbeats and chores run here. */
struct workqueue_struct *ulnic_queue;

int ulnic_queue_init(void)
{
	ulnic_queue = alloc_workqueue(ULNIC_NAME, WQ_UNBOUND | WQ_HIGHPRI | WQ_MEM_RECLAIM, 0);
	return ulnic_queue ? 0 : -ENOMEM;
}

void ulnic_queue_exit(void)
{
	destroy_workqueue(ulnic_queue);
}

/* Whether there is work before the next heartbeat: called when a doorbell rang. */
bool ulnic_has_news(struct ulnic_device *device)
{
	u64 slot;

	for (slot = 0; slot < device->slots; slot++) {
		struct ulnic_slot *theirs = ulnic_slot(device, slot);
		struct ulnic_peer *peer = &device->peers[slot];

		if (slot != device->slot &&
		    (READ_ONCE(theirs->incarnation) != READ_ONCE(peer->incarnation) ||
		     READ_ONCE(theirs->epoch) != READ_ONCE(peer->epoch)))
			return true;
	}
	return ulnic_is_waiting(device);
}

static enum ulnic_life life_of(struct ulnic_peer *peer, u64 incarnation, u64 beat)
{
	if (!incarnation)
		return ULNIC_EMPTY;
	if (incarnation != peer->incarnation)
		return ULNIC_SEEN;
	if (beat != peer->beat)
		return ULNIC_LIVE;
	if (time_after(jiffies, peer->since + msecs_to_jiffies(ulnic_dead_ms)))
		return ULNIC_DEAD;
	return peer->life;
}

/* What it has withdrawn is not mapped here any more: says so. */
static void acknowledge(struct ulnic_device *device, u64 slot, u64 epoch)
{
	ulnic_check_connections(device, slot, true);
	WRITE_ONCE(device->peers[slot].epoch, epoch);
	/* First the mappings are gone, then we say so. */
	smp_store_release(&ulnic_slot(device, device->slot)->seen[slot], epoch);
	ulnic_doorbell_ring(device, slot);
	ulnic_count_change(device);
}

static void look_at(struct ulnic_device *device, u64 slot)
{
	struct ulnic_slot *theirs = ulnic_slot(device, slot);
	struct ulnic_peer *peer = &device->peers[slot];
	u64 incarnation = READ_ONCE(theirs->incarnation);
	u64 beat = READ_ONCE(theirs->beat);
	/* Read before its table, which changes first. */
	u64 epoch = smp_load_acquire(&theirs->epoch);
	enum ulnic_life life = life_of(peer, incarnation, beat);

	if (life != peer->life || incarnation != peer->incarnation) {
		if (peer->life == ULNIC_LIVE) {
			ulnic_check_connections(device, slot, false);
			atomic64_inc(&device->counters.deaths);
		}
		peer->life = life;
		WRITE_ONCE(peer->incarnation, incarnation);
		peer->since = jiffies;
		ulnic_count_change(device);
	}
	if (beat != peer->beat) {
		peer->beat = beat;
		peer->since = jiffies;
	}
	WRITE_ONCE(peer->bell, READ_ONCE(theirs->bell));
	/* Our own word is written again too: another VM may have overwritten it. */
	if (incarnation && epoch != peer->epoch)
		acknowledge(device, slot, epoch);
	else
		WRITE_ONCE(ulnic_slot(device, device->slot)->seen[slot], peer->epoch);
}

/*
 * The others have given us up: all connections are void. Our apertures stay,
 * the others have unmapped them, or will before they acknowledge the new life.
 */
static void start_again(struct ulnic_device *device)
{
	struct ulnic_aperture *aperture;

	dev_warn(&device->dev, "no heartbeat for more than %u ms: joining again\n", ulnic_dead_ms);
	ulnic_reset_all(device);
	device->incarnation = ulnic_random();
	ulnic_join(device);
	list_for_each_entry(aperture, &device->quarantine, node)
		aperture->epoch = device->epoch_base;
	ulnic_announce(device);
}

static void revoke(struct ulnic_endpoint *endpoint)
{
	spin_lock_bh(&endpoint->wires_lock);
	endpoint->words = NULL;
	spin_unlock_bh(&endpoint->wires_lock);
	mutex_lock(&endpoint->lock);
	WRITE_ONCE(endpoint->is_revoked, true);
	ulnic_unmap(endpoint, 0);
	mutex_unlock(&endpoint->lock);
}

/*
 * All endpoints are void, and stay so: nothing touches the region after this.
 * Programs are woken only when that is done.
 */
void ulnic_kill(struct ulnic_device *device)
{
	struct ulnic_endpoint *endpoint;

	WRITE_ONCE(device->gone, true);
	list_for_each_entry(endpoint, &device->endpoints, node)
		revoke(endpoint);
	ulnic_reset_all(device);
	list_for_each_entry(endpoint, &device->endpoints, node)
		wake_up_poll(&endpoint->wait, EPOLLERR | EPOLLHUP);
	ulnic_count_release(device);
}

/*
 * While it stood still another VM may have taken it for dead, and its slot: two
 * words of it then have that VM's number. Any other value is no owner.
 */
static bool has_lost_slot(struct ulnic_device *device)
{
	u64 claim = READ_ONCE(ulnic_slot(device, device->slot)->claim);

	return claim && claim != device->incarnation &&
	       claim == READ_ONCE(ulnic_slot(device, device->slot)->incarnation);
}

static void beat(struct ulnic_device *device)
{
	bool is_late = time_after(jiffies, device->beaten + msecs_to_jiffies(ulnic_dead_ms));
	u64 slot;

	device->beaten = jiffies;
	device->beat++;
	if (is_late && has_lost_slot(device)) {
		dev_err(&device->dev, "another VM has taken slot %llu\n", device->slot);
		ulnic_kill(device);
		return;
	}
	if (is_late)
		start_again(device);
	else
		ulnic_restate(device);
	for (slot = 0; slot < device->slots; slot++)
		if (slot != device->slot)
			look_at(device, slot);
	ulnic_release_quarantine(device);
}

/* A doorbell has announced something: looks before the next heartbeat. */
void ulnic_chores(struct work_struct *work)
{
	struct ulnic_device *device =
		container_of(to_delayed_work(work), struct ulnic_device, chores);

	mutex_lock(&device->lock);
	if (!device->gone)
		beat(device);
	mutex_unlock(&device->lock);
}

void ulnic_heart(struct work_struct *work)
{
	struct ulnic_device *device =
		container_of(to_delayed_work(work), struct ulnic_device, heart);

	mutex_lock(&device->lock);
	if (!device->gone) {
		beat(device);
		queue_delayed_work(ulnic_queue, &device->heart, BEAT);
	}
	mutex_unlock(&device->lock);
}
