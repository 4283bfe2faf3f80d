//! Everybody gets a turn; timeouts.

use std::collections::BTreeSet;
use std::os::fd::RawFd;
use std::time::{Duration, Instant};

use libc::{EPOLLET, EPOLLIN, EPOLLOUT};

use crate::set::Set;
use crate::world::*;

fn pipe_with_byte() -> [RawFd; 2] {
    let mut ends = [0; 2];
    // SAFETY: room for two; then one byte.
    unsafe {
        assert_eq!(libc::pipe(ends.as_mut_ptr()), 0);
        assert_eq!(libc::write(ends[1], b"x".as_ptr().cast(), 1), 1);
    }
    ends
}

/// With room for one event, all ready members are told within a few rounds of as many waits.
pub fn one_at_a_time() {
    let set = Set::new();
    let all: Vec<Ends> = (0..10).map(|_| warm()).collect();
    for (ends, number) in all.iter().zip(0..) {
        set.add(ends.far, EPOLLIN, number);
        send(ends.near, 1);
    }
    for number in 100..110 {
        set.add(pipe_with_byte()[0], EPOLLIN, number);
    }
    settle();
    let mut seen = BTreeSet::new();
    for _ in 0..400 {
        let told = set.take(1, 0);
        assert_eq!(told.len(), 1);
        seen.insert(told[0].0);
    }
    say("seen", format!("{seen:?}"));
    let mut edges = BTreeSet::new();
    for (ends, number) in all.iter().zip(0..) {
        set.modify(ends.far, EPOLLIN | EPOLLET, number + 200);
    }
    for _ in 0..400 {
        edges.extend(set.take(1, 0).iter().map(|(data, _)| *data));
    }
    let edges: Vec<u64> = edges.into_iter().filter(|data| *data >= 200).collect();
    say("edges", format!("{edges:?}"));
}

/// A connection that is always ready does not keep a pipe waiting.
pub fn busy_connection_and_pipe() {
    let (ends, set) = (warm(), Set::new());
    set.add(ends.far, EPOLLIN | EPOLLOUT, 1);
    let pipe = pipe_with_byte();
    set.add(pipe[0], EPOLLIN, 2);
    for max in [1, 2, 8] {
        let mut turns = 0;
        for _ in 0..1000 {
            send(ends.near, 1);
            turns += set
                .take(max, -1)
                .iter()
                .filter(|(data, _)| *data == 2)
                .count();
            recv(ends.far, 10);
        }
        say(
            format!("the pipe gets its turn with room for {max}"),
            turns >= 50,
        );
    }
}

/// Nor do pipes that are always ready keep a connection waiting.
pub fn busy_pipe_and_connection() {
    let (ends, set) = (warm(), Set::new());
    set.add(ends.far, EPOLLIN, 1);
    for number in 2..10 {
        set.add(pipe_with_byte()[0], EPOLLIN, number);
    }
    for max in [1, 2, 4, 16] {
        let mut worst = 0;
        for _ in 0..100 {
            send(ends.near, 1);
            settle_a_little();
            let mut waits = 1;
            while !set.take(max, -1).iter().any(|(data, _)| *data == 1) {
                waits += 1;
            }
            worst = worst.max(waits);
            recv(ends.far, 10);
        }
        say(format!("at most 20 waits with room for {max}"), worst <= 20);
    }
}

fn settle_a_little() {
    std::thread::sleep(Duration::from_micros(200));
}

/// Waits end in time: not before, and not much later.
pub fn timeouts() {
    let (ends, set) = (warm(), Set::new());
    set.add(ends.far, EPOLLIN, 1);
    let timed = |what: &str, least: Duration, call: &dyn Fn() -> isize| {
        let start = Instant::now();
        let found = result(call());
        let took = start.elapsed();
        let good = took >= least && took < least + Duration::from_millis(300);
        say(what, format!("{found}, in time: {good}"));
    };
    let ms = Duration::from_millis;
    for time in [0, 1, 30] {
        let took = |_| set.take(4, time).len() as isize;
        timed(&format!("epoll {time}"), ms(time as u64), &|| took(()));
        timed(&format!("poll {time}"), ms(time as u64), &|| {
            poll_one(ends.far, libc::POLLIN, time).into()
        });
        timed(&format!("poll of the set {time}"), ms(time as u64), &|| {
            poll_one(set.0, libc::POLLIN, time).into()
        });
    }
    for nanos in [0, 1, 200_000] {
        timed(
            &format!("pwait2 {nanos}"),
            Duration::from_nanos(nanos as u64),
            &|| {
                let time = libc::timespec {
                    tv_sec: 0,
                    tv_nsec: nanos,
                };
                let mut event = libc::epoll_event { events: 0, u64: 0 };
                // SAFETY: room for one event, a live time, no mask.
                (unsafe { epoll_pwait2(set.0, &mut event, 1, &time, std::ptr::null()) }) as isize
            },
        );
    }
    let time = libc::timespec {
        tv_sec: 0,
        tv_nsec: -1,
    };
    let mut event = libc::epoll_event { events: 0, u64: 0 };
    // SAFETY: as above.
    let bad = unsafe { epoll_pwait2(set.0, &mut event, 1, &time, std::ptr::null()) };
    say("a bad time", result(bad as isize));
    let near = ends.near;
    let later = std::thread::spawn(move || {
        std::thread::sleep(ms(30));
        send(near, 1)
    });
    say("for ever", set.wait(-1));
    say("sent", later.join().expect("sender"));
}

unsafe extern "C" {
    fn epoll_pwait2(
        epfd: i32,
        events: *mut libc::epoll_event,
        max: i32,
        timeout: *const libc::timespec,
        mask: *const libc::sigset_t,
    ) -> i32;
}
