//! Waiting for descriptors: poll, select and epoll.

use std::ffi::c_int;
use std::ptr::{null, null_mut};

use libc::{epoll_event, fd_set, nfds_t, pollfd, sigset_t, timespec, timeval};

use crate::Case;
use crate::scene::{Scene, call};

pub const CASES: &[Case] = &[
    ("poll", poll),
    ("__poll", poll),
    ("__poll_chk", poll_checked),
    ("ppoll", ppoll),
    ("__ppoll_chk", ppoll_checked),
    ("select", select),
    ("__select", select),
    ("pselect", pselect),
    ("epoll_create", epoll_create),
    ("epoll_create1", epoll_create),
    ("epoll_ctl", epoll_ctl),
    ("epoll_wait", epoll_wait),
    ("epoll_pwait", epoll_pwait),
    ("epoll_pwait2", epoll_pwait2),
];

static SHORT: timespec = timespec {
    tv_sec: 0,
    tv_nsec: 100_000_000,
};

fn entries(scene: &Scene) -> [pollfd; 2] {
    [
        (scene.a, libc::POLLIN | libc::POLLOUT),
        (scene.b, libc::POLLIN),
    ]
    .map(|(fd, events)| pollfd {
        fd,
        events,
        revents: 0,
    })
}

/// Once with bytes to read, once without.
fn polls(scene: &mut Scene, mut ask: impl FnMut(&mut Scene, *mut pollfd)) {
    for bytes in [&b"bytes"[..], b""] {
        scene.feed(bytes);
        let mut entries = entries(scene);
        ask(scene, entries.as_mut_ptr());
        scene.note("events", entries.map(|entry| entry.revents));
        scene.drain(bytes.len());
    }
}

fn poll(scene: &mut Scene, name: &'static str) {
    polls(scene, |scene, entries| {
        call!(
            scene,
            name,
            fn(*mut pollfd, nfds_t, c_int) -> c_int,
            entries,
            2,
            1000
        );
    });
}

fn poll_checked(scene: &mut Scene, name: &'static str) {
    polls(scene, |scene, entries| {
        call!(
            scene,
            name,
            fn(*mut pollfd, nfds_t, c_int, usize) -> c_int,
            entries,
            2,
            100,
            16
        );
    });
}

fn ppoll(scene: &mut Scene, name: &'static str) {
    polls(scene, |scene, entries| {
        call!(
            scene,
            name,
            fn(*mut pollfd, nfds_t, *const timespec, *const sigset_t) -> c_int,
            entries,
            2,
            &raw const SHORT,
            null::<sigset_t>()
        );
    });
}

fn ppoll_checked(scene: &mut Scene, name: &'static str) {
    polls(scene, |scene, entries| {
        call!(
            scene,
            name,
            fn(*mut pollfd, nfds_t, *const timespec, *const sigset_t, usize) -> c_int,
            entries,
            2,
            &raw const SHORT,
            null::<sigset_t>(),
            16
        );
    });
}

/// As `polls`, with sets.
fn selects(scene: &mut Scene, mut ask: impl FnMut(&mut Scene, *mut fd_set, *mut fd_set)) {
    for bytes in [&b"bytes"[..], b""] {
        scene.feed(bytes);
        // SAFETY: all zero is the empty set, and the numbers are below FD_SETSIZE.
        let (mut read, mut write): (fd_set, fd_set) = unsafe { std::mem::zeroed() };
        // SAFETY: as above.
        unsafe {
            libc::FD_SET(scene.a, &mut write);
            libc::FD_SET(scene.b, &mut read);
        }
        ask(scene, &raw mut read, &raw mut write);
        // SAFETY: as above.
        scene.note("ready", unsafe {
            (
                libc::FD_ISSET(scene.b, &read),
                libc::FD_ISSET(scene.a, &write),
            )
        });
        scene.drain(bytes.len());
    }
}

fn select(scene: &mut Scene, name: &'static str) {
    selects(scene, |scene, read, write| {
        let mut time = timeval {
            tv_sec: 0,
            tv_usec: 100_000,
        };
        call!(
            scene,
            name,
            fn(c_int, *mut fd_set, *mut fd_set, *mut fd_set, *mut timeval) -> c_int,
            1000,
            read,
            write,
            null_mut::<fd_set>(),
            &raw mut time
        );
    });
}

fn pselect(scene: &mut Scene, name: &'static str) {
    selects(scene, |scene, read, write| {
        call!(
            scene,
            name,
            fn(
                c_int,
                *mut fd_set,
                *mut fd_set,
                *mut fd_set,
                *const timespec,
                *const sigset_t,
            ) -> c_int,
            1000,
            read,
            write,
            null_mut::<fd_set>(),
            &raw const SHORT,
            null::<sigset_t>()
        );
    });
}

