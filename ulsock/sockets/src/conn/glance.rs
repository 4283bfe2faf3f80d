//! Glances at the kernel socket while rings carry the bytes: a peer that was killed shows there alone.
//!
//! Whoever sleeps hears the kernel socket anyhow. These are for programs that never sleep: at the
//! first call in each tick of the kernel's clock (1 to 10 ms), so that who calls now and then is told
//! the truth at once, and who calls all the time very soon. A sender asks whether the peer's process
//! has ended, which costs one call for all its connections, and only then its own socket: with
//! thousands of connections each send would be the first in its tick. What else a kernel socket may
//! know (the connection was ended past us) is asked for now and then.

use std::sync::atomic::Ordering;

use rustix::event::{PollFd, PollFlags, poll};
use rustix::time::{ClockId, Timespec, clock_gettime};

use super::Conn;
use crate::conn::reclaim;
use crate::state::record::flag;
use os::tcp;

/// A non-blocking receive that finds its ring empty looks at the kernel socket once in so many.
const RECEIVES: u64 = 8;
/// Sends that follow each other within a tick look at the clock once in so many.
const SENDS: u64 = 8;
/// A sender asks its kernel socket at least this often, in nanoseconds, whoever lives.
const NOW_AND_THEN: u64 = 1_000_000_000;

fn tick() -> u64 {
    let now = clock_gettime(ClockId::MonotonicCoarse);
    (now.tv_sec as u64).wrapping_mul(1_000_000_000) + now.tv_nsec as u64
}

impl Conn<'_> {
    /// Before a receive that does not wait says that there is nothing.
    pub(super) fn glance(&self) -> bool {
        let (tick, side) = (tick(), &self.record.rx);
        if side.glanced.swap(tick, Ordering::Relaxed) != tick {
            reclaim::look_if_due();
            return true;
        }
        let n = side.glances.load(Ordering::Relaxed).wrapping_add(1);
        side.glances.store(n, Ordering::Relaxed);
        n.is_multiple_of(RECEIVES)
    }

    /// Is the next thing to receive an error? It stays on the kernel socket.
    pub(super) fn ends_in_error(&self) -> bool {
        let mut fds = [PollFd::from_borrowed_fd(self.socket, PollFlags::empty())];
        poll(&mut fds, Some(&Timespec::default())).is_ok_and(|ready| ready > 0)
            && fds[0].revents().contains(PollFlags::ERR)
            && tcp::inq(self.socket) == Ok(0)
            && !self.ring_is_unread()
    }

    /// Before a send goes into a ring that perhaps nobody empties any more.
    #[inline]
    pub(super) fn glance_before_send(&self) {
        let side = &self.record.tx;
        let sends = side.counts.messages.load(Ordering::Relaxed);
        if sends >= side.glances.load(Ordering::Relaxed) {
            self.look_for_end(sends);
        }
    }

    /// Under the sending lock: what is noted here makes this very send leave the ring.
    #[cold]
    pub(super) fn look_for_end(&self, sends: u64) {
        let (tick, side) = (tick(), &self.record.tx);
        let again = side.glanced.swap(tick, Ordering::Relaxed) == tick;
        let pause = if again { SENDS } else { 1 };
        side.glances.store(sends + pause, Ordering::Relaxed);
        self.show_cpu();
        if again {
            return;
        }
        let since = tick.wrapping_sub(side.asked.load(Ordering::Relaxed));
        let gone = self.link.pair.is_gone(tick);
        if since < NOW_AND_THEN && !gone {
            return;
        }
        if self.is_nic() {
            // The daemon's death is nobody's end, and the kernel's word about the peer only asks.
            if gone {
                self.record.set(flag::FAIL_OVER);
            }
            return self.follow_frozen_word();
        }
        side.asked.store(tick, Ordering::Relaxed);
        let mut fds = [PollFd::from_borrowed_fd(self.socket, PollFlags::RDHUP)];
        if poll(&mut fds, Some(&Timespec::default())).is_ok_and(|ready| ready > 0) {
            if fds[0].revents().contains(PollFlags::HUP) {
                self.note_unread_at_end();
            }
            self.record.set(flag::LOOK | flag::PEER_FIN);
        }
    }
}
