//! fork, exec, spawn, sandboxes and exit: what becomes of our connections.

use std::sync::atomic::{fence, Ordering};
use std::sync::Mutex;

use libc::c_char;

use crate::api::has_connections;
use crate::birth;
use crate::conn::handover::{hand_over, Rest};
use crate::conn::{self, Conn, Handle};
use crate::epoll::Forked;
use crate::family::Family;
use crate::lifecycle;
use crate::options;
use crate::passing;
use crate::process;
use crate::reason::Reason;
use crate::record::State;
use crate::stats;
use crate::table::{self, Slot};
use crate::will::{self, Will};

/// Before fork: the child will hold everything that we hold.
pub fn fork_prepare() {
    if !process::is_on() {
        return;
    }
    birth::give_records_to_all();
    process::lock_for_fork();
    crate::epoll::lock_all();
    let Some(family) = process::family() else {
        return;
    };
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

/// Records that a fork under way has counted its child in for, in ascending order. Other threads go
/// on opening and closing sockets until it happens.
static COUNTED: Mutex<Vec<u32>> = Mutex::new(Vec::new());

/// In the child: counts it in for what was opened after the counting, and out for what was closed.
fn correct_counts(family: &Family) {
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

fn count_out(family: &Family, number: u32) {
    if family.record(number).procs.fetch_sub(1, Ordering::AcqRel) == 1 {
        family.free(number);
    }
}

/// The peer must not sleep for space with a bell that only one of us knows.
fn tell_peer(number: u32) {
    let handle = process::family()
        .zip(lifecycle::fd_of(number))
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

/// In the parent; a fork that failed leaves everything as it was.
pub fn fork_parent(child: i32) {
    if !process::is_on() {
        return;
    }
    if let (Some(family), Ok(mut counted)) = (process::family(), COUNTED.lock()) {
        for number in counted.drain(..).filter(|_| child < 0) {
            count_out(family, number);
        }
    }
    crate::epoll::unlock_all(match u32::try_from(child) {
        Ok(child) => Forked::Parent(child),
        Err(_) => Forked::Failed,
    });
    process::unlock_after_fork();
}

pub fn fork_child() {
    if !process::is_on() {
        return;
    }
    let me = rustix::process::getpid().as_raw_nonzero().get();
    crate::epoll::unlock_all(Forked::Child(me.unsigned_abs()));
    if let Some(family) = process::family() {
        correct_counts(family);
    }
    process::unlock_after_fork();
    process::after_fork();
    crate::vfork::after_fork();
    if let Some(family) = process::family() {
        conn::kept::forget(family);
    }
}

/// Before exec: the next program may not know us. Sockets that it will hold go back to the kernel;
/// those that the kernel closes on the way are let go of here, for nobody else will tell.
///
/// # Safety
/// `environment` is null (for the program's own) or a list of C strings that ends with null.
pub unsafe fn before_exec(environment: *const *const c_char) {
    // SAFETY: by contract.
    let heard = has_connections() && unsafe { will::will_be_read(environment) };
    let heard = heard && !crate::limits::are_too_low();
    let will = heard.then(|| Will::make(|fd| !closes_on_exec(fd)));
    return_all(Reason::Exec, true, Rest::StandInIfAlone);
    if let Some(will) = will {
        will.leave();
    }
    if process::is_on() {
        // Sets may be older than the first connection, and with it the family.
        crate::epoll::held_by_me(false, closes_on_exec);
        crate::epoll::go_to_other_program(closes_on_exec);
        let_go_of_closing();
    }
}

fn let_go_of_closing() {
    let (Some(family), Ok(mut left)) = (process::family(), LEFT.lock()) else {
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
        } else if let Some(fd) = lifecycle::fd_of(number) {
            conn::close::by_exec(Handle::new(family, number, fd));
        }
    }
}

/// The exec has failed, and the program goes on with what it holds.
pub fn exec_failed() {
    if process::is_on() && process::family().is_some() {
        will::revoke();
    }
    if let (Some(family), Ok(mut left)) = (process::family(), LEFT.lock()) {
        for number in left.drain(..) {
            family.record(number).share();
        }
    }
    crate::epoll::held_by_me(true, |_| true);
}

/// Records that an exec under way has let go of.
static LEFT: Mutex<Vec<u32>> = Mutex::new(Vec::new());

/// Before libc forks and execs by itself: as before exec, and the other holder never tells us when
/// it lets go.
pub fn before_spawn() {
    return_all(Reason::Exec, true, Rest::Ours);
}

/// Before chroot: what we find by path we must find now.
pub fn before_chroot() {
    if process::begin().is_some() {
        crate::sys::proc::keep();
        stats::keep_report();
    }
}

/// The same when nobody knows which sockets the new program will get.
pub fn before_spawn_of_all() {
    return_all(Reason::Exec, false, Rest::Ours);
}

/// Something takes sockets past us: all of them return, and stay.
pub fn before_unhooked(reason: Reason) {
    process::freeze(reason);
    return_all(reason, false, Rest::StandInIfAlone);
}

/// A library is loaded whose calls pass by us, on whatever the program hands to it: as with io_uring.
pub fn before_plugin() {
    process::freeze(Reason::Plugin);
    return_all(Reason::Plugin, false, Rest::StandInIfAlone);
}

/// Before a seccomp filter loads, or descriptors become few: everything to the kernel, and then we are not there any more.
pub fn before_sandbox() {
    return_all(Reason::Sandbox, false, Rest::StandInIfAlone);
    process::switch_off();
    table::clear();
}

fn return_all(reason: Reason, survivors_only: bool, rest: Rest) {
    let returns = |fd| !survivors_only || !closes_on_exec(fd);
    birth::leave_to_program(returns);
    let Some(family) = process::family().filter(|_| process::is_on()) else {
        return;
    };
    let mut managed = Vec::new();
    for (fd, slot) in table::all() {
        let number = match slot {
            Slot::Record(number) if returns(fd) => number,
            Slot::Epoll(set) if returns(fd) => {
                crate::epoll::only_by_kernel(set, fd, rest);
                continue;
            }
            _ => continue,
        };
        // Who gets it now does not count itself.
        passing::void(family.record(number));
        if family.record(number).state() == State::Managed {
            managed.push(Handle::new(family, number, fd));
        } else {
            options::to_kernel(fd, reason);
        }
    }
    if !managed.is_empty() {
        hand_over(&managed, reason, rest);
    }
}

fn closes_on_exec(fd: i32) -> bool {
    // SAFETY: a number from our own table.
    let fd = unsafe { std::os::fd::BorrowedFd::borrow_raw(fd) };
    rustix::io::fcntl_getfd(fd).is_ok_and(|flags| flags.contains(rustix::io::FdFlags::CLOEXEC))
}

/// The process ends: as if every number were closed, so that the others see true counts.
pub fn exiting() {
    if !process::is_on() {
        return;
    }
    stats::report();
    process::switch_off();
    let Some(family) = process::family() else {
        return;
    };
    exec_failed();
    crate::epoll::held_by_me(false, |_| true);
    for number in family.held() {
        let record = family.record(number);
        if let Some(fd) = lifecycle::fd_of(number) {
            passing::number_closes(record, fd);
        }
        let last = record.procs.load(Ordering::Acquire) == 1;
        if let Some(fd) =
            lifecycle::fd_of(number).filter(|_| last && record.state() == State::Managed)
        {
            conn::close::last(Handle::new(family, number, fd));
        }
        if record.procs.fetch_sub(1, Ordering::AcqRel) == 1 {
            family.free(number);
        }
        family.refs(number).store(0, Ordering::Relaxed);
    }
    process::leave_run_dir();
}
