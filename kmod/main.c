// SPDX-License-Identifier: GPL-2.0
/*
 * The module: what it starts, in order, and stops in the opposite order.
 */
#include <linux/module.h>

#include "driver.h"

static int __init start(void)
{
	int error;

	BUILD_BUG_ON(sizeof(long) != sizeof(u64));
	error = ulnic_queue_init();
	if (error)
		return error;
	error = ulnic_inodes_init();
	if (error)
		goto no_inodes;
	error = ulnic_devices_init();
	if (error)
		goto no_devices;
	ulnic_debug_init();
	error = pci_register_driver(&ulnic_pci_driver);
	if (error)
		goto no_driver;
	return 0;

no_driver:
	ulnic_debug_exit();
	ulnic_devices_exit();
no_devices:
	ulnic_inodes_exit();
no_inodes:
	ulnic_queue_exit();
	return error;
}

static void __exit stop(void)
{
	pci_unregister_driver(&ulnic_pci_driver);
	ulnic_debug_exit();
	ulnic_devices_exit();
	ulnic_inodes_exit();
	ulnic_queue_exit();
}

module_init(start);
module_exit(stop);

MODULE_DESCRIPTION("Memory-mapped NIC between virtual machines over ivshmem");
MODULE_AUTHOR("The ulsock authors");
MODULE_LICENSE("GPL");
