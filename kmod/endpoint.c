// SPDX-License-Identifier: GPL-2.0
/*
 * An open file is an endpoint. What programs ask of it is checked here: size,
 * flags and reserved words of each structure, before anything is done.
 */
#include <linux/module.h>
#include <linux/slab.h>
#include <linux/uaccess.h>

#include "driver.h"

static void free_endpoint(struct ulnic_endpoint *endpoint)
{
	if (!IS_ERR_OR_NULL(endpoint->inode))
		iput(endpoint->inode);
	if (endpoint->nothing)
		__free_page(endpoint->nothing);
	kvfree(endpoint);
}

static struct ulnic_endpoint *new_endpoint(struct ulnic_device *device)
{
	struct ulnic_endpoint *endpoint = kvzalloc(sizeof(*endpoint), GFP_KERNEL_ACCOUNT);

	if (!endpoint)
		return NULL;
	endpoint->device = device;
	endpoint->opener = task_pid_nr(current);
	init_waitqueue_head(&endpoint->wait);
	mutex_init(&endpoint->lock);
	spin_lock_init(&endpoint->wires_lock);
	endpoint->nothing = alloc_page(GFP_KERNEL_ACCOUNT | __GFP_ZERO);
	endpoint->inode = ulnic_new_inode();
	if (!endpoint->nothing || IS_ERR(endpoint->inode)) {
		free_endpoint(endpoint);
		return NULL;
	}
	return endpoint;
}

static int opened(struct inode *inode, struct file *file)
{
	struct ulnic_device *device = container_of(inode->i_cdev, struct ulnic_device, cdev);
	struct ulnic_endpoint *endpoint = new_endpoint(device);

	if (!endpoint)
		return -ENOMEM;
	mutex_lock(&device->lock);
	if (device->gone) {
		mutex_unlock(&device->lock);
		free_endpoint(endpoint);
		return -ENODEV;
	}
	list_add_tail(&endpoint->node, &device->endpoints);
	mutex_unlock(&device->lock);
	file->private_data = endpoint;
	/* So that what this endpoint maps can be unmapped without the others'. */
	file->f_mapping = endpoint->inode->i_mapping;
	return nonseekable_open(inode, file);
}

/* The last descriptor and the last mapping are gone. */
static int released(struct inode *inode, struct file *file)
{
	struct ulnic_endpoint *endpoint = file->private_data;
	struct ulnic_device *device = endpoint->device;

	mutex_lock(&device->lock);
	list_del(&endpoint->node);
	ulnic_unbind(endpoint);
	mutex_unlock(&device->lock);
	free_endpoint(endpoint);
	return 0;
}

static int info(struct ulnic_endpoint *endpoint, struct ulnic_info *arg)
{
	struct ulnic_device *device = endpoint->device;
	u64 slot;

	mutex_lock(&device->lock);
	arg->version = ULNIC_VERSION;
	arg->features = device->has_doorbell ? ULNIC_FEATURE_DOORBELL : 0;
	arg->slot = device->slot;
	arg->slots = device->slots;
	arg->generation = device->generation;
	arg->partition = device->partition;
	arg->page = PAGE_SIZE;
	memset(arg->incarnation, 0, sizeof(arg->incarnation));
	for (slot = 0; slot < device->slots; slot++)
		if (device->peers[slot].life == ULNIC_LIVE)
			arg->incarnation[slot] = device->peers[slot].incarnation;
	arg->incarnation[device->slot] = device->incarnation;
	WRITE_ONCE(endpoint->generation, device->generation);
	mutex_unlock(&device->lock);
	return 0;
}

static int state(struct ulnic_endpoint *endpoint, struct ulnic_state *arg)
{
	u64 links[ULNIC_RESET + 1] = {};
	u64 number;

	mutex_lock(&endpoint->lock);
	for (number = 0; number < ULNIC_CONNECTIONS_MAX; number++)
		links[endpoint->connections[number].link] |= BIT_ULL(number);
	mutex_unlock(&endpoint->lock);
	arg->live = links[ULNIC_CONNECTED];
	arg->closed = links[ULNIC_CLOSED];
	arg->reset = links[ULNIC_RESET];
	arg->passed = ulnic_passed(endpoint);
	return 0;
}

