//! What a poll knows about its fds.

use libc::{POLLOUT, c_short, pollfd};
use smallvec::SmallVec;

use crate::conn::{Handle, let_go};
use crate::runtime::sleep_state::{HeldPlace, What};
use crate::runtime::way::Way;
use crate::state::record::Record;
use shm::waiter::BELLS;

/// Up to so many fds no memory is needed: a signal handler may poll.
pub const FEW: usize = 64;

/// A managed connection among the polled fds.
#[derive(Clone, Copy)]
pub(super) struct PolledConnection {
    pub index: usize,
    pub handle: Handle,
}

#[derive(Default)]
pub struct Lists {
    pub(super) watched: SmallVec<[PolledConnection; FEW]>,
    /// Connections that are not (fully) managed: while we are inside their gates they do not become
    /// so, for nobody could wake us.
    pub(super) gates: SmallVec<[(Handle, Way); FEW]>,
    /// Epoll sets among the polled fds.
    pub(super) sets: SmallVec<[u32; 4]>,
    /// For the kernel: the program's fds, and our bells.
    pub(super) all: SmallVec<[pollfd; FEW + BELLS]>,
}

impl Lists {
    pub(super) fn enter_gates(&mut self, record: &Record, handle: Handle, events: c_short) {
        let out = POLLOUT | libc::POLLWRNORM | libc::POLLWRBAND;
        if events & !out != 0 && record.rx.gate.enter() {
            self.gates.push((handle, Way::In));
        }
        if events & out != 0 && record.tx.gate.enter() {
            self.gates.push((handle, Way::Out));
        }
    }

    pub(super) fn leave_gates(&mut self) {
        for (handle, way) in self.gates.drain(..) {
            let_go(HeldPlace {
                handle,
                what: What::Gate(way),
            });
        }
    }
}

impl Drop for Lists {
    fn drop(&mut self) {
        self.leave_gates();
    }
}
