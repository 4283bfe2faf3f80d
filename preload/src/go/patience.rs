//! How long a goroutine's read of an empty ring looks on, before Go puts the goroutine aside: its poller then hears of an
//! answer, and some thread takes the goroutine up again, which is some microseconds, where an answer often comes within one.
//!
//! Meanwhile the goroutine keeps its processor from others. So a look is short, and a connection whose answers take longer
//! has none but now and then.

use std::cell::Cell;
use std::sync::atomic::{AtomicU8, Ordering::Relaxed};
use std::time::Duration;

use libc::c_int;
use os::spin::Clock;
use sockets::api;

/// Longer than a peer takes that has to take up its goroutine first: so two that have given up find back to looking on, where
/// an answer takes less than a microsecond.
const LONGEST: Duration = Duration::from_micros(12);
/// Looks in vain in a row, after which there is one in so many reads only.
const GIVE_UP: u8 = 4;
const RETRY: u8 = 64;

/// By descriptor, without regard for what else has had the number: reads since the last look that paid, as far as they
/// matter.
static IN_VAIN: [AtomicU8; 1024] = [const { AtomicU8::new(0) }; 1024];

/// Has something come?
pub fn look_on(fd: c_int) -> bool {
    let in_vain = &IN_VAIN[fd as usize % IN_VAIN.len()];
    let count = in_vain.load(Relaxed);
    if count >= GIVE_UP && !count.is_multiple_of(RETRY) {
        in_vain.store(next(count), Relaxed);
        return false;
    }
    let begin = Clock::now();
    let has_looked = Cell::new(false);
    let came = api::wait_awake(fd, &|| {
        has_looked.set(true);
        begin.elapsed() > LONGEST
    });
    if came || has_looked.get() {
        in_vain.store(if came { 0 } else { next(count) }, Relaxed);
    }
    came
}

fn next(count: u8) -> u8 {
    count.checked_add(1).unwrap_or(RETRY)
}
