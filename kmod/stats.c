// SPDX-License-Identifier: GPL-2.0
/*
 * Statistics: of the device in sysfs (/sys/class/ulnic/ulnicN), of its
 * endpoints in debugfs (ulnic/ulnicN/endpoints).
 */
#include <linux/bitmap.h>
#include <linux/debugfs.h>
#include <linux/seq_file.h>

#include "driver.h"

static struct ulnic_device *to_device(struct device *dev)
{
	return container_of(dev, struct ulnic_device, dev);
}

#define SHOW_COUNTER(_name)							\
static ssize_t _name##_show(struct device *dev, struct device_attribute *attr,	\
			    char *buf)						\
{										\
	return sysfs_emit(buf, "%lld\n",					\
			  atomic64_read(&to_device(dev)->counters._name));	\
}

SHOW_COUNTER(doorbells_in)
static DEVICE_ATTR_RO(doorbells_in);
SHOW_COUNTER(doorbells_out)
static DEVICE_ATTR_RO(doorbells_out);
SHOW_COUNTER(doorbells_held)
static DEVICE_ATTR_RO(doorbells_held);
SHOW_COUNTER(tripwires_fired)
static DEVICE_ATTR_RO(tripwires_fired);
SHOW_COUNTER(revocations)
static DEVICE_ATTR_RO(revocations);
SHOW_COUNTER(deaths)
static DEVICE_ATTR_RO(deaths);

static ssize_t slot_show(struct device *dev, struct device_attribute *attr, char *buf)
{
	return sysfs_emit(buf, "%llu\n", to_device(dev)->slot);
}
static DEVICE_ATTR_RO(slot);

static ssize_t slots_show(struct device *dev, struct device_attribute *attr, char *buf)
{
	return sysfs_emit(buf, "%llu\n", to_device(dev)->slots);
}
static DEVICE_ATTR_RO(slots);

/* The slots of live VMs, our own among them. */
static ssize_t peers_show(struct device *dev, struct device_attribute *attr, char *buf)
{
	struct ulnic_device *device = to_device(dev);
	int length = 0;
	u64 slot;

	mutex_lock(&device->lock);
	for (slot = 0; slot < device->slots; slot++)
		if (ulnic_is_live(device, slot))
			length += sysfs_emit_at(buf, length, "%s%llu", length ? " " : "", slot);
	mutex_unlock(&device->lock);
	return length + sysfs_emit_at(buf, length, "\n");
}
static DEVICE_ATTR_RO(peers);

static ssize_t endpoints_show(struct device *dev, struct device_attribute *attr, char *buf)
{
	struct ulnic_device *device = to_device(dev);
	unsigned int bound = 0, index;

	mutex_lock(&device->lock);
	for (index = 0; index < ULNIC_ENDPOINTS_MAX; index++)
		bound += !!device->table[index];
	mutex_unlock(&device->lock);
	return sysfs_emit(buf, "%u\n", bound);
}
static DEVICE_ATTR_RO(endpoints);

/* Bytes of our partition that are free, and that wait for acknowledgments. */
static ssize_t memory_free_show(struct device *dev, struct device_attribute *attr, char *buf)
{
	struct ulnic_device *device = to_device(dev);
	unsigned long pages = device->partition >> PAGE_SHIFT, used;

	mutex_lock(&device->lock);
	used = bitmap_weight(device->pages, pages);
	mutex_unlock(&device->lock);
	return sysfs_emit(buf, "%lu\n", (pages - used) << PAGE_SHIFT);
}
static DEVICE_ATTR_RO(memory_free);

static ssize_t memory_quarantined_show(struct device *dev, struct device_attribute *attr, char *buf)
{
	struct ulnic_device *device = to_device(dev);
	struct ulnic_aperture *aperture;
	u64 bytes = 0;

	mutex_lock(&device->lock);
	list_for_each_entry(aperture, &device->quarantine, node)
		bytes += aperture->length;
	mutex_unlock(&device->lock);
	return sysfs_emit(buf, "%llu\n", bytes);
}
static DEVICE_ATTR_RO(memory_quarantined);

static struct attribute *ulnic_attrs[] = {
	&dev_attr_slot.attr,
	&dev_attr_slots.attr,
	&dev_attr_peers.attr,
	&dev_attr_endpoints.attr,
	&dev_attr_memory_free.attr,
	&dev_attr_memory_quarantined.attr,
	&dev_attr_doorbells_in.attr,
	&dev_attr_doorbells_out.attr,
	&dev_attr_doorbells_held.attr,
	&dev_attr_tripwires_fired.attr,
	&dev_attr_revocations.attr,
	&dev_attr_deaths.attr,
	NULL,
};

static const struct attribute_group group = {
	.attrs = ulnic_attrs,
};

const struct attribute_group *ulnic_groups[] = {
	&group,
	NULL,
};

static void show_endpoint(struct seq_file *file, struct ulnic_endpoint *endpoint)
{
	u64 links[ULNIC_RESET + 1] = {};
	u64 number;

	mutex_lock(&endpoint->lock);
	for (number = 0; number < ULNIC_CONNECTIONS_MAX; number++)
		links[endpoint->connections[number].link]++;
	seq_printf(file, "opener %d", endpoint->opener);
	if (endpoint->aperture)
		seq_printf(file, " endpoint %llu service %llu length %llu",
			   endpoint->aperture->index, endpoint->aperture->service,
			   endpoint->aperture->length);
	mutex_unlock(&endpoint->lock);
	seq_printf(file, " connected %llu closed %llu reset %llu armed %#llx passed %#llx rings %lld fired %lld\n",
		   links[ULNIC_CONNECTED], links[ULNIC_CLOSED], links[ULNIC_RESET],
		   READ_ONCE(endpoint->armed), ulnic_passed(endpoint),
		   atomic64_read(&endpoint->rings), atomic64_read(&endpoint->fired));
}

static int endpoints_file_show(struct seq_file *file, void *unused)
{
	struct ulnic_device *device = file->private;
	struct ulnic_endpoint *endpoint;

	mutex_lock(&device->lock);
	list_for_each_entry(endpoint, &device->endpoints, node)
		show_endpoint(file, endpoint);
	mutex_unlock(&device->lock);
	return 0;
}
DEFINE_SHOW_ATTRIBUTE(endpoints_file);

static struct dentry *root;

void ulnic_debug_init(void)
{
	root = debugfs_create_dir(ULNIC_NAME, NULL);
}

void ulnic_debug_exit(void)
{
	debugfs_remove(root);
}

void ulnic_debug_add(struct ulnic_device *device)
{
	device->debug = debugfs_create_dir(dev_name(&device->dev), root);
	debugfs_create_file("endpoints", 0400, device->debug, device, &endpoints_file_fops);
}

/* Waits for readers. */
void ulnic_debug_del(struct ulnic_device *device)
{
	debugfs_remove(device->debug);
}
