// SPDX-License-Identifier: GPL-2.0
/*
 * Looks at tripwires. A wire is a level: the word is read by poll() and by
 * every scan, so that it does not matter how many doorbells became one
 * interrupt.
 *
 * Without doorbells (ivshmem-plain) a timer scans as long as an endpoint waits,
 * the less often the longer nothing comes.
 */
#include "driver.h"

#define OFTEN		(200 * NSEC_PER_USEC)
#define SELDOM		(4 * NSEC_PER_MSEC)

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
			/* A waiter that joins the queue after this calls ulnic_watch() next. */
			is_awaited |= waitqueue_active(&endpoint->wait);
		}
	}
	spin_unlock_bh(&device->scan);
	return is_awaited;
}

/* It starts itself anew: hrtimer_forward() must not meet ulnic_watch(). */
static enum hrtimer_restart time_to_look(struct hrtimer *timer)
{
	struct ulnic_device *device = container_of(timer, struct ulnic_device, timer);
	u64 interval = min_t(u64, 2 * READ_ONCE(device->interval), SELDOM);

	if (!ulnic_scan(device) || READ_ONCE(device->gone))
		return HRTIMER_NORESTART;
	WRITE_ONCE(device->interval, interval);
	hrtimer_start(timer, ns_to_ktime(interval), HRTIMER_MODE_REL_SOFT);
	return HRTIMER_NORESTART;
}

/*
 * An endpoint is about to wait. The timer may be in its last round: it is started
 * whenever it is not queued.
 */
void ulnic_watch(struct ulnic_device *device)
{
	if (device->has_doorbell || READ_ONCE(device->gone))
		return;
	if (hrtimer_is_queued(&device->timer) && READ_ONCE(device->interval) == OFTEN)
		return;
	WRITE_ONCE(device->interval, OFTEN);
	hrtimer_start(&device->timer, OFTEN, HRTIMER_MODE_REL_SOFT);
}

void ulnic_watch_init(struct ulnic_device *device)
{
	ulnic_timer_setup(&device->timer, time_to_look, HRTIMER_MODE_REL_SOFT);
}
