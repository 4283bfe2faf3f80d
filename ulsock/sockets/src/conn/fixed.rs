//! Times for a sleep that ends when the process is stopped and continued.
//!
//! A call with SO_RCVTIMEO or SO_SNDTIMEO fails with EINTR then, also without a handler (signal(7)),
//! but a ppoll goes on. It does not if it cannot write the time left back (poll_select_finish in the
//! kernel's fs/select.c): so its time lies in memory that nobody can write, and is one of a table.

use libc::timespec;
use rustix::time::Timespec;

const MILLI: i64 = 1_000_000;
/// Up to so many milliseconds every one of them, and then so many steps to twice the time.
const STEPS: usize = 16;
/// The longest time is of hours; a longer sleep is made of several.
const DOUBLINGS: usize = 20;

const TIMES: &[timespec; STEPS * (1 + DOUBLINGS)] = &table();

const fn table() -> [timespec; STEPS * (1 + DOUBLINGS)] {
    let mut times = [timespec {
        tv_sec: 0,
        tv_nsec: 0,
    }; STEPS * (1 + DOUBLINGS)];
    let mut index = 0;
    while index < times.len() {
        let doublings = (index / STEPS).saturating_sub(1);
        let steps = if index < STEPS {
            index
        } else {
            STEPS + index % STEPS
        };
        let millis = ((steps + 1) << doublings) as i64;
        times[index] = timespec {
            tv_sec: millis / 1000,
            tv_nsec: millis % 1000 * MILLI,
        };
        index += 1;
    }
    times
}

/// The longest time that is not beyond `left`; at the end of a wait rounded up, as the kernel does
/// with the time limits of sockets.
pub fn at_most(left: Timespec) -> &'static timespec {
    let end = STEPS as i64 * MILLI;
    let left = if left.tv_sec == 0 && left.tv_nsec < end {
        (0, (left.tv_nsec + MILLI - 1) / MILLI * MILLI)
    } else {
        (left.tv_sec, left.tv_nsec)
    };
    let above = TIMES.partition_point(|time| (time.tv_sec, time.tv_nsec) <= left);
    &TIMES[above.saturating_sub(1)]
}

#[cfg(test)]
mod tests {
    use super::*;

    fn millis(time: &timespec) -> i64 {
        time.tv_sec * 1000 + time.tv_nsec / MILLI
    }

    fn left(nanos: i64) -> i64 {
        millis(at_most(Timespec {
            tv_sec: nanos / 1_000_000_000,
            tv_nsec: nanos % 1_000_000_000,
        }))
    }

    #[test]
    fn times_grow_by_a_sixteenth_at_most() {
        assert!(
            TIMES
                .windows(2)
                .all(|pair| millis(&pair[0]) < millis(&pair[1]))
        );
        for pair in TIMES[STEPS..].windows(2) {
            assert!((millis(&pair[1]) - millis(&pair[0])) * STEPS as i64 <= millis(&pair[0]));
        }
    }

    #[test]
    fn a_wait_takes_few_sleeps_and_ends_in_time() {
        for total in [
            1,
            999_999,
            15 * MILLI,
            16 * MILLI + 1,
            300 * MILLI,
            3_600_000 * MILLI,
        ] {
            let (mut slept, mut sleeps) = (0, 0);
            while slept < total {
                slept += left(total - slept) * MILLI;
                sleeps += 1;
            }
            assert!(slept - total < MILLI && sleeps <= 6, "{total}: {sleeps}");
        }
    }

    #[test]
    fn nobody_can_write_them() {
        let at = TIMES.as_ptr() as usize;
        let maps = std::fs::read_to_string("/proc/self/maps").unwrap();
        let line = maps.lines().find(|line| {
            let (range, _) = line.split_once(' ').unwrap();
            let (from, to) = range.split_once('-').unwrap();
            let number = |text| usize::from_str_radix(text, 16).unwrap();
            (number(from)..number(to)).contains(&at)
        });
        assert!(line.unwrap().contains(" r--p "), "{line:?}");
    }
}
