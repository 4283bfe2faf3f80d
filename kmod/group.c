// SPDX-License-Identifier: GPL-2.0
/*
 * The group as this VM knows it: who is live, and how a change of it is told
 * to the other VMs and to our endpoints.
 */
#include "driver.h"

bool ulnic_is_live(struct ulnic_device *device, u64 slot)
{
	return slot == device->slot || device->peers[slot].life == ULNIC_LIVE;
}

/* Tells every endpoint that ULNIC_INFO has something new to say. */
void ulnic_count_change(struct ulnic_device *device)
{
	struct ulnic_endpoint *endpoint;

	WRITE_ONCE(device->generation, device->generation + 1);
	list_for_each_entry(endpoint, &device->endpoints, node)
		wake_up_poll(&endpoint->wait, EPOLLPRI);
}

/* Our table has changed, and stands in the region: counts it, rings the others. */
void ulnic_announce(struct ulnic_device *device)
{
	u64 slot;

	device->epoch++;
	/* A VM that acknowledges the epoch has seen the table. */
	smp_store_release(&ulnic_slot(device, device->slot)->epoch, device->epoch);
	for (slot = 0; slot < device->slots; slot++)
		if (slot != device->slot && device->peers[slot].life != ULNIC_EMPTY)
			ulnic_doorbell_ring(device, slot);
	ulnic_count_change(device);
}
