//! What is different about Unix sockets: who counts their bytes, and how they end.

use std::sync::atomic::Ordering;

use libc::{POLLHUP, POLLWRBAND, c_short};
use netstack::ring::Sender;
use rustix::io::Errno;
use rustix::net::{RecvFlags, sockopt};

use super::Conn;
use super::buffers::Incoming;
use super::ready::OUT;
use crate::state::record::flag;
use os::{tcp, unix};
use rendezvous::reason::Reason;
use rendezvous::rings::Rings;

/// Comparisons in vain. Once in a while the peer is between a receive and its count.
const MOST_IN_VAIN: u32 = 1024;
/// Comparisons, of those, that have found the same number of bytes missing, one after the other.
const MOST_ALIKE: u32 = 32;
/// sock_diag is asked at comparisons 0, 1, 2, 4, 8..., and at every 32nd from there on: 10 us each.
const REPEATED: u32 = 32;
/// Looks at one comparison.
const LOOKS: u32 = 4;

/// How far the receiver has come.
enum Counted {
    So {
        read: u64,
        arrived: u64,
    },
    /// It reads just now.
    Moving,
    /// Nobody was asked.
    Unknown,
}

impl Conn<'_> {
    /// Before the sending direction enters a ring for the first time, under its lock: do both ends count alike? Each has
    /// counted for itself since the socket was there, and a call that went past us would shift all that follows: what
    /// the other end has read, and what lies unread there, must be what we have sent.
    pub(super) fn counts_agree(&self, tx: &Sender<'_, Rings>) -> bool {
        let counts = &self.record.unix;
        if counts.have_agreed() {
            return true;
        }
        let before = counts.compare();
        let mut short = None;
        for look in 0..LOOKS {
            match self.count_at_peer(tx, before) {
                Counted::Unknown => return false,
                Counted::So { arrived, .. } if arrived == tx.state.written => {
                    counts.agree();
                    return true;
                }
                Counted::So { arrived, .. } if arrived > tx.state.written => {
                    self.disagree();
                    return false;
                }
                Counted::So { read, arrived } if look == 0 || short == Some((read, arrived)) => {
                    short = Some((read, arrived));
                }
                Counted::So { .. } | Counted::Moving => short = None,
            }
            // A receive that makes room wakes us: it may stand still on our CPU, done and not counted yet.
            if look + 1 < LOOKS {
                rustix::thread::sched_yield();
            }
        }
        // What it has read may not be counted yet, now and then; but not the same number of bytes at each comparison.
        if let Some((read, arrived)) = short {
            let alike = counts.note_shortage(tx.state.written - arrived, read);
            if before >= MOST_IN_VAIN && alike >= MOST_ALIKE {
                self.disagree();
            }
        }
        false
    }

    #[cold]
    fn disagree(&self) {
        self.record.set(flag::PINNED);
        self.record.set_reason(Reason::Uncounted);
    }

    /// What the receiver has counted, and what lies unread there.
    fn count_at_peer(&self, tx: &Sender<'_, Rings>, asked_before: u32) -> Counted {
        let read = || tx.shared.consumer.head.load(Ordering::Acquire);
        let read_before = read();
        let Some(unread) = self.unread_by_peer(asked_before) else {
            return Counted::Unknown;
        };
        match read() == read_before {
            true => Counted::So {
                read: read_before,
                arrived: read_before.saturating_add(unread),
            },
            false => Counted::Moving,
        }
    }

    /// That it has read all is cheap to ask. What it has not takes a question to sock_diag, which is asked less and
    /// less often.
    fn unread_by_peer(&self, asked_before: u32) -> Option<u64> {
        if tcp::outq(self.socket) == Ok(0) {
            return Some(0);
        }
        // The question takes memory, which a signal handler must not.
        let is_time = asked_before.is_power_of_two() || asked_before.is_multiple_of(REPEATED);
        if !is_time || self.me.in_handler() {
            return None;
        }
        let (_, peer) = self.record.inodes()?;
        unix::unread_at(peer).ok().map(u64::from)
    }

    /// The kernel socket has shown a hang-up: has a peer that was killed left bytes of ours unread in the ring? The kernel
    /// would say ECONNRESET, once. Without a lock: it is asked with and without those of either direction.
    pub(super) fn note_unread_at_end(&self) {
        if !self.record.is_unix() || !self.record.tx.is_on_ring() {
            return;
        }
        if self.link.tx_shared().unread_in_ring(0) > 0 && self.is_left_alone() {
            self.keep_first_error(Errno::CONNRESET);
        }
    }

    /// The same for who has not heard the kernel socket.
    pub(super) fn find_unread_at_end(&self) {
        let may_be = self.record.is_unix() && self.record.tx.is_on_ring() && !self.peer_closed();
        if may_be && self.kernel_events() & POLLHUP != 0 {
            self.note_unread_at_end();
        }
    }

    /// The kernel socket has hung up: does a poll tell of an error, too?
    pub(super) fn hangs_up_in_reset(&self) -> bool {
        self.note_unread_at_end();
        self.has_pending_reset()
    }

    /// Is the peer the reason of a hang-up? Both ends may have shut down what they send, and live: each has said so in
    /// the ring. But our own end that reads no more shows the same, and the peer says nothing.
    fn is_left_alone(&self) -> bool {
        if self.peer_closed() {
            return false;
        }
        // The question takes memory, which a signal handler must not.
        let asks = || !self.me.in_handler() && unix::receiver_of(self.socket) == Ok(None);
        !self.record.has(flag::SHUT_READING) || asks()
    }

    /// The peer has said that it closes with bytes of ours unread.
    pub(super) fn note_reset_by_peer(&self) {
        if self.record.is_unix() && self.link.peer_has_reset() {
            self.keep_first_error(Errno::CONNRESET);
        }
    }

    /// The end of a Unix stream as the kernel tells it: what we have found out, once.
    pub(super) fn has_pending_reset(&self) -> bool {
        self.record.is_unix() && {
            self.note_reset_by_peer();
            self.untold().is_some()
        }
    }

    /// With SO_PASSCRED the end of a Unix stream has credentials, too.
    pub(super) fn take_notes_of_end(&self, into: &mut dyn Incoming, len: usize) {
        if self.record.is_unix() {
            let _ = into.kernel_recv(self.socket, len, RecvFlags::empty());
        }
    }

    /// A receive that gets less than it wants, because of an error: of a Unix socket nobody is told of it any more
    /// (`unix_stream_read_generic` in net/unix/af_unix.c takes it, and returns the bytes).
    pub(super) fn lose_error(&self) {
        if self.has_pending_reset() || self.record.is_unix() && self.ends_in_error() {
            self.take_error();
        }
    }

    /// A send that has moved bytes ends with this. TCP tells it to the next call. Of a Unix socket nobody is told of it
    /// any more: each further piece takes the error (`sock_alloc_send_pskb` in net/core/sock.c).
    pub(super) fn end_after_part(&self, error: Errno) {
        self.keep_error(error);
        if self.record.is_unix() && [Errno::PIPE, Errno::CONNRESET].contains(&error) {
            self.take_error();
        }
    }

    /// The peer has ended while a send waited for room: as in the kernel a reset, if it is one, and no signal. The
    /// kernel looks for the error first, and takes it (`sock_alloc_send_pskb`).
    pub(super) fn end_of_wait(&self) -> Errno {
        match self.take_error() {
            Some(Errno::CONNRESET) => Errno::CONNRESET,
            _ => Errno::PIPE,
        }
    }

    /// The error of the socket, wherever it is. From here on it has been told.
    fn take_error(&self) -> Option<Errno> {
        let pending = sockopt::socket_error(self.socket).ok();
        self.take_verdict(pending.and_then(Result::err))
    }

    /// Bytes that have come to the kernel socket.
    pub fn received_by_kernel(&self) -> u64 {
        if self.record.is_unix() {
            // First what was read: what is read meanwhile must not be counted twice.
            let received = self.record.unix.received();
            return received + tcp::inq(self.socket).map_or(0, u64::from);
        }
        tcp::info(self.socket).map_or(0, |info| info.bytes_received)
    }

    /// What tells of room: of TCP and of Unix sockets the kernel tells differently.
    pub(super) fn out_events(&self) -> c_short {
        match self.record.is_unix() {
            true => OUT | POLLWRBAND,
            false => OUT,
        }
    }
}
