//! The end of a connection in this process.

use std::os::fd::RawFd;
use std::sync::atomic::Ordering;

use super::{Handle, close, kept};
use crate::state::control::Locked;
use crate::state::process_group::ProcessGroup;
use crate::state::record::flag;
use crate::state::upgrade_history;

/// Before the last number of a managed connection is closed by its last holder: bytes that we have
/// not read reset the connection, as the kernel's own would; the peer gets a hint to look. Not while a
/// call keeps it.
pub fn last_words(family: &'static ProcessGroup, fd: RawFd, number: u32) {
    let last = !kept::has_callers(family, number)
        && family.refs(number).load(Ordering::Relaxed) == 1
        && family.record(number).procs.load(Ordering::Acquire) == 1;
    if last {
        close::last(Handle::new(family, number, fd));
    }
}

/// This process holds the record no more.
pub fn let_go(family: &ProcessGroup, number: u32) {
    let record = family.record(number);
    family.fd_word(number).store(0, Ordering::Relaxed);
    let link = family.set_link(number, None);
    let last = record.leave();
    if link.is_some() || record.has(flag::PENDING) {
        match Locked::wait() {
            Some(mut locked) => {
                if let Some(control) = locked.control() {
                    control.forget(number);
                    if let Some(link) = link {
                        if last && record.has(flag::SLIP) {
                            // Who has it now begins anew, and so must the other end.
                            link.part();
                        }
                        link.block_is_free(last);
                        control.retire(link);
                    }
                }
            }
            // Somebody may be looking at it, and nobody can be asked: it stays for ever.
            None => std::mem::forget(link),
        }
        record.clear(flag::PENDING);
    }
    if last {
        if record.is_connection() {
            upgrade_history::ended(record);
        }
        family.free(number);
    }
}
