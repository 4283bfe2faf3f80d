// SPDX-License-Identifier: GPL-2.0
/*
 * QEMU's ivshmem device (docs/specs/ivshmem-spec.rst in QEMU): BAR 0 has the
 * registers, BAR 2 is the shared memory. With MSI-X (ivshmem-doorbell) the VMs
 * can ring each other, and a server numbers them.
 */
#include <linux/bitmap.h>
#include <linux/io.h>
#include <linux/module.h>

#include "driver.h"

#define VENDOR_REDHAT	0x1af4
#define DEVICE_IVSHMEM	0x1110
#define BAR_REGISTERS	0
#define BAR_MEMORY	2

/* pci_request_region() is undone after remove() by some kernels only. */
static bool request(struct pci_dev *pdev, int bar)
{
	return devm_request_mem_region(&pdev->dev, pci_resource_start(pdev, bar),
				       pci_resource_len(pdev, bar), ULNIC_NAME);
}

/* The kernel takes all of it back after remove(), or when probe() fails. */
static int map_bars(struct ulnic_device *device)
{
	struct pci_dev *pdev = device->pdev;
	int error;

	error = pcim_enable_device(pdev);
	if (error)
		return error;
	if (!request(pdev, BAR_REGISTERS) || !request(pdev, BAR_MEMORY))
		return -EBUSY;
	device->registers = pcim_iomap(pdev, BAR_REGISTERS, 0);
	if (!device->registers)
		return -ENOMEM;
	device->base = pci_resource_start(pdev, BAR_MEMORY);
	device->size = pci_resource_len(pdev, BAR_MEMORY);
	device->memory = devm_memremap(&pdev->dev, device->base, device->size, MEMREMAP_WB);
	if (IS_ERR(device->memory))
		return PTR_ERR(device->memory);
	/* Interrupts are writes of the device. */
	pci_set_master(pdev);
	return 0;
}

static int join_group(struct ulnic_device *device)
{
	int error = ulnic_divide(device);

	if (error) {
		dev_err(&device->pdev->dev, "the region is of another kind, or too small\n");
		return error;
	}
	device->pages = bitmap_zalloc(device->partition >> PAGE_SHIFT, GFP_KERNEL);
	if (!device->pages)
		return -ENOMEM;
	error = ulnic_claim(device);
	if (error)
		dev_err(&device->pdev->dev, "no slot for this VM among %llu\n", device->slots);
	return error;
}

/* Leaves the group; nothing touches the region or the registers after this. */
static void part(struct ulnic_device *device)
{
	mutex_lock(&device->lock);
	if (!device->gone) {
		ulnic_kill(device);
		ulnic_leave(device);
		ulnic_announce(device);
	}
	mutex_unlock(&device->lock);
	ulnic_doorbell_stop(device);
	cancel_delayed_work_sync(&device->heart);
	cancel_delayed_work_sync(&device->chores);
	mutex_lock(&device->lock);
	ulnic_forget_apertures(device);
	mutex_unlock(&device->lock);
}

static int probe(struct pci_dev *pdev, const struct pci_device_id *id)
{
	struct ulnic_device *device = ulnic_device_new(pdev);
	int error;

	if (IS_ERR(device))
		return PTR_ERR(device);
	error = map_bars(device);
	if (!error)
		error = join_group(device);
	if (!error)
		error = ulnic_doorbell_start(device);
	if (error)
		goto no_doorbell;
	mutex_lock(&device->lock);
	device->beaten = jiffies;
	ulnic_join(device);
	mutex_unlock(&device->lock);
	queue_delayed_work(ulnic_queue, &device->heart, 0);
	error = ulnic_device_add(device);
	if (error)
		goto no_device;
	pci_set_drvdata(pdev, device);
	dev_info(&device->dev, "slot %llu of %llu, %llu bytes for apertures%s\n", device->slot,
		 device->slots, device->partition, device->has_doorbell ? "" : ", no doorbells");
	return 0;

no_device:
	part(device);
no_doorbell:
	put_device(&device->dev);
	return error;
}

static void removed(struct pci_dev *pdev)
{
	struct ulnic_device *device = pci_get_drvdata(pdev);

	ulnic_device_del(device);
	part(device);
	put_device(&device->dev);
}

static const struct pci_device_id ids[] = {
	{ PCI_DEVICE(VENDOR_REDHAT, DEVICE_IVSHMEM) },
	{ }
};
MODULE_DEVICE_TABLE(pci, ids);

struct pci_driver ulnic_pci_driver = {
	.name = ULNIC_NAME,
	.id_table = ids,
	.probe = probe,
	.remove = removed,
};
