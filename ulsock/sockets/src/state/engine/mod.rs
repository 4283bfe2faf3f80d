//! The NIC's engine inside the program (`ULSOCK_NIC=inline`), on a queue that the daemon leases to it, or over UDP
//! sockets that the daemon opens.
//!
//! Between a program and the wire there is then no other process: its sends and its waits poll the engine
//! themselves ([`poll`]). When it does neither, because it sleeps or computes, a [`helper`] thread does. The
//! daemon still says who talks to whom (docs/failover.md), and has the blocks; what differs is who serves
//! them, and that this engine rings threads of its own process.
//!
//! The engine is behind a lock that nobody waits for: who finds it taken leaves word, and who has it looks
//! once more. It allocates, so that signal handlers stay away from it.

mod helper;
mod port;
mod slot;
mod state;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use netstack::time::Instant;
use rustix::time::{ClockId, clock_gettime};

use crate::runtime::deadline::Deadline;
use crate::runtime::engine_flag;
use crate::runtime::thread::Critical;
use crate::state::ring_pair::RingPair;
use os::backoff::Backoff;
use os::fds::InternalFd;
use port::EnginePort;
use rendezvous::engine_endpoint::Block;
use rendezvous::message::{Queue, Route};
use rendezvous::pair::Pair;
use slot::SLOT;
use state::EngineState;

pub use helper::wake as take_duty;

/// So long a close waits until the peer has everything; then the daemon sees to it, by the kernel.
const FAREWELL: Duration = Duration::from_millis(2);

os::process_wide! {
    /// There is one. Calls poll it only while it serves a connection ([`engine_flag`]); else its helper does.
    static PRESENT: AtomicBool = AtomicBool::new(false);
}

/// The daemon leases us a queue. In place of an earlier one, whose daemon is gone.
pub fn begin(pair: &Arc<Pair>, queue: Queue, socket: InternalFd) {
    if let Some(port) = EnginePort::over_queue(queue, socket) {
        begin_with(EngineState::new(pair.clone(), port));
    }
}

fn begin_with(station: EngineState) {
    let watch = station.watch();
    if let Some(watch) = watch.filter(|_| wait_for_slot(|seat| *seat = Some(station)).is_some()) {
        PRESENT.store(true, Ordering::Release);
        helper::start(watch);
    }
}

/// How to reach another engine.
pub fn add_route(pair: &Arc<Pair>, route: &Route) {
    enter_route(pair, route, None);
}

/// The same, by a socket: the first one from a daemon begins the engine.
pub fn add_socket(pair: &Arc<Pair>, route: &Route, socket: InternalFd) {
    let has = wait_for_slot(|seat| seat.as_ref().is_some_and(|station| station.is_of(pair)));
    if has == Some(false) {
        match EnginePort::over_sockets(route.mtu) {
            Some(port) => begin_with(EngineState::new(pair.clone(), port)),
            None => return,
        }
    }
    enter_route(pair, route, Some(socket));
}

fn enter_route(pair: &Arc<Pair>, route: &Route, socket: Option<InternalFd>) {
    wait_for_slot(|seat| {
        let station = seat.as_mut().filter(|station| station.is_of(pair));
        station.map(|station| {
            station.add_route(route, socket);
            station.poll(now());
        })
    });
}

/// In a forked child: the engine is its parent's.
pub fn after_fork() {
    engine_flag::set(false);
    if PRESENT.swap(false, Ordering::AcqRel) {
        SLOT.forget();
        helper::forget();
    }
}

/// Does what there is to do.
#[inline]
pub fn poll() {
    if engine_flag::is_on() {
        poll_now();
    }
}

#[inline(never)]
fn poll_now() {
    try_with(|station| station.poll(now()));
}

/// As [`poll`], for those who look again and again: nothing but a look for frames, most of the time. `false`
/// if it could not look.
#[inline(never)]
pub fn glance() -> bool {
    try_with(EngineState::glance)
}

/// Unless somebody else has it, or we are a handler: none runs inside.
#[inline(always)]
fn try_with(act: impl FnOnce(&mut EngineState)) -> bool {
    let critical = Critical::enter().filter(|critical| !critical.0.in_handler());
    critical.is_some_and(|critical| {
        let acted = SLOT.try_with(act);
        critical.end();
        acted
    })
}

/// The program has written to a connection, or read from it, and the engine has asked to hear of it.
pub fn notice(link: &RingPair) {
    let Some(critical) = Critical::enter() else {
        return;
    };
    if critical.0.in_handler() {
        SLOT.leave_word();
        helper::ring();
        return;
    }
    let looked = SLOT.try_with(|station| {
        station.notice(link.segment.number, link.conn);
        station.poll(now());
    });
    if !looked {
        SLOT.leave_word();
        // Whoever had it may have gone meanwhile.
        SLOT.try_with(|_| ());
    }
}

/// `[F6]` The peer's library has agreed: opens the connection.
pub fn open(link: &RingPair, route: u32, name: u64) -> bool {
    enter(link, route, name, true)
}

/// `[F3]` Our library agrees: the peer will open it.
pub fn expect(link: &RingPair, route: u32, name: u64) -> bool {
    enter(link, route, name, false)
}

fn enter(link: &RingPair, route: u32, name: u64, opens: bool) -> bool {
    let block = Block::of(link.segment.clone(), link.conn);
    let entered = wait_for_slot(|seat| {
        let station = seat.as_mut().filter(|station| station.is_of(&link.pair))?;
        let entered = station.enter(now(), route, name, block, opens);
        station.poll(now());
        entered.then_some(())
    });
    entered.flatten().is_some()
}

/// `[F24]` Our direction has ended: whether the peer has all of it, soon.
pub fn has_all(link: &RingPair) -> bool {
    let deadline = Deadline::after(FAREWELL);
    loop {
        let has_all = wait_for_slot(|seat| {
            let station = seat.as_mut()?;
            station.notice(link.segment.number, link.conn);
            station.poll(now());
            Some(station.is_end_acked(link.segment.number, link.conn))
        });
        match has_all.flatten() {
            Some(false) if !deadline.passed() => std::hint::spin_loop(),
            has_all => return has_all == Some(true),
        }
    }
}

/// The block will be somebody else's: the engine must not have it any more.
pub fn let_go(link: &RingPair) {
    wait_for_slot(|seat| {
        let station = seat.as_mut().filter(|station| station.is_of(&link.pair));
        station.map(|station| station.let_go(now(), link.segment.number, link.conn))
    });
}

/// For what cannot be left for later. `None`: from a handler.
fn wait_for_slot<R>(act: impl FnOnce(&mut Option<EngineState>) -> R) -> Option<R> {
    let critical = Critical::enter().filter(|critical| !critical.0.in_handler())?;
    let mut backoff = Backoff::default();
    while !SLOT.take() {
        backoff.pause();
    }
    let result = SLOT.act(act);
    SLOT.release();
    drop(critical);
    Some(result)
}

fn now() -> Instant {
    let time = clock_gettime(ClockId::Monotonic);
    Instant::from_nanos(time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64)
}
