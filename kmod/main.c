// SPDX-License-Identifier: GPL-2.0
/*
 * The module: its parameters, the class and numbers of its devices, and the
 * inodes that stand for what endpoints map.
 */
#include <linux/bitmap.h>
#include <linux/idr.h>
#include <linux/module.h>
#include <linux/mount.h>
#include <linux/pseudo_fs.h>
#include <linux/slab.h>

#include "driver.h"

#define DEVICES		16
#define FS_MAGIC	0x756c6e63	/* "ulnc" */

unsigned int ulnic_dead_ms = 2000;
module_param_named(dead_ms, ulnic_dead_ms, uint, 0444);
MODULE_PARM_DESC(dead_ms, "a VM is dead when its heart stood still for so long");

unsigned int ulnic_quarantine_ms = 30000;
module_param_named(quarantine_ms, ulnic_quarantine_ms, uint, 0444);
MODULE_PARM_DESC(quarantine_ms, "how long memory is kept from reuse for the sake of a dead VM");

unsigned int ulnic_budget = 20;
module_param_named(doorbell_budget, ulnic_budget, uint, 0444);
MODULE_PARM_DESC(doorbell_budget, "interrupts in a millisecond before the vector is masked");

struct workqueue_struct *ulnic_queue;

static dev_t first_number;
static DEFINE_IDA(minors);
static struct vfsmount *inodes;

static struct class ulnic_class = {
	.name = ULNIC_NAME,
	.dev_groups = ulnic_groups,
};

static int init_fs(struct fs_context *context)
{
	return init_pseudo(context, FS_MAGIC) ? 0 : -ENOMEM;
}

/* No owner: it is mounted by the module itself, which would never unload. */
static struct file_system_type inode_type = {
	.name = ULNIC_NAME,
	.init_fs_context = init_fs,
	.kill_sb = kill_anon_super,
};

struct inode *ulnic_new_inode(void)
{
	return alloc_anon_inode(inodes->mnt_sb);
}

static void free_device(struct device *dev)
{
	struct ulnic_device *device = container_of(dev, struct ulnic_device, dev);

	/* poll() may have started it after the device was gone. */
	if (!device->has_doorbell)
		hrtimer_cancel(&device->timer);
	ida_free(&minors, device->minor);
	bitmap_free(device->pages);
	kfree(device);
}

/* Ends with put_device(). */
struct ulnic_device *ulnic_device_new(struct pci_dev *pdev)
{
	struct ulnic_device *device = kzalloc(sizeof(*device), GFP_KERNEL);

	if (!device)
		return ERR_PTR(-ENOMEM);
	device->minor = ida_alloc_max(&minors, DEVICES - 1, GFP_KERNEL);
	if (device->minor < 0) {
		int error = device->minor;

		kfree(device);
		return ERR_PTR(error);
	}
	device->pdev = pdev;
	device->has_doorbell = pdev->msix_cap;
	device->generation = 1;
	mutex_init(&device->lock);
	INIT_LIST_HEAD(&device->quarantine);
	init_waitqueue_head(&device->room);
	INIT_LIST_HEAD(&device->endpoints);
	spin_lock_init(&device->scan);
	INIT_LIST_HEAD(&device->scanned);
	INIT_DELAYED_WORK(&device->heart, ulnic_heart);
	INIT_DELAYED_WORK(&device->chores, ulnic_chores);
	ulnic_doorbell_init(device);

	device_initialize(&device->dev);
	device->dev.class = &ulnic_class;
	device->dev.parent = &pdev->dev;
	device->dev.devt = MKDEV(MAJOR(first_number), device->minor);
	device->dev.release = free_device;
	dev_set_name(&device->dev, ULNIC_NAME "%d", device->minor);
	cdev_init(&device->cdev, &ulnic_fops);
	device->cdev.owner = THIS_MODULE;
	return device;
}

/* From now on it can be opened. */
int ulnic_device_add(struct ulnic_device *device)
{
	int error = cdev_device_add(&device->cdev, &device->dev);

	if (!error)
		ulnic_debug_add(device);
	return error;
}

void ulnic_device_del(struct ulnic_device *device)
{
	ulnic_debug_del(device);
	cdev_device_del(&device->cdev, &device->dev);
}

static int __init start(void)
{
	int error;

	BUILD_BUG_ON(sizeof(long) != sizeof(u64));
	ulnic_queue = alloc_workqueue(ULNIC_NAME, WQ_UNBOUND | WQ_HIGHPRI | WQ_MEM_RECLAIM, 0);
	if (!ulnic_queue)
		return -ENOMEM;
	inodes = kern_mount(&inode_type);
	error = PTR_ERR_OR_ZERO(inodes);
	if (error)
		goto no_mount;
	error = alloc_chrdev_region(&first_number, 0, DEVICES, ULNIC_NAME);
	if (error)
		goto no_numbers;
	error = class_register(&ulnic_class);
	if (error)
		goto no_class;
	ulnic_debug_init();
	error = pci_register_driver(&ulnic_pci_driver);
	if (error)
		goto no_driver;
	return 0;

no_driver:
	ulnic_debug_exit();
	class_unregister(&ulnic_class);
no_class:
	unregister_chrdev_region(first_number, DEVICES);
no_numbers:
	kern_unmount(inodes);
no_mount:
	destroy_workqueue(ulnic_queue);
	return error;
}

static void __exit stop(void)
{
	pci_unregister_driver(&ulnic_pci_driver);
	ulnic_debug_exit();
	class_unregister(&ulnic_class);
	unregister_chrdev_region(first_number, DEVICES);
	kern_unmount(inodes);
	destroy_workqueue(ulnic_queue);
	ida_destroy(&minors);
}

module_init(start);
module_exit(stop);

MODULE_DESCRIPTION("Memory-mapped NIC between virtual machines over ivshmem");
MODULE_AUTHOR("The ulsock authors");
MODULE_LICENSE("GPL");
