//! The life of a process: start, fork, exec, exit, each as one list in its order.
//!
//! A step is here because the order of the steps matters. What each one does is told where it is defined.

use std::sync::atomic::Ordering;

use libc::c_char;

use crate::calls::api::has_connections;
use crate::calls::exec;
use crate::calls::exec_handoff::{self, ExecHandoff};
use crate::calls::fork_counts;
use crate::calls::limits;
use crate::calls::opening;
use crate::calls::passing;
use crate::calls::restart;
use crate::calls::return_all::{self, closes_on_exec};
use crate::calls::stand_in;
use crate::calls::uring;
use crate::calls::vfork;
use crate::conn::handover::Rest;
use crate::conn::readiness::{self, Readiness};
use crate::conn::{self, Handle};
use crate::ready::epoll::{self, Forked};
use crate::ready::poll;
use crate::runtime::chaos;
use crate::runtime::process;
use crate::runtime::thread;
use crate::runtime::upcalls::{self, Upcalls};
use crate::state::control;
use crate::state::engine;
use crate::state::process_group::{self, ProcessGroup};
use crate::state::record::{Record, State};
use crate::state::stats;
use crate::state::table::{self, Slot};
use crate::state::urings;
use crate::state::young;
use os::access;
use os::fds;
use os::log;
use os::memory;
use os::mlock;
use os::pid;
use rendezvous::config::{Config, ConfigFile};
use rendezvous::reason::Reason;
use rendezvous::rundir;
use shm::waiter;

/// How the floors below reach those above them.
const UPCALLS: &Upcalls = &Upcalls {
    let_go: conn::let_go,
    kernel_call_ended: |record, way| {
        // SAFETY: a record of the family mapping, which is never unmapped.
        unsafe { &*record.cast::<Record>() }.kernel_call_ended(way, 0);
    },
    // SAFETY: an entry of the array, which is never unmapped.
    young_call_left: |entry, way| unsafe { young::left(entry, way) },
    caller_left: conn::kept::left,
    leave_set: epoll::leave,
    end_doze: epoll::end_doze,
    clear_lists: poll::clear,
    restart: restart::lead,
    engine_takes_duty: engine::take_duty,
    engine_glances: engine::glance,
    return_all: return_all::before_unhooked,
    uring_is_watched: uring::is_watched,
    grow_up: opening::grow_up,
};

const READINESS: &Readiness = &Readiness {
    touch: epoll::touch,
    shut_down: epoll::shut_down,
    send_blocked: epoll::send_blocked,
    convert: epoll::convert,
    restore: epoll::restore,
    put_off: epoll::put_off,
    stand_in: stand_in::replace,
};

// ---- Start

/// Load time. Nothing is opened: the first TCP socket does that (`state::begin`).
pub fn start() {
    ask_libc();
    access::init();
    pid::note();
    if is_secure() {
        return;
    }
    match Config::from_env() {
        Ok(config) => start_as(config),
        Err(error) => log::always(format_args!("{error}; staying on kernel TCP")),
    }
}

/// The same with a configuration that is known, as unit tests have it.
pub fn start_as(config: Config) {
    let enabled = config.enabled;
    // 1. Messages can be printed.
    log::init(config.log, config.log_file.as_deref());
    process::configure(config);
    if let ConfigFile::Refused(why) = &process::config().file {
        log::info(format_args!("{why}; going on without that file"));
    }
    chaos::init();
    // 2. The table before anything that is looked up in it; without it we are not there.
    if !enabled || limits::are_too_low() || !table::init() {
        return;
    }
    young::init();
    // 3. The floors know each other before the first call comes.
    upcalls::set(UPCALLS);
    readiness::tell(READINESS);
    // 4. Our own descriptors, from the first one on, are hidden from the program.
    fds::on_internal(hide_internal);
    fds::make_room();
    // 5. Threads, and the barrier by which they are waited for.
    memory::init();
    thread::init();
    // 6. From here on calls are ours; then what the process held as another program.
    rundir::make_if_root(&process::config().run_dir);
    process::switch_on();
    exec_handoff::take_over(&process::config().run_dir);
}

/// Our own fds are born and closed: the program must not see them.
fn hide_internal(fd: i32, born: bool) {
    table::set(fd, if born { Slot::Internal } else { Slot::Foreign });
}

/// rustix looks libc's auxiliary vector up at its first need of the clock, by dlsym: not in a hook.
/// (The kernel's own vector would not do: valgrind hides from programs what it names.)
fn ask_libc() {
    let _ = rustix::time::clock_gettime(rustix::time::ClockId::Monotonic);
}

/// A set-uid or set-gid program, or one whose file has capabilities: it has more rights than whoever has started it and
/// chosen its environment, of which nothing is believed. We are off, make no file and say no word. The loader drops
/// LD_PRELOAD there, but loads what /etc/ld.so.preload names (getauxval(3), ld.so(8)).
fn is_secure() -> bool {
    // SAFETY: takes and returns a number.
    unsafe { libc::getauxval(libc::AT_SECURE) != 0 }
}

// ---- Fork

/// Before fork: the child will hold everything that we hold.
pub fn fork_prepare() {
    if !process::is_on() {
        return;
    }
    // 1. Sockets without a record are counted, too.
    opening::give_records_to_all();
    // 2. Nobody is halfway through a change of the control state or of an epoll set.
    control::lock::before_fork();
    epoll::lock_all();
    // 3. The child is counted in.
    if let Some(family) = process_group::own() {
        fork_counts::count_child_in(family);
    }
}

