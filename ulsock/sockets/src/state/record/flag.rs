//! Facts about a socket, as bits of its record.

pub const NONBLOCK: u32 = 1 << 0;
pub const CONNECTED: u32 = 1 << 1;
/// Never again on a ring.
pub const PINNED: u32 = 1 << 2;
/// The kernel has shown us the peer's FIN.
pub const PEER_FIN: u32 = 1 << 3;
/// The peer wrote nonsense or bytes without a mark: read the kernel, whatever the ring says.
pub const BROKEN: u32 = 1 << 4;
/// Our own direction is shut down.
pub const SHUT: u32 = 1 << 5;
/// It has been on a ring at least once.
pub const UPGRADED: u32 = 1 << 6;
/// Kernel bytes may be held back (MSG_MORE, TCP_CORK): no switch now.
pub const HELD_BACK: u32 = 1 << 7;
/// An offer or a claim of it is out.
pub const PENDING: u32 = 1 << 8;
/// The kernel socket has shown an event: look at it even if the ring is all we expect.
pub const LOOK: u32 = 1 << 9;
/// It has been a member of an epoll set.
pub const IN_EPOLL: u32 = 1 << 10;
/// The program reads no more: an empty ring is the end, and the kernel says so.
pub const SHUT_READING: u32 = 1 << 11;
/// An epoll set watches it at a number of our own, for the program has closed the one it added.
pub const MOVED: u32 = 1 << 12;
/// It has been managed: its sides are not as in a new record.
pub const USED: u32 = 1 << 13;
/// More than one process has held it at some time.
pub const SHARED: u32 = 1 << 14;
/// On the kernel for now, by our guard: it is tried there, or faster.
pub const AWAY: u32 = 1 << 15;
/// The program has turned Nagle's algorithm off.
pub const NODELAY: u32 = 1 << 16;
/// It has been shown to the daemon of this host: what it knows about promotions is there.
pub const NIC: u32 = 1 << 17;
/// Somebody captures, or did: what is put into its ring is copied. See [`crate::state::capture`].
pub const COPIED: u32 = 1 << 18;
/// It is on its way to the link: no byte is accepted until it is there, or has given up.
pub const JOINING: u32 = 1 << 19;
/// What the kernel brings next may be a record of the other library's.
pub const RECORD_MAY_COME: u32 = 1 << 20;
/// The link does not carry it any more: back to the kernel at the next occasion.
pub const FAIL_OVER: u32 = 1 << 21;
/// It has parted from its ring pair, and threads may still look at that one: no other until none does.
pub const PARTED: u32 = 1 << 22;
/// Plain for good. Said under the lock of the control state, and who establishes a ring pair looks for it there.
pub const STAYS: u32 = 1 << 23;
/// The other end has refused our claim, and said why.
pub const REFUSED: u32 = 1 << 25;
/// Receives tell how many bytes are left (TCP_INQ).
pub const INQ: u32 = 1 << 24;
/// It was passed on or received: who holds it is in a [slip](crate::state::slips).
pub const SLIP: u32 = 1 << 26;
/// Waits for what kernel TCP brings may be awake.
pub const AWAKE: u32 = 1 << 27;
/// What a look must know of the socket has been read: see [`crate::calls::io`].
pub const LOOKED_UP: u32 = 1 << 28;
/// An io_uring may work on it: it was returned to the kernel for that, exactly and for good.
pub const BY_URING: u32 = 1 << 29;
/// The program writes into its ring: no memory of that is given back.
pub const RESERVED: u32 = 1 << 30;
/// Somebody outside has left word: what is asked is in the record and in the header of its family. See [`crate::state::orders`].
pub const ORDERED: u32 = 1 << 31;
