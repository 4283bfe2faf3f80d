//! Copies in the order of their times: they come from several programs, whose circles are read one after the other, and an
//! answer must not stand before its question.

use std::time::Duration;

use sockets::capture::Copied;

/// So long a copy waits for earlier ones.
const WAIT: Duration = Duration::from_millis(100);
/// Clocks differ by less.
const AHEAD: Duration = Duration::from_secs(1);
/// No more bytes than this do.
const MOST: usize = 64 << 20;

#[derive(Default)]
pub struct Order {
    waiting: Vec<(Copied, String)>,
    bytes: usize,
}

impl Order {
    pub fn put(&mut self, copied: Copied, program: &str) {
        self.bytes += copied.bytes.len();
        self.waiting.push((copied, program.to_owned()));
    }

    /// Those that have waited long enough at `now`, the earliest first; at the end all.
    pub fn take(&mut self, now: u64, is_end: bool) -> Vec<(Copied, String)> {
        let until = match is_end || self.bytes > MOST {
            true => u64::MAX,
            false => now.saturating_sub(WAIT.as_nanos() as u64),
        };
        // Those of one send have the same time, and stay as they are.
        self.waiting.sort_by_key(|(copied, _)| copied.time);
        let due = self.waiting.partition_point(|(it, _)| it.time <= until);
        // Where a time is wrong by more than this nobody waits for it.
        let beyond = now.saturating_add(AHEAD.as_nanos() as u64);
        let later = self.waiting.partition_point(|(it, _)| it.time <= beyond);
        let later = self.waiting.split_off(later.max(due));
        let rest = self.waiting.split_off(due);
        let mut taken = std::mem::replace(&mut self.waiting, rest);
        taken.extend(later);
        self.bytes -= taken.iter().map(|(it, _)| it.bytes.len()).sum::<usize>();
        taken
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(time: u64) -> Copied {
        Copied {
            time,
            pid: 0,
            record: 0,
            generation: 0,
            by_link: false,
            local: "1.1.1.1:1".parse().unwrap(),
            peer: "1.1.1.1:1".parse().unwrap(),
            offset: 0,
            read: 0,
            bytes: vec![0],
        }
    }

    fn times(taken: &[(Copied, String)]) -> Vec<u64> {
        taken.iter().map(|(it, _)| it.time).collect()
    }

    #[test]
    fn the_earliest_first() {
        let wait = WAIT.as_nanos() as u64;
        let now = 10 * wait;
        let far = now + 2 * AHEAD.as_nanos() as u64;
        let mut order = Order::default();
        for time in [now - 2, now - wait - 5, far, now - wait - 9, now - 7] {
            order.put(at(time), "");
        }
        let first = order.take(now, false);
        assert_eq!(times(&first), [now - wait - 9, now - wait - 5, far]);
        assert!(order.take(now, false).is_empty());
        assert_eq!(times(&order.take(now, true)), [now - 7, now - 2]);
        assert_eq!(order.bytes, 0);
    }
}
