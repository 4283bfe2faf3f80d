// SPDX-License-Identifier: GPL-2.0
/*
 * Connections: the right of an endpoint to map another one's aperture, and how
 * it ends.
 */
#include <linux/capability.h>
#include <linux/nospec.h>

#include "driver.h"

/* The connection of a number that a program has named; NULL: there can be none. */
static struct ulnic_connection *named(struct ulnic_endpoint *endpoint, u64 number)
{
	if (number >= ULNIC_CONNECTIONS_MAX)
		return NULL;
	return &endpoint->connections[array_index_nospec(number, ULNIC_CONNECTIONS_MAX)];
}

/* Whether the slot has a live VM; device->lock is held. */
static int check_slot(struct ulnic_device *device, u64 slot)
{
	if (device->gone)
		return -ENODEV;
	return ulnic_is_live(device, slot) ? 0 : -EHOSTUNREACH;
}

static u64 incarnation_of(struct ulnic_device *device, u64 slot)
{
	return slot == device->slot ? device->incarnation : device->peers[slot].incarnation;
}

/* device->lock is held. */
static int find(struct ulnic_device *device, struct ulnic_lookup *arg)
{
	struct ulnic_entry entry;
	u64 index;

	for (index = 0; index < ULNIC_ENDPOINTS_MAX; index++) {
		if (ulnic_read_entry(device, arg->slot, index, &entry) ||
		    entry.service != arg->service)
			continue;
		arg->endpoint = index;
		arg->key = entry.key;
		arg->incarnation = incarnation_of(device, arg->slot);
		return 0;
	}
	return -ENOENT;
}

int ulnic_lookup(struct ulnic_endpoint *endpoint, struct ulnic_lookup *arg)
{
	struct ulnic_device *device = endpoint->device;
	int error;

	if (!arg->service || arg->slot >= device->slots)
		return -EINVAL;
	arg->slot = array_index_nospec(arg->slot, device->slots);
	if (arg->service < ULNIC_SERVICE_OPEN && !capable(CAP_NET_ADMIN))
		return -EACCES;
	mutex_lock(&device->lock);
	error = check_slot(device, arg->slot);
	if (!error)
		error = find(device, arg);
	mutex_unlock(&device->lock);
	return error;
}

/* Both locks are held. */
static int take(struct ulnic_endpoint *endpoint, struct ulnic_connect *arg,
		struct ulnic_entry *entry)
{
	struct ulnic_connection *connection;
	u64 number;

	for (number = 0; number < ULNIC_CONNECTIONS_MAX; number++)
		if (endpoint->connections[number].link == ULNIC_FREE)
			break;
	if (number == ULNIC_CONNECTIONS_MAX)
		return -EMFILE;
	connection = &endpoint->connections[number];
	connection->slot = arg->slot;
	connection->incarnation = incarnation_of(endpoint->device, arg->slot);
	connection->endpoint = arg->endpoint;
	connection->key = entry->key;
	connection->offset = entry->offset;
	connection->length = entry->length;
	connection->link = ULNIC_CONNECTED;
	arg->connection = number;
	arg->offset = ULNIC_CONNECTION_OFFSET(number);
	arg->length = entry->length;
	arg->incarnation = connection->incarnation;
	return 0;
}

int ulnic_connect(struct ulnic_endpoint *endpoint, struct ulnic_connect *arg)
{
	struct ulnic_device *device = endpoint->device;
	struct ulnic_entry entry;
	int error;

	if (arg->slot >= device->slots)
		return -EINVAL;
	arg->slot = array_index_nospec(arg->slot, device->slots);
	mutex_lock(&device->lock);
	error = check_slot(device, arg->slot);
	if (!error && (arg->endpoint >= ULNIC_ENDPOINTS_MAX || !arg->key ||
		       ulnic_read_entry(device, arg->slot, arg->endpoint, &entry) ||
		       entry.key != arg->key))
		error = -EACCES;
	if (!error) {
		mutex_lock(&endpoint->lock);
		error = take(endpoint, arg, &entry);
		mutex_unlock(&endpoint->lock);
	}
	mutex_unlock(&device->lock);
	return error;
}

