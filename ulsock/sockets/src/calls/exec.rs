//! What a process that becomes another program leaves behind.

use std::sync::Mutex;
use std::sync::atomic::Ordering;

use crate::calls::return_all::closes_on_exec;
use crate::conn::{self, Handle};
use crate::state::process_group;
use crate::state::table::{self, Slot};

os::process_wide! {
    /// Records that an exec under way has let go of.
    static LEFT: Mutex<Vec<u32>> = Mutex::new(Vec::new());
}

/// Before exec: those that the kernel closes on the way are let go of here, for nobody else will tell.
pub fn let_go_of_closing() {
    let (Some(family), Ok(mut left)) = (process_group::own(), LEFT.lock()) else {
        return;
    };
    if !left.is_empty() {
        return;
    }
    let open = table::all().filter(|(fd, _)| !closes_on_exec(*fd));
    let staying: Vec<Slot> = open.map(|(_, slot)| slot).collect();
    let going = |number: &u32| !staying.contains(&Slot::Record(*number));
    for number in family.held().filter(going) {
        let procs = &family.record(number).procs;
        if procs.load(Ordering::Acquire) > 1 {
            procs.fetch_sub(1, Ordering::AcqRel);
            left.push(number);
        } else if let Some(fd) = process_group::fd_of(number) {
            conn::close::by_exec(Handle::new(family, number, fd));
        }
    }
}

/// The exec has failed: what was let go of is held again.
pub fn hold_again() {
    if let (Some(family), Ok(mut left)) = (process_group::own(), LEFT.lock()) {
        for number in left.drain(..) {
            family.record(number).share();
        }
    }
}