/// In the parent; a fork that failed leaves everything as it was.
pub fn fork_parent(child: i32) {
    if !process::is_on() {
        return;
    }
    // Backwards.
    young::after_fork();
    if let Some(family) = process_group::own() {
        fork_counts::parent_goes_on(family, child < 0);
    }
    epoll::unlock_all(match u32::try_from(child) {
        Ok(child) => Forked::Parent(child),
        Err(_) => Forked::Failed,
    });
    control::lock::unlock_after_fork();
}

/// In the parent, if nobody says whether the fork has succeeded, or who the child is: as after one that has. The child does
/// not use the parent's epoll sets.
pub fn forked() {
    if !process::is_on() {
        return;
    }
    young::after_fork();
    if let Some(family) = process_group::own() {
        fork_counts::parent_goes_on(family, false);
    }
    epoll::unlock_all(Forked::Failed);
    control::lock::unlock_after_fork();
}

/// In the child, which has this thread alone.
pub fn fork_child() {
    if !process::is_on() {
        return;
    }
    // 1. The locks that its parent took, and the counts.
    let me = rustix::process::getpid().as_raw_nonzero().get();
    epoll::unlock_all(Forked::Child(me.unsigned_abs()));
    if let Some(family) = process_group::own() {
        fork_counts::correct_counts(family);
    }
    control::lock::unlock_after_fork();
    // 2. Who it is; what belongs to its parent's threads and engine is forgotten.
    note_new_process();
    opening::leave_young_to_parent();
    // 3. A name, waiters and a control state of its own. What the parent had is kept mapped (connections may still
    // be drained through it) but no longer spoken for.
    if let Some(family) = process_group::own() {
        join_family(family);
    }
    vfork::after_fork();
    // 4. Its parent's calls are not its own.
    if let Some(family) = process_group::own() {
        conn::kept::forget(family);
    }
}

/// In a new process, before anything else: who it is.
pub fn note_new_process() {
    pid::note();
    engine::after_fork();
    waiter::after_fork();
    mlock::after_fork();
    thread::after_fork();
    urings::after_fork();
}

fn join_family(family: &ProcessGroup) {
    family.header().members.fetch_add(1, Ordering::AcqRel);
    let _ = waiter::begin();
    control::lock::after_fork();
    if let Some(spinners) = process::spinners() {
        spinners.after_fork();
    }
}

// ---- Exec

/// Before exec: the next program may not know us. Sockets that it will hold go back to the kernel.
///
/// # Safety
/// `environment` is null (for the program's own) or a list of C strings that ends with null.
pub unsafe fn before_exec(environment: *const *const c_char) {
    // 1. The will is made before the connections are handed over, which pins them.
    // SAFETY: as the caller promises of the environment.
    let heard = has_connections() && unsafe { exec_handoff::will_be_read(environment) };
    let heard = heard && !limits::are_too_low();
    let will = heard.then(|| ExecHandoff::make(|fd| !closes_on_exec(fd)));
    // 2. They return; then it is left, for a stand-in is none of ours.
    return_all::return_all(Reason::Exec, true, Rest::StandInIfAlone);
    if let Some(will) = will {
        will.leave();
    }
    // 3. What the kernel closes on the way is let go of.
    if process::is_on() {
        // Sets may be older than the first connection, and with it the family.
        epoll::held_by_me(false, closes_on_exec);
        epoll::go_to_other_program(closes_on_exec);
        exec::let_go_of_closing();
    }
}

/// The exec has failed, and the program goes on with what it holds.
pub fn exec_failed() {
    if process::is_on() && process_group::own().is_some() {
        exec_handoff::revoke();
    }
    exec::hold_again();
    epoll::held_by_me(true, |_| true);
}

// ---- Exit

/// The process ends: as if every number were closed, so that the others see true counts.
pub fn exiting() {
    if !process::is_on() {
        return;
    }
    // 1. The report, while everything is as it was; then no call is ours any more.
    stats::report();
    process::switch_off();
    let Some(family) = process_group::own() else {
        return;
    };
    // 2. What a failed exec has left open.
    exec_failed();
    epoll::held_by_me(false, |_| true);
    // 3. Each connection, and at last our name.
    for number in family.held() {
        let_go_at_exit(family, number);
    }
    leave_run_dir(family);
}

fn let_go_at_exit(family: &'static ProcessGroup, number: u32) {
    let record = family.record(number);
    let last = record.procs.load(Ordering::Acquire) == 1;
    if let Some(fd) = process_group::fd_of(number) {
        passing::number_closes(record, fd);
        if last && record.state() == State::Managed {
            conn::close::last(Handle::new(family, number, fd));
        }
    }
    if record.procs.fetch_sub(1, Ordering::AcqRel) == 1 {
        family.free(number);
    }
    family.refs(number).store(0, Ordering::Relaxed);
}

/// Our mailbox goes.
fn leave_run_dir(family: &ProcessGroup) {
    let mut locked = control::Locked::take();
    if let Some(control) = locked.as_mut().and_then(control::Locked::control) {
        family.header().members.fetch_sub(1, Ordering::AcqRel);
        control.leave();
    }
}
