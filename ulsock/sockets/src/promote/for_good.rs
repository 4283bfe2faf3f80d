//! Connections that something works on which passes our hooks, and will again: they are the kernel's from here on.

use std::os::fd::RawFd;

use super::stay;
use crate::conn::handover;
use crate::state::control::Locked;
use crate::state::process_group;
use crate::state::record::{State, flag};
use crate::state::table::{self, Slot};
use rendezvous::reason::Reason;

/// Returns it exactly, and lets nobody bring it back. One that has no rings is left alone: its calls cost nothing any more.
pub fn return_for_uring(fd: RawFd) {
    if let Some((_, number, record)) = process_group::record_of(fd) {
        if record.has(flag::BY_URING) {
            return;
        }
        // Who establishes a ring pair does so under this lock.
        if let Some(mut locked) = Locked::wait()
            && let Some(control) = locked.control()
            && record.state() == State::Plain
        {
            record.set_reason(Reason::IoUring);
            stay::stay(control, number, record);
        }
        handover::to_kernel(fd, Reason::IoUring);
        // Otherwise a stand-in has taken its place, and is none of ours.
        if table::get(fd) == Slot::Record(number) {
            record.set(flag::BY_URING);
        }
        return;
    }
    handover::to_kernel(fd, Reason::IoUring);
}
