/* SPDX-License-Identifier: GPL-2.0 */
/*
 * What the driver's files share.
 *
 * Locks, in the order in which they nest:
 *	mmap_lock	the kernel's, held around mmap() and faults
 *	device->lock	the group: peers, tables, apertures, who is connected;
 *			never held while user memory is copied or mapped
 *	endpoint->lock	what faults show: held by a fault while it maps a page,
 *			and by the code that takes the right to it away
 *	device->scan	(spinlock, bh) which endpoints have tripwires
 *	endpoint->wires_lock	(spinlock, bh) the tripwires
 * mmap_lock and device->lock never nest either way.
 */
#ifndef ULNIC_DRIVER_H
#define ULNIC_DRIVER_H

#include <linux/cdev.h>
#include <linux/device.h>
#include <linux/fs.h>
#include <linux/hrtimer.h>
#include <linux/list.h>
#include <linux/mm.h>
#include <linux/mutex.h>
#include <linux/pci.h>
#include <linux/poll.h>
#include <linux/spinlock.h>
#include <linux/wait.h>
#include <linux/workqueue.h>

#include "compat.h"
#include "region.h"
#include "ulnic.h"

#define ULNIC_NAME	"ulnic"

/* The interrupt vector by which the VMs ring each other. */
#define ULNIC_VECTOR	0

/* What we know of another VM (or of what one has left behind). */
enum ulnic_life {
	ULNIC_EMPTY,	/* nobody is in the slot */
	ULNIC_SEEN,	/* a VM has written there; no heartbeat yet */
	ULNIC_LIVE,
	ULNIC_DEAD,	/* the heart stands still */
};

struct ulnic_peer {
	enum ulnic_life life;
	u64 incarnation;
	u64 beat;
	u64 epoch;	/* that we have acknowledged */
	u64 bell;	/* unchecked */
	unsigned long since;	/* jiffies of the last heartbeat or change of life */
};

/* Memory of our partition with an owner, or waiting for the next one. */
struct ulnic_aperture {
	struct list_head node;	/* in device->quarantine, when withdrawn */
	u64 index;		/* in the table */
	u64 key;
	u64 offset;		/* in the region */
	u64 length;
	u64 service;
	u64 epoch;		/* of the withdrawal */
};

enum ulnic_link {
	ULNIC_FREE,
	ULNIC_CONNECTED,
	ULNIC_CLOSED,	/* the other end is closed */
	ULNIC_RESET,	/* its VM is gone */
};

struct ulnic_connection {
	enum ulnic_link link;
	unsigned int mappings;
	u64 slot;
	u64 incarnation;
	u64 endpoint;
	u64 key;
	u64 offset;	/* in the region; checked when it was connected */
	u64 length;
};

struct ulnic_wire {
	u64 offset;
	u64 position;
};

struct ulnic_counters {
	atomic64_t doorbells_in;
	atomic64_t doorbells_out;
	atomic64_t doorbells_held;
	atomic64_t tripwires_fired;
	atomic64_t revocations;
	atomic64_t deaths;
};

struct ulnic_device {
	struct device dev;
	struct cdev cdev;
	struct pci_dev *pdev;
	int minor;
	bool has_doorbell;

	/* The region, and how it is divided. */
	void __iomem *registers;
	phys_addr_t base;
	u64 size;
	u8 *memory;
	u64 slots;
	u64 first;		/* offset of partition 0 */
	u64 partition;		/* bytes of each */

	struct mutex lock;	/* of the group: all down to `endpoints` */
	bool gone;
	u64 slot;
	u64 bell;
	u64 incarnation;
	u64 epoch;
	u64 epoch_base;		/* its first value in this incarnation */
	u64 beat;
	unsigned long beaten;	/* jiffies */
	u64 generation;
	struct ulnic_peer peers[ULNIC_SLOTS_MAX];
	struct delayed_work heart;
	struct delayed_work chores;

	/* Our partition. */
	struct ulnic_aperture *table[ULNIC_ENDPOINTS_MAX];
	unsigned long *pages;
	bool is_partition_free;	/* no VM maps what an earlier life has left */
	struct list_head quarantine;
	unsigned int releases;	/* of memory */
	wait_queue_head_t room;

	struct list_head endpoints;
	spinlock_t scan;	/* of `scanned` */
	struct list_head scanned;

	/* Doorbells: how many in this window, and the pause when too many. */
	int irq;
	unsigned int in_window;
	ktime_t window;
	struct hrtimer timer;	/* ends the pause; looks, without doorbells */
	u64 interval;		/* ns between two looks */

	struct ulnic_counters counters;
	struct dentry *debug;
};

struct ulnic_endpoint {
	struct ulnic_device *device;
	struct inode *inode;	/* its mapping is that of this endpoint alone */
	struct page *nothing;	/* what dead mappings show */
	struct list_head node;	/* in device->endpoints */
	wait_queue_head_t wait;
	pid_t opener;
	u64 generation;		/* that ULNIC_INFO has told */

	struct mutex lock;	/* of the aperture and the connections */
	bool is_binding;
	struct ulnic_aperture *aperture;
	struct ulnic_connection connections[ULNIC_CONNECTIONS_MAX];
	u64 dead;		/* connections, as bits */
	bool is_revoked;	/* the device is gone */

