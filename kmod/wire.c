// SPDX-License-Identifier: GPL-2.0
/*
 * How a program arms tripwires, and what poll() tells it.
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
	/* A thread may be in poll() already. */
	passed = error ? 0 : ulnic_passed(endpoint);
	if (passed)
		wake_up_poll(&endpoint->wait, EPOLLIN | EPOLLRDNORM);
	else if (!error)
		ulnic_watch(endpoint->device);
	return error;
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
