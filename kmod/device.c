// SPDX-License-Identifier: GPL-2.0
/*
 * The devices of the module: their class, their numbers, and how one comes and
 * goes.
 */
#include <linux/bitmap.h>
#include <linux/idr.h>
#include <linux/module.h>
#include <linux/slab.h>

#include "driver.h"

#define DEVICES		16

static dev_t first_number;
static DEFINE_IDA(minors);

static struct class ulnic_class = {
	.name = ULNIC_NAME,
	.dev_groups = ulnic_groups,
};

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

int ulnic_devices_init(void)
{
	int error = alloc_chrdev_region(&first_number, 0, DEVICES, ULNIC_NAME);

	if (error)
		return error;
	error = class_register(&ulnic_class);
	if (error)
		unregister_chrdev_region(first_number, DEVICES);
	return error;
}

void ulnic_devices_exit(void)
{
	class_unregister(&ulnic_class);
	unregister_chrdev_region(first_number, DEVICES);
	ida_destroy(&minors);
}