/* Every structure starts like this. */
struct header {
	u64 size;
	u64 flags;
};

union argument {
	struct header header;
	struct ulnic_info info;
	struct ulnic_bind bind;
	struct ulnic_lookup lookup;
	struct ulnic_connect connect;
	struct ulnic_disconnect disconnect;
	struct ulnic_ring ring;
	struct ulnic_tripwire tripwire;
	struct ulnic_state state;
};

#define IS_ZERO(field)	(!memchr_inv(&(field), 0, sizeof(field)))

static bool are_reserved_zero(unsigned int command, union argument *arg)
{
	switch (command) {
	case ULNIC_INFO:
		return IS_ZERO(arg->info.reserved);
	case ULNIC_BIND:
		return IS_ZERO(arg->bind.reserved);
	case ULNIC_LOOKUP:
		return IS_ZERO(arg->lookup.reserved);
	case ULNIC_CONNECT:
		return IS_ZERO(arg->connect.reserved);
	case ULNIC_DISCONNECT:
		return IS_ZERO(arg->disconnect.reserved);
	case ULNIC_RING:
		return IS_ZERO(arg->ring.reserved);
	case ULNIC_TRIPWIRE:
		return IS_ZERO(arg->tripwire.reserved);
	case ULNIC_STATE:
		return IS_ZERO(arg->state.reserved);
	}
	return false;
}

static int perform(struct file *file, unsigned int command, union argument *arg)
{
	struct ulnic_endpoint *endpoint = file->private_data;

	switch (command) {
	case ULNIC_INFO:
		return info(endpoint, &arg->info);
	case ULNIC_BIND:
		return ulnic_bind(endpoint, &arg->bind, !(file->f_flags & O_NONBLOCK));
	case ULNIC_LOOKUP:
		return ulnic_lookup(endpoint, &arg->lookup);
	case ULNIC_CONNECT:
		return ulnic_connect(endpoint, &arg->connect);
	case ULNIC_DISCONNECT:
		return ulnic_disconnect(endpoint, &arg->disconnect);
	case ULNIC_RING:
		return ulnic_ring(endpoint, &arg->ring);
	case ULNIC_TRIPWIRE:
		return ulnic_tripwire(endpoint, &arg->tripwire);
	case ULNIC_STATE:
		return state(endpoint, &arg->state);
	}
	return -ENOTTY;
}

static bool is_known(unsigned int command)
{
	switch (command) {
	case ULNIC_INFO:
	case ULNIC_BIND:
	case ULNIC_LOOKUP:
	case ULNIC_CONNECT:
	case ULNIC_DISCONNECT:
	case ULNIC_RING:
	case ULNIC_TRIPWIRE:
	case ULNIC_STATE:
		return true;
	}
	return false;
}

static long controlled(struct file *file, unsigned int command, unsigned long address)
{
	struct ulnic_endpoint *endpoint = file->private_data;
	u64 flags = command == ULNIC_TRIPWIRE ? ULNIC_TRIPWIRE_DISARM : 0;
	void __user *user = (void __user *)address;
	size_t size = _IOC_SIZE(command);
	union argument arg;
	int error;

	if (!is_known(command))
		return -ENOTTY;
	if (READ_ONCE(endpoint->device->gone))
		return -ENODEV;
	if (copy_from_user(&arg, user, size))
		return -EFAULT;
	if (arg.header.size != size || arg.header.flags & ~flags ||
	    !are_reserved_zero(command, &arg))
		return -EINVAL;
	error = perform(file, command, &arg);
	if (error)
		return error;
	if (_IOC_DIR(command) & _IOC_READ && copy_to_user(user, &arg, size))
		return -EFAULT;
	return 0;
}

const struct file_operations ulnic_fops = {
	.owner = THIS_MODULE,
	.open = opened,
	.release = released,
	.unlocked_ioctl = controlled,
	.compat_ioctl = compat_ptr_ioctl,
	.mmap = ulnic_mmap,
	.poll = ulnic_poll,
};
