/* SPDX-License-Identifier: (GPL-2.0 WITH Linux-syscall-note) OR MIT */
/*
 * ulnic: a memory-mapped NIC between the virtual machines (VMs) of one host,
 * over QEMU's ivshmem device. This is what user programs see of it.
 *
 * /dev/ulnicN stands for one ivshmem device, that is, for one group of VMs
 * that share one region of memory. Each VM of the group has a slot (a small
 * number). Each open file is an endpoint. An endpoint may have
 *
 *  - an aperture: memory of its own in the shared region, which it gets with
 *    ULNIC_BIND and maps at offset 0. No other endpoint can map it without its key.
 *  - connections: apertures of other endpoints, in this VM or another, which
 *    it gets with ULNIC_CONNECT and maps at ULNIC_CONNECTION_OFFSET(n). Both
 *    ends then read and write the same memory; no call carries data.
 *  - tripwires: words of its own aperture that make the file readable when
 *    somebody has counted them up past a position.
 *
 * poll() says
 *   EPOLLIN            a tripwire has been passed. This is a level: it stays
 *                      until the wire is disarmed or armed further on. The
 *                      words are read when poll() is called and whenever a
 *                      doorbell rings. Doorbells coalesce; a ring that comes
 *                      after the word was written is never lost.
 *   EPOLLPRI           the group has changed (a VM came or went, an aperture
 *                      was published or withdrawn) since ULNIC_INFO was last
 *                      called on this file. A new file has it set.
 *   EPOLLERR|EPOLLHUP  a connection is dead: the peer has closed its file, or
 *                      its VM is gone. It stays until ULNIC_DISCONNECT;
 *                      ULNIC_STATE says which one.
 *
 * Order: a program that writes data, then the word of a tripwire (release),
 * then calls ULNIC_RING has the sleeper awake with all of it visible. To ring
 * only a peer that sleeps, keep a flag for it in the aperture: the sleeper
 * arms, sets the flag, fences (mfence), looks at the word once more and
 * sleeps; the writer writes the word, fences and reads the flag.
 *
 * A dead connection's mapping stays, but shows a page of zeros that belongs
 * to this endpoint alone: reads and writes do no harm and reach nobody, and
 * there is no SIGBUS. The same holds for every mapping once the device is
 * gone (EPOLLERR|EPOLLHUP for ever, ENODEV from all calls).
 *
 * Mappings must be MAP_SHARED, of a file opened O_RDWR, without PROT_EXEC and
 * inside one aperture. They survive fork(); the endpoint lives until the last
 * descriptor and the last mapping are gone. Closing it withdraws the
 * aperture; its memory is given to another endpoint only when no live VM can
 * have it mapped any more.
 *
 * Every structure starts with its own size in bytes. Flags that are not
 * named here and the reserved words must be 0 (EINVAL). All words are 64 bits
 * wide, on every architecture. What is marked "out" is not looked at.
 */
#ifndef _ULNIC_H
#define _ULNIC_H

#include <linux/const.h>
#include <linux/ioctl.h>
#include <linux/types.h>

#define ULNIC_VERSION		1

/* Limits. Those of a device may be lower: see ULNIC_INFO. */
#define ULNIC_SLOTS_MAX		16	/* VMs of one group */
#define ULNIC_ENDPOINTS_MAX	256	/* bound endpoints of one VM */
#define ULNIC_CONNECTIONS_MAX	64	/* of one endpoint */
#define ULNIC_WIRES_MAX		64	/* of one endpoint */
#define ULNIC_APERTURE_MAX	_BITULL(32)	/* bytes: one offset of mmap() after the other */

/* Where mmap() finds an endpoint's own aperture, and its connection n. */
#define ULNIC_APERTURE_OFFSET		0
#define ULNIC_CONNECTION_OFFSET(n)	(((__u64)(n) + 1) << 32)

/*
 * Numbers by which an endpoint can be found (ULNIC_BIND, ULNIC_LOOKUP). Those
 * below ULNIC_SERVICE_OPEN need CAP_NET_ADMIN for both; 0 is none.
 */
#define ULNIC_SERVICE_NONE	0
#define ULNIC_SERVICE_NICD	1
#define ULNIC_SERVICE_OPEN	1024

/* ulnic_info.features: without it RING reaches no other VM; a timer looks. */
#define ULNIC_FEATURE_DOORBELL	_BITULL(0)

/* What there is. Clears EPOLLPRI. */
struct ulnic_info {
	__u64 size;
	__u64 flags;		/* 0 */
	__u64 version;		/* out: ULNIC_VERSION */
	__u64 features;		/* out: ULNIC_FEATURE_* */
	__u64 slot;		/* out: of this VM */
	__u64 slots;		/* out: how many the region has */
	__u64 generation;	/* out: counts the changes of the group */
	__u64 partition;	/* out: bytes that all apertures of a VM share */
	__u64 page;		/* out: apertures are multiples of so many bytes */
	__u64 reserved[7];
	/*
	 * out: by slot, a random number that each start of a VM (or of its
	 * driver) has anew; 0: no live VM there. Our own slot is among them.
	 */
	__u64 incarnation[ULNIC_SLOTS_MAX];
};

