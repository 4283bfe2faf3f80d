//! Two runs of a program against each other.
//!
//! What is not compared, and why:
//! - how much a full connection took before it said so (`~sent`): the rings' sizes are not the
//!   kernel's buffers. All bytes that were taken must arrive;
//! - counts above 16,000 of FIONREAD: what lies beyond the receive window is still with the sender;
//! - the number of unacknowledged bytes (SIOCOUTQ): acknowledgements are delayed by timers;
//! - SO_RCVBUF, SO_SNDBUF, TCP_QUICKACK: the kernel tunes them by the traffic that it sees;
//! - when bytes come that a cork or MSG_MORE holds back: after each such send there is a pause, in which
//!   the kernel sends them too;
//! - how long bytes take through the relay of a stand-in: programs with calls that hand over pause for
//!   60 ms after each send;
//! - a wait of less than 15 ms in a send, when `ULSOCK_RING` limits the rings: it may be waiting for a
//!   reader before it goes to the kernel;
//! - edges of OUT on Unix sockets while there was room all the time: the kernel tells one after each message that the
//!   peer has read (unix_write_space), a ring does not. Those after a full direction are in `tests/differ/unix-edges`;
//! - who comes first in an epoll_wait with room for fewer than are ready;
//! - how much memory the unread messages of a Unix socket take (SIOCOUTQ): the kernel counts its buffers, some 768
//!   bytes for a message of one byte. Whether there are unread ones is compared;
//! - from which byte on a Unix socket has no room (unix_writable and sock_alloc_send_pskb of the kernel count the same
//!   buffers: no POLLOUT from a quarter of SO_SNDBUF on, EAGAIN or sleep from all of it on). Compared are both ends of
//!   that: a direction that takes no byte more (`fill`) has no POLLOUT, and whoever waits there goes on, is interrupted,
//!   times out or finds the peer gone as in the kernel; one that is empty has POLLOUT. Between, programs stay below the
//!   quarter. A packet that is larger than the buffer is refused at an exact byte, which is compared;
//! - numbers of ports and processes.
//!
//! Where the kernel itself gives different outcomes from run to run (which of two sleeping readers
//! gets a byte), an accelerated outcome is right if some kernel run had it too.

use std::fs;
use std::path::PathBuf;
use std::sync::atomic::{AtomicU32, Ordering};

use super::mode::Mode;
use super::program::Program;
use super::world::{self, Corner};
use crate::report::Report;

/// How often the kernel is asked before a difference is one.
const KERNEL_RUNS: usize = 6;

/// A step whose outcome no kernel run had.
#[derive(Clone, Debug)]
pub struct Difference {
    /// Its index; that of the end is the number of steps.
    pub step: usize,
    /// What the kernel said.
    pub kernel: String,
    /// What the accelerated run said.
    pub ours: String,
}

/// What a comparison found.
#[derive(Debug)]
pub enum Verdict {
    /// The outcomes are the same.
    Same,
    /// The first kernel run differed, a later one did not.
    Undetermined(Difference),
    /// They differ.
    Differs(Difference),
}

/// Runs programs in a corner of its own.
pub struct Judge {
    corner: Corner,
    actor: PathBuf,
}

impl Judge {
    /// `actor` is the program that becomes an actor when its first argument says so.
    pub fn new(actor: PathBuf) -> Self {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let name = format!(
            "ulsock-differ-{}-{}",
            std::process::id(),
            NEXT.fetch_add(1, Ordering::Relaxed)
        );
        let corner = Corner {
            run_dir: PathBuf::from("/dev/shm").join(&name),
            folder: std::env::temp_dir().join(&name),
        };
        fs::create_dir_all(&corner.folder).expect("work folder");
        Self { corner, actor }
    }

    /// One run.
    pub fn run(&self, program: &Program, mode: &Mode) -> Vec<String> {
        let outcomes = world::run(program, mode, &self.corner, &self.actor);
        outcomes
            .iter()
            .map(|text| world::comparable(text))
            .collect()
    }

    /// What actors under ulsock have reported since the last time.
    pub fn take_report(&self) -> Report {
        let (report, _) = Report::sum(&self.corner.report());
        let _ = fs::remove_file(self.corner.report());
        report
    }

    /// What actors have complained about since the last time.
    pub fn take_complaints(&self) -> String {
        let texts = (0..2).map(|actor| {
            let path = self.corner.errors(actor);
            let text = fs::read_to_string(&path).unwrap_or_default();
            let _ = fs::remove_file(path);
            text
        });
        texts.collect()
    }

    /// One accelerated run against as many of the kernel's as it takes.
    pub fn compare(&self, program: &Program, mode: &Mode) -> Verdict {
        let ours = self.run(program, mode);
        let mut farthest: Option<Difference> = None;
        for _ in 0..KERNEL_RUNS {
            let kernel = self.run(program, &Mode::kernel());
            let Some(found) = difference(&kernel, &ours) else {
                return farthest.map_or(Verdict::Same, Verdict::Undetermined);
            };
            if farthest
                .as_ref()
                .is_none_or(|known| known.step < found.step)
            {
                farthest = Some(found);
            }
        }
        farthest.map_or(Verdict::Same, Verdict::Differs)
    }
}

impl Drop for Judge {
    fn drop(&mut self) {
        for path in [&self.corner.folder, &self.corner.run_dir] {
            let _ = fs::remove_dir_all(path);
        }
    }
}

fn difference(kernel: &[String], ours: &[String]) -> Option<Difference> {
    let step =
        (0..kernel.len().max(ours.len())).find(|step| kernel.get(*step) != ours.get(*step))?;
    let text = |outcomes: &[String]| outcomes.get(step).cloned().unwrap_or_default();
    Some(Difference {
        step,
        kernel: text(kernel),
        ours: text(ours),
    })
}
