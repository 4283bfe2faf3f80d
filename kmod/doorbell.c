// SPDX-License-Identifier: GPL-2.0
/*
 * How another VM is rung. All that a doorbell means is "look".
 */
#include <linux/io.h>

#include "driver.h"

#define REGISTER_DOORBELL	12

void ulnic_doorbell_ring(struct ulnic_device *device, u64 slot)
{
	u64 bell = READ_ONCE(device->peers[slot].bell);

	atomic64_inc(&device->counters.doorbells_out);
	if (slot == device->slot)
		ulnic_scan(device);
	else if (device->has_doorbell && bell < ULNIC_BELLS)
		writel((u32)bell << 16 | ULNIC_VECTOR, device->registers + REGISTER_DOORBELL);
}