/*
 * Gives this endpoint an aperture, all zeros. Once per endpoint (EISCONN).
 * Waits up to a few seconds (not with O_NONBLOCK: EAGAIN) while memory may
 * still be mapped by the peers of its last owner. EADDRINUSE: this VM has an
 * endpoint of this service. ENOSPC: no memory or no endpoint left, or longer
 * than ULNIC_APERTURE_MAX. EACCES: the service needs CAP_NET_ADMIN.
 */
struct ulnic_bind {
	__u64 size;
	__u64 flags;		/* 0 */
	__u64 length;		/* in, out: rounded up to pages */
	__u64 service;		/* ULNIC_SERVICE_NONE, or how to find it */
	__u64 endpoint;		/* out: its number in this VM */
	__u64 key;		/* out: an endpoint that knows it may connect */
	__u64 reserved[2];
};

/*
 * Finds the endpoint of a service. ENOENT: none. EHOSTUNREACH: no live VM in
 * the slot. EACCES: the service needs CAP_NET_ADMIN.
 */
struct ulnic_lookup {
	__u64 size;
	__u64 flags;		/* 0 */
	__u64 slot;
	__u64 service;
	__u64 endpoint;		/* out */
	__u64 key;		/* out */
	__u64 incarnation;	/* out: of the VM */
	__u64 reserved;
};

/*
 * Lets this endpoint map another one's aperture. The slot may be our own. All
 * it takes is the key; a wrong one is EACCES, as is an endpoint that does not
 * exist. EHOSTUNREACH: no live VM in the slot. EMFILE: ULNIC_CONNECTIONS_MAX.
 */
struct ulnic_connect {
	__u64 size;
	__u64 flags;		/* 0 */
	__u64 slot;
	__u64 endpoint;
	__u64 key;
	__u64 connection;	/* out: its number in this endpoint */
	__u64 offset;		/* out: ULNIC_CONNECTION_OFFSET(connection) */
	__u64 length;		/* out: bytes of the aperture */
	__u64 incarnation;	/* out: of the VM */
	__u64 reserved[3];
};

/*
 * Ends a connection, dead or not. EBUSY while it is mapped. ENOTCONN: there
 * is none of this number.
 */
struct ulnic_disconnect {
	__u64 size;
	__u64 flags;		/* 0 */
	__u64 connection;
	__u64 reserved;
};

/*
 * Rings the VM of a connection's other end: all tripwires there are looked
 * at. EPIPE: the other end is closed. ECONNRESET: its VM is gone. ENOTCONN.
 */
struct ulnic_ring {
	__u64 size;
	__u64 flags;		/* 0 */
	__u64 connection;
	__u64 reserved;
};

/* ulnic_tripwire.flags */
#define ULNIC_TRIPWIRE_DISARM	_BITULL(0)

/*
 * Arms a wire, or moves it: it is passed when the word at `offset` in our own
 * aperture is ahead of `position`, (__s64)(word - position) > 0. The word is
 * in the CPU's byte order and 8-byte aligned. EINVAL: not so, not inside the
 * aperture, or no such wire. ENOTCONN: not bound. Disarming takes offset and
 * position 0.
 */
struct ulnic_tripwire {
	__u64 size;
	__u64 flags;
	__u64 wire;		/* 0 to ULNIC_WIRES_MAX - 1 */
	__u64 offset;
	__u64 position;
	__u64 reserved[3];
};

/* What poll() is about: bit n stands for connection n or wire n. */
struct ulnic_state {
	__u64 size;
	__u64 flags;		/* 0 */
	__u64 live;		/* out: connections */
	__u64 closed;		/* out: whose other end is closed */
	__u64 reset;		/* out: whose VM is gone */
	__u64 passed;		/* out: wires */
	__u64 reserved[2];
};

#define ULNIC_INFO		_IOWR('v', 0x20, struct ulnic_info)
#define ULNIC_BIND		_IOWR('v', 0x21, struct ulnic_bind)
#define ULNIC_LOOKUP		_IOWR('v', 0x22, struct ulnic_lookup)
#define ULNIC_CONNECT		_IOWR('v', 0x23, struct ulnic_connect)
#define ULNIC_DISCONNECT	_IOW('v', 0x24, struct ulnic_disconnect)
#define ULNIC_RING		_IOW('v', 0x25, struct ulnic_ring)
#define ULNIC_TRIPWIRE		_IOW('v', 0x26, struct ulnic_tripwire)
#define ULNIC_STATE		_IOWR('v', 0x27, struct ulnic_state)

#endif /* _ULNIC_H */
