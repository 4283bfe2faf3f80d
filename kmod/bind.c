// SPDX-License-Identifier: GPL-2.0
/*
 * How an endpoint gets its aperture, and loses it.
 */
#include <linux/capability.h>

#include "driver.h"

/* How long to wait for memory that is in quarantine. */
#define QUARANTINE_WAIT_MS	5000

/* Memory, or NULL: there is none now, and `error` says whether it may come. */
static struct ulnic_aperture *try_allocate(struct ulnic_device *device, u64 length, u64 service,
					   int *error)
{
	struct ulnic_aperture *aperture = NULL;

	mutex_lock(&device->lock);
	if (device->gone) {
		*error = -ENODEV;
	} else {
		ulnic_release_quarantine(device);
		if (device->is_partition_free)
			aperture = ulnic_aperture_new(device, length, service);
		*error = ulnic_is_waiting(device) ? -EAGAIN : -ENOSPC;
	}
	mutex_unlock(&device->lock);
	return aperture;
}

static struct ulnic_aperture *allocate(struct ulnic_device *device, u64 length, u64 service,
				       bool may_wait)
{
	long left = msecs_to_jiffies(QUARANTINE_WAIT_MS);
	struct ulnic_aperture *aperture;
	unsigned int before;
	int error;

	for (;;) {
		before = READ_ONCE(device->releases);
		aperture = try_allocate(device, length, service, &error);
		if (aperture)
			return aperture;
		if (error != -EAGAIN || !may_wait)
			return ERR_PTR(error);
		left = wait_event_interruptible_timeout(device->room,
							READ_ONCE(device->releases) != before,
							left);
		if (left <= 0)
			return ERR_PTR(left ? left : -ENOSPC);
	}
}

/* The endpoint and everybody else may use it from now on. */
static int take(struct ulnic_endpoint *endpoint, struct ulnic_aperture *aperture)
{
	struct ulnic_device *device = endpoint->device;
	int error = -ENODEV;

	mutex_lock(&device->lock);
	if (!device->gone)
		error = ulnic_aperture_publish(device, aperture);
	if (error) {
		ulnic_aperture_free(device, aperture);
		goto out;
	}
	mutex_lock(&endpoint->lock);
	endpoint->aperture = aperture;
	mutex_unlock(&endpoint->lock);
	spin_lock_bh(&device->scan);
	spin_lock(&endpoint->wires_lock);
	endpoint->words = device->memory + aperture->offset;
	endpoint->words_length = aperture->length;
	spin_unlock(&endpoint->wires_lock);
	list_add_tail(&endpoint->scan_node, &device->scanned);
	spin_unlock_bh(&device->scan);
out:
	mutex_unlock(&device->lock);
	return error;
}

static int bind_once(struct ulnic_endpoint *endpoint, struct ulnic_bind *arg, bool may_wait)
{
	struct ulnic_device *device = endpoint->device;
	struct ulnic_aperture *aperture;
	int error;

	aperture = allocate(device, arg->length, arg->service, may_wait);
	if (IS_ERR(aperture))
		return PTR_ERR(aperture);
	error = ulnic_aperture_clear(device, aperture);
	if (error) {
		mutex_lock(&device->lock);
		ulnic_aperture_free(device, aperture);
		mutex_unlock(&device->lock);
		return error;
	}
	arg->key = aperture->key;
	error = take(endpoint, aperture);
	if (!error)
		arg->endpoint = endpoint->aperture->index;
	return error;
}

int ulnic_bind(struct ulnic_endpoint *endpoint, struct ulnic_bind *arg, bool may_wait)
{
	bool is_ours;
	int error;

	if (!arg->length)
		return -EINVAL;
	/* One that is longer would show in the next area of mmap(). */
	if (arg->length > min_t(u64, endpoint->device->partition, ULNIC_APERTURE_MAX))
		return -ENOSPC;
	if (arg->service && arg->service < ULNIC_SERVICE_OPEN && !capable(CAP_NET_ADMIN))
		return -EACCES;
	arg->length = PAGE_ALIGN(arg->length);

	mutex_lock(&endpoint->lock);
	is_ours = !endpoint->is_binding && !endpoint->aperture;
	if (is_ours)
		endpoint->is_binding = true;
	mutex_unlock(&endpoint->lock);
	if (!is_ours)
		return -EISCONN;

	error = bind_once(endpoint, arg, may_wait);

	mutex_lock(&endpoint->lock);
	endpoint->is_binding = false;
	mutex_unlock(&endpoint->lock);
	return error;
}

/* Nobody uses the endpoint any more; device->lock is held. */
void ulnic_unbind(struct ulnic_endpoint *endpoint)
{
	struct ulnic_device *device = endpoint->device;
	struct ulnic_aperture *aperture = endpoint->aperture;

	if (!aperture)
		return;
	spin_lock_bh(&device->scan);
	list_del(&endpoint->scan_node);
	spin_unlock_bh(&device->scan);
	endpoint->aperture = NULL;
	if (device->gone) {
		device->table[aperture->index] = NULL;
		ulnic_aperture_free(device, aperture);
	} else {
		ulnic_aperture_withdraw(device, aperture);
	}
}