fn event(data: u64, events: c_int) -> epoll_event {
    epoll_event {
        events: events as u32,
        u64: data,
    }
}

/// A set with both ends in it.
fn set(scene: &mut Scene) -> c_int {
    // SAFETY: plain integers, and events that live across the calls.
    unsafe {
        let set = libc::epoll_create1(0);
        libc::epoll_ctl(
            set,
            libc::EPOLL_CTL_ADD,
            scene.a,
            &mut event(1, libc::EPOLLIN | libc::EPOLLOUT),
        );
        libc::epoll_ctl(
            set,
            libc::EPOLL_CTL_ADD,
            scene.b,
            &mut event(2, libc::EPOLLIN),
        );
        set
    }
}

/// Lets `wait` ask the set, once with bytes to read and once without.
fn waits(
    scene: &mut Scene,
    set: c_int,
    mut wait: impl FnMut(&mut Scene, *mut epoll_event) -> c_int,
) {
    for bytes in [&b"bytes"[..], b""] {
        scene.feed(bytes);
        let mut events = [event(0, 0); 4];
        let count = usize::try_from(wait(scene, events.as_mut_ptr())).unwrap_or(0);
        let seen = events[..count].iter();
        let mut seen: Vec<_> = seen.map(|event| (event.u64, event.events)).collect();
        seen.sort_unstable();
        scene.note("events", seen);
        scene.drain(bytes.len());
    }
    // SAFETY: plain integers.
    unsafe { libc::close(set) };
}

/// The last argument is a size of old, or flags: 0 and 1 mean something to neither.
fn epoll_create(scene: &mut Scene, name: &'static str) {
    let argument = if name == "epoll_create" { 1 } else { 0 };
    let set = call!(scene, name, fn(c_int) -> c_int, argument);
    // SAFETY: an event that lives across the call.
    unsafe {
        libc::epoll_ctl(
            set,
            libc::EPOLL_CTL_ADD,
            scene.b,
            &mut event(2, libc::EPOLLIN),
        )
    };
    waits(scene, set, |_, events| {
        // SAFETY: room for four events.
        unsafe { libc::epoll_wait(set, events, 4, 0) }
    });
    call!(scene, name, fn(c_int) -> c_int, -1);
}

fn epoll_ctl(scene: &mut Scene, name: &'static str) {
    // SAFETY: plain integers.
    let set = unsafe { libc::epoll_create1(0) };
    let mut wanted = event(7, libc::EPOLLIN);
    for operation in [
        libc::EPOLL_CTL_ADD,
        libc::EPOLL_CTL_ADD,
        libc::EPOLL_CTL_MOD,
    ] {
        call!(
            scene,
            name,
            fn(c_int, c_int, c_int, *mut epoll_event) -> c_int,
            set,
            operation,
            scene.b,
            &raw mut wanted
        );
    }
    waits(scene, set, |_, events| {
        // SAFETY: room for four events.
        unsafe { libc::epoll_wait(set, events, 4, 0) }
    });
    for set in [set, scene.a] {
        call!(
            scene,
            name,
            fn(c_int, c_int, c_int, *mut epoll_event) -> c_int,
            set,
            libc::EPOLL_CTL_DEL,
            scene.b,
            &raw mut wanted
        );
    }
}

fn epoll_wait(scene: &mut Scene, name: &'static str) {
    let set = set(scene);
    waits(scene, set, |scene, events| {
        call!(
            scene,
            name,
            fn(c_int, *mut epoll_event, c_int, c_int) -> c_int,
            set,
            events,
            4,
            0
        )
    });
    call!(
        scene,
        name,
        fn(c_int, *mut epoll_event, c_int, c_int) -> c_int,
        scene.a,
        null_mut::<epoll_event>(),
        4,
        0
    );
}

fn epoll_pwait(scene: &mut Scene, name: &'static str) {
    let set = set(scene);
    waits(scene, set, |scene, events| {
        call!(
            scene,
            name,
            fn(c_int, *mut epoll_event, c_int, c_int, *const sigset_t) -> c_int,
            set,
            events,
            4,
            0,
            null::<sigset_t>()
        )
    });
    call!(
        scene,
        name,
        fn(c_int, *mut epoll_event, c_int, c_int, *const sigset_t) -> c_int,
        set,
        null_mut::<epoll_event>(),
        0,
        0,
        null::<sigset_t>()
    );
}

fn epoll_pwait2(scene: &mut Scene, name: &'static str) {
    let set = set(scene);
    let none = timespec {
        tv_sec: 0,
        tv_nsec: 0,
    };
    waits(scene, set, |scene, events| {
        call!(
            scene,
            name,
            fn(c_int, *mut epoll_event, c_int, *const timespec, *const sigset_t) -> c_int,
            set,
            events,
            4,
            &raw const none,
            null::<sigset_t>()
        )
    });
}
