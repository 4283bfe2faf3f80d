// SPDX-License-Identifier: GPL-2.0
/*
 * Tripwires, and what poll() says. A wire is a level: the word is read by
 * poll() and by every scan, so that it does not matter how many doorbells
 * became one interrupt.
 */
#include <linux/nospec.h>

#include "driver.h"

static int change(struct ulnic_endpoint *endpoint, struct ulnic_tripwire *arg)
{
	if (!endpoint->words)
		return -ENOTCONN;
	if (arg->flags & ULNIC_TRIPWIRE_DISARM) {
		if (arg->offset || arg->position)
			return -EINVAL;
		endpoint->armed &= ~BIT_ULL(arg->wire);
		return 0;
	}
	if (arg->offset % sizeof(u64) || arg->offset >= endpoint->words_length)
		return -EINVAL;
	endpoint->wires[arg->wire].offset = arg->offset;
	endpoint->wires[arg->wire].position = arg->position;
	endpoint->armed |= BIT_ULL(arg->wire);
	return 0;
}

int ulnic_tripwire(struct ulnic_endpoint *endpoint, struct ulnic_tripwire *arg)
{
	u64 passed;
	int error;

	if (arg->wire >= ULNIC_WIRES_MAX)
		return -EINVAL;
	arg->wire = array_index_nospec(arg->wire, ULNIC_WIRES_MAX);
	spin_lock_bh(&endpoint->wires_lock);
	error = change(endpoint, arg);
	spin_unlock_bh(&endpoint->wires_lock);
	/* Somebody may be in poll() already. */
	passed = error ? 0 : ulnic_passed(endpoint);
	if (passed)
		wake_up_poll(&endpoint->wait, EPOLLIN | EPOLLRDNORM);
	else if (!error)
		ulnic_watch(endpoint->device);
	return error;
}

static u64 passed_now(struct ulnic_endpoint *endpoint)
{
	u64 left = endpoint->words ? endpoint->armed : 0, passed = 0;

	while (left) {
		unsigned int wire = __ffs64(left);
		u64 *word = (u64 *)(endpoint->words + endpoint->wires[wire].offset);

		if ((s64)(READ_ONCE(*word) - endpoint->wires[wire].position) > 0)
			passed |= BIT_ULL(wire);
		left &= left - 1;
	}
	return passed;
}

u64 ulnic_passed(struct ulnic_endpoint *endpoint)
{
	u64 passed;

	spin_lock_bh(&endpoint->wires_lock);
	passed = passed_now(endpoint);
	spin_unlock_bh(&endpoint->wires_lock);
	return passed;
}

__poll_t ulnic_poll(struct file *file, poll_table *wait)
{
	struct ulnic_endpoint *endpoint = file->private_data;
	struct ulnic_device *device = endpoint->device;
	__poll_t mask = 0;

	poll_wait(file, &endpoint->wait, wait);
	if (READ_ONCE(endpoint->is_revoked) || READ_ONCE(endpoint->dead))
		mask |= EPOLLERR | EPOLLHUP;
	if (READ_ONCE(device->generation) != READ_ONCE(endpoint->generation))
		mask |= EPOLLPRI;
	if (ulnic_passed(endpoint))
		mask |= EPOLLIN | EPOLLRDNORM;
	else
		ulnic_watch(device);
	return mask;
}

/*
 * Looks at all wires of all endpoints here (at most ULNIC_ENDPOINTS_MAX times
 * ULNIC_WIRES_MAX words) and wakes those that have passed ones. Says whether
 * anybody still waits for one.
 */
bool ulnic_scan(struct ulnic_device *device)
{
	struct ulnic_endpoint *endpoint;
	bool is_awaited = false;

	spin_lock_bh(&device->scan);
	list_for_each_entry(endpoint, &device->scanned, scan_node) {
		if (ulnic_passed(endpoint)) {
			atomic64_inc(&endpoint->fired);
			atomic64_inc(&device->counters.tripwires_fired);
			wake_up_poll(&endpoint->wait, EPOLLIN | EPOLLRDNORM);
		} else if (READ_ONCE(endpoint->armed)) {
			/* Who joins the queue too late for this calls ulnic_watch() next. */
			is_awaited |= waitqueue_active(&endpoint->wait);
		}
	}
	spin_unlock_bh(&device->scan);
	return is_awaited;
}