	struct list_head scan_node;	/* in device->scanned, when bound */
	spinlock_t wires_lock;
	u8 *words;		/* the aperture; NULL: none, or no more */
	u64 words_length;
	u64 armed;
	struct ulnic_wire wires[ULNIC_WIRES_MAX];

	atomic64_t rings;
	atomic64_t fired;
};

/*
 * The files, from the lowest floor up: a file uses what stands above it here,
 * and nothing of those below it. No two files need each other.
 */

/* params.c */
extern unsigned int ulnic_dead_ms;
extern unsigned int ulnic_quarantine_ms;
extern unsigned int ulnic_budget;

/* region.c */
u64 ulnic_random(void);
struct ulnic_slot *ulnic_slot(struct ulnic_device *device, u64 slot);
bool ulnic_is_in_partition(struct ulnic_device *device, u64 slot, u64 offset, u64 length);
int ulnic_read_entry(struct ulnic_device *device, u64 slot, u64 index, struct ulnic_entry *entry);
int ulnic_divide(struct ulnic_device *device);
int ulnic_claim(struct ulnic_device *device);
void ulnic_join(struct ulnic_device *device);
void ulnic_leave(struct ulnic_device *device);
void ulnic_publish(struct ulnic_device *device, u64 index);
void ulnic_restate(struct ulnic_device *device);

/* scan.c */
u64 ulnic_passed(struct ulnic_endpoint *endpoint);
bool ulnic_scan(struct ulnic_device *device);
void ulnic_watch(struct ulnic_device *device);
void ulnic_watch_init(struct ulnic_device *device);

/* doorbell.c */
void ulnic_doorbell_ring(struct ulnic_device *device, u64 slot);

/* group.c */
bool ulnic_is_live(struct ulnic_device *device, u64 slot);
void ulnic_count_change(struct ulnic_device *device);
void ulnic_announce(struct ulnic_device *device);

/* map.c */
int ulnic_mmap(struct file *file, struct vm_area_struct *vma);
void ulnic_unmap(struct ulnic_endpoint *endpoint, u64 area);

/* connection.c */
int ulnic_lookup(struct ulnic_endpoint *endpoint, struct ulnic_lookup *arg);
int ulnic_connect(struct ulnic_endpoint *endpoint, struct ulnic_connect *arg);
int ulnic_disconnect(struct ulnic_endpoint *endpoint, struct ulnic_disconnect *arg);
int ulnic_ring(struct ulnic_endpoint *endpoint, struct ulnic_ring *arg);
void ulnic_check_connections(struct ulnic_device *device, u64 slot, bool is_alive);
void ulnic_reset_all(struct ulnic_device *device);

/* aperture.c */
struct ulnic_aperture *ulnic_aperture_new(struct ulnic_device *device, u64 length, u64 service);
int ulnic_aperture_publish(struct ulnic_device *device, struct ulnic_aperture *aperture);
void ulnic_aperture_withdraw(struct ulnic_device *device, struct ulnic_aperture *aperture);
void ulnic_count_release(struct ulnic_device *device);
void ulnic_aperture_free(struct ulnic_device *device, struct ulnic_aperture *aperture);
int ulnic_aperture_clear(struct ulnic_device *device, struct ulnic_aperture *aperture);
void ulnic_release_quarantine(struct ulnic_device *device);
bool ulnic_is_waiting(struct ulnic_device *device);
void ulnic_forget_apertures(struct ulnic_device *device);

/* bind.c */
int ulnic_bind(struct ulnic_endpoint *endpoint, struct ulnic_bind *arg, bool may_wait);
void ulnic_unbind(struct ulnic_endpoint *endpoint);

/* peers.c */
extern struct workqueue_struct *ulnic_queue;
int ulnic_queue_init(void);
void ulnic_queue_exit(void);
void ulnic_heart(struct work_struct *work);
void ulnic_chores(struct work_struct *work);
void ulnic_kill(struct ulnic_device *device);
bool ulnic_has_news(struct ulnic_device *device);

/* interrupt.c */
void ulnic_doorbell_init(struct ulnic_device *device);
int ulnic_doorbell_start(struct ulnic_device *device);
void ulnic_doorbell_stop(struct ulnic_device *device);

/* wire.c */
int ulnic_tripwire(struct ulnic_endpoint *endpoint, struct ulnic_tripwire *arg);
__poll_t ulnic_poll(struct file *file, poll_table *wait);

/* inode.c */
int ulnic_inodes_init(void);
void ulnic_inodes_exit(void);
struct inode *ulnic_new_inode(void);

/* endpoint.c */
extern const struct file_operations ulnic_fops;

/* stats.c */
extern const struct attribute_group *ulnic_groups[];
void ulnic_debug_init(void);
void ulnic_debug_exit(void);
void ulnic_debug_add(struct ulnic_device *device);
void ulnic_debug_del(struct ulnic_device *device);

/* device.c */
int ulnic_devices_init(void);
void ulnic_devices_exit(void);
int ulnic_device_add(struct ulnic_device *device);
void ulnic_device_del(struct ulnic_device *device);
struct ulnic_device *ulnic_device_new(struct pci_dev *pdev);

/* pci.c */
extern struct pci_driver ulnic_pci_driver;

#endif /* ULNIC_DRIVER_H */