int ulnic_disconnect(struct ulnic_endpoint *endpoint, struct ulnic_disconnect *arg)
{
	struct ulnic_connection *connection = named(endpoint, arg->connection);
	int error = 0;

	if (!connection)
		return -ENOTCONN;
	mutex_lock(&endpoint->lock);
	if (connection->link == ULNIC_FREE) {
		error = -ENOTCONN;
	} else if (connection->mappings) {
		error = -EBUSY;
	} else {
		connection->link = ULNIC_FREE;
		WRITE_ONCE(endpoint->dead, endpoint->dead & ~BIT_ULL(arg->connection));
	}
	mutex_unlock(&endpoint->lock);
	return error;
}

int ulnic_ring(struct ulnic_endpoint *endpoint, struct ulnic_ring *arg)
{
	struct ulnic_connection *connection = named(endpoint, arg->connection);
	struct ulnic_device *device = endpoint->device;
	int error = 0;

	if (!connection)
		return -ENOTCONN;
	/* While it is connected the device is not gone: ulnic_kill() ends all. */
	mutex_lock(&endpoint->lock);
	switch (connection->link) {
	case ULNIC_FREE:
		error = -ENOTCONN;
		break;
	case ULNIC_CLOSED:
		error = -EPIPE;
		break;
	case ULNIC_RESET:
		error = -ECONNRESET;
		break;
	case ULNIC_CONNECTED:
		atomic64_inc(&endpoint->rings);
		ulnic_doorbell_ring(device, connection->slot);
		break;
	}
	mutex_unlock(&endpoint->lock);
	return error;
}

/* Takes the right away: first no new page is shown, then the old ones go. */
static void end(struct ulnic_endpoint *endpoint, u64 number, enum ulnic_link link)
{
	endpoint->connections[number].link = link;
	ulnic_unmap(endpoint, number + 1);
	WRITE_ONCE(endpoint->dead, endpoint->dead | BIT_ULL(number));
	atomic64_inc(&endpoint->device->counters.revocations);
	wake_up_poll(&endpoint->wait, EPOLLERR | EPOLLHUP);
}

/* What is to become of it; device->lock is held. */
static enum ulnic_link verdict(struct ulnic_device *device, struct ulnic_connection *connection)
{
	u64 slot = connection->slot;
	struct ulnic_entry entry;

	if (slot != device->slot && connection->incarnation != device->peers[slot].incarnation)
		return ULNIC_RESET;
	if (ulnic_read_entry(device, slot, connection->endpoint, &entry) ||
	    entry.key != connection->key || entry.offset != connection->offset ||
	    entry.length != connection->length)
		return ULNIC_CLOSED;
	return ULNIC_CONNECTED;
}

static void check(struct ulnic_endpoint *endpoint, u64 slot, bool is_alive)
{
	struct ulnic_connection *connection;
	enum ulnic_link link;
	u64 number;

	mutex_lock(&endpoint->lock);
	for (number = 0; number < ULNIC_CONNECTIONS_MAX; number++) {
		connection = &endpoint->connections[number];
		if (connection->link != ULNIC_CONNECTED || connection->slot != slot)
			continue;
		link = is_alive ? verdict(endpoint->device, connection) : ULNIC_RESET;
		if (link != ULNIC_CONNECTED)
			end(endpoint, number, link);
	}
	mutex_unlock(&endpoint->lock);
}

/* Ends the connections to a VM that is dead, or to apertures that it withdrew. */
void ulnic_check_connections(struct ulnic_device *device, u64 slot, bool is_alive)
{
	struct ulnic_endpoint *endpoint;

	list_for_each_entry(endpoint, &device->endpoints, node)
		check(endpoint, slot, is_alive);
}

void ulnic_reset_all(struct ulnic_device *device)
{
	u64 slot;

	for (slot = 0; slot < device->slots; slot++)
		ulnic_check_connections(device, slot, false);
}
