//! Who holds what across a fork: the child will hold every record that its parent holds.

use std::sync::Mutex;
use std::sync::atomic::{Ordering, fence};

use crate::conn::{self, Conn, Handle};
use crate::state::process_group::{self, ProcessGroup};

os::process_wide! {
    /// Records that a fork under way has counted its child in for, in ascending order. Other threads go
    /// on opening and closing sockets until it happens.
    static COUNTED: Mutex<Vec<u32>> = Mutex::new(Vec::new());
}

/// Before fork: counts the child in.
pub fn count_child_in(family: &ProcessGroup) {
    let Ok(mut counted) = COUNTED.lock() else {
        return;
    };
    counted.clear();
    for number in family.held() {
        family.record(number).share();
        tell_peer(number);
        counted.push(number);
    }
}

/// In the parent: nothing is left to do, or, of a fork that failed, to be undone.
pub fn parent_goes_on(family: &ProcessGroup, failed: bool) {
    if let Ok(mut counted) = COUNTED.lock() {
        for number in counted.drain(..).filter(|_| failed) {
            count_out(family, number);
        }
    }
}

/// In the child: counts it in for what was opened after the counting, and out for what was closed.
pub fn correct_counts(family: &ProcessGroup) {
    let Ok(mut counted) = COUNTED.lock() else {
        return;
    };
    let closed = |number: &u32| family.refs(*number).load(Ordering::Relaxed) == 0;
    for number in counted.iter().copied().filter(closed) {
        count_out(family, number);
    }
    for number in family.held() {
        if counted.binary_search(&number).is_err() {
            family.record(number).share();
        }
    }
    counted.clear();
}

fn count_out(family: &ProcessGroup, number: u32) {
    if family.record(number).procs.fetch_sub(1, Ordering::AcqRel) == 1 {
        family.free(number);
    }
}

/// The peer must not sleep for space with a bell that only one of us knows.
fn tell_peer(number: u32) {
    let handle = process_group::own()
        .zip(process_group::fd_of(number))
        .map(|(family, fd)| Handle::new(family, number, fd));
    if let Some(conn) = handle.and_then(Conn::enter) {
        if conn.is_nic() {
            // Two processes cannot be rung for one connection by the daemon of one.
            conn.end_trust();
            return conn::send::leave(&conn);
        }
        conn.link.mine().shared.store(1, Ordering::Release);
        fence(Ordering::SeqCst);
        let wire = &conn.link.rx_shared().room.space;
        conn.link.ring(wire, wire.trip_all());
    }
}
