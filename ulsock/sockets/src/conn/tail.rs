//! The tail of a kernel stretch: bytes that the kernel holds back, by Nagle's algorithm or a cork.

use rustix::net::sockopt;

use super::Conn;
use crate::state::record::flag;
use os::tcp;

/// So much in the kernel's queue is held back by the receiver's window, not by a cork.
const WINDOW_LIMITED: u32 = 64 << 10;

impl Conn<'_> {
    /// What the kernel still holds waits for the receiver's window, and then the ring may come
    /// behind it; or Nagle's algorithm or a cork holds a tail back, which is let go. A cork over
    /// little is respected: the program is about to say more.
    pub(super) fn push_out(&self, queued: u32) -> bool {
        if self.record.has(flag::HELD_BACK) {
            if queued < WINDOW_LIMITED {
                return false;
            }
            let corked = tcp::is_corked(self.socket).unwrap_or(false);
            let _ = sockopt::set_tcp_cork(self.socket, false);
            let _ = sockopt::set_tcp_cork(self.socket, corked);
        } else {
            self.flush_nagle();
        }
        true
    }

    /// What a guard has sent to the kernel has had no Nagle's algorithm on its ring, and has none here:
    /// two sends and a receive would wait 40 ms for a delayed acknowledgement.
    pub(super) fn let_go_of_tail(&self) {
        if !self.record.has(flag::HELD_BACK | flag::NODELAY)
            && tcp::not_sent(self.socket).is_ok_and(|queued| (1..WINDOW_LIMITED).contains(&queued))
        {
            self.flush_nagle();
        }
    }

    /// Lets the kernel send what Nagle's algorithm holds back. The program's own wish, which another
    /// thread may just be saying, stands before the kernel hears it: so it is not lost.
    fn flush_nagle(&self) {
        if self.record.has(flag::NODELAY) {
            return;
        }
        let _ = sockopt::set_tcp_nodelay(self.socket, true);
        let _ = sockopt::set_tcp_nodelay(self.socket, false);
        if self.record.has(flag::NODELAY) {
            let _ = sockopt::set_tcp_nodelay(self.socket, true);
        }
    }
}
