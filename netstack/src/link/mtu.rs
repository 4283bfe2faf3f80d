//! How large packets may be: packetization layer path MTU discovery (RFC 8899).

use core::time::Duration;

use crate::time::Instant;

/// `[M1]` Bytes of IP that every path carries.
pub const BASE: usize = 1200;
/// `[M1]` Bytes of IP that most networks carry.
const USUAL: usize = 1500;
/// `[M2]` Losses of one size that end its trial.
const TRIALS: u32 = 3;
/// `[M2]` `[M3]` After this the search begins anew: perhaps it was only a very full queue. Then after twice
/// as long each time, at most so long.
const PAUSE: Duration = Duration::from_millis(20);
const LONGEST_PAUSE: Duration = Duration::from_secs(600);
/// A gain below this is not worth a search.
const CLOSE_ENOUGH: usize = 16;

/// Sizes are of UDP payload.
#[derive(Clone, Copy, Debug)]
pub struct Mtu {
    base: usize,
    /// What the port allows.
    most: usize,
    current: usize,
    search: Search,
    /// The next pause, and when the current size was found.
    pause: Duration,
    found: Instant,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Search {
    /// `size` is to be tried; `failed` is the least that did not come through.
    Trying {
        size: usize,
        failed: usize,
        losses: u32,
        under_way: bool,
    },
    Done {
        again: Option<Instant>,
    },
}

impl Mtu {
    /// `overhead` is what IP and UDP take, `most` the bytes of IP that the port allows.
    pub fn new(most: usize, overhead: usize) -> Mtu {
        let base = BASE - overhead;
        let most = most
            .saturating_sub(overhead)
            .clamp(base, usize::from(u16::MAX));
        let mut mtu = Mtu {
            base,
            most,
            current: base,
            search: Search::Done { again: None },
            pause: PAUSE,
            found: Instant::ZERO,
        };
        mtu.begin();
        mtu
    }

    /// The largest packet now.
    #[inline]
    pub fn size(&self) -> usize {
        self.current
    }

    /// `[M1]` First all that the port allows: mostly the network allows it too.
    fn begin(&mut self) {
        self.search = if self.most - self.current > CLOSE_ENOUGH {
            Search::Trying {
                size: self.most,
                failed: self.most + 1,
                losses: 0,
                under_way: false,
            }
        } else {
            Search::Done { again: None }
        };
    }

    /// There is nothing left to look for.
    #[inline]
    pub fn is_settled(&self) -> bool {
        self.search == Search::Done { again: None }
    }

    /// A size waits to be tried.
    #[inline]
    pub fn is_trying(&self) -> bool {
        matches!(
            self.search,
            Search::Trying {
                under_way: false,
                ..
            }
        )
    }

    /// The size to try with a PING, if it is time and there is room to write one.
    pub fn next_trial(&mut self, now: Instant, room: usize) -> Option<usize> {
        if let Search::Done { again: Some(again) } = self.search
            && now >= again
        {
            self.begin();
        }
        match &mut self.search {
            Search::Trying {
                size,
                under_way: under_way @ false,
                ..
            } if *size <= room => {
                *under_way = true;
                Some(*size)
            }
            _ => None,
        }
    }

    /// A PING of this size was acknowledged; `true` if packets may be larger now.
    pub fn on_ack(&mut self, now: Instant, tried: usize) -> bool {
        if tried <= self.current || tried > self.most {
            return false;
        }
        (self.current, self.found) = (tried, now);
        if let Search::Trying { failed, .. } = self.search {
            self.go_on(now, failed);
        }
        true
    }

    /// A PING of this size was lost.
    pub fn on_loss(&mut self, now: Instant, tried: usize) {
        if let Search::Trying {
            size,
            losses,
            under_way,
            ..
        } = &mut self.search
            && *size == tried
        {
            *losses += 1;
            *under_way = false;
            if *losses >= TRIALS {
                self.go_on(now, tried);
            }
        }
    }

    fn go_on(&mut self, now: Instant, failed: usize) {
        // Then what most networks carry.
        let usual = USUAL - (BASE - self.base);
        let size = if (self.current + 1..failed).contains(&usual) {
            usual
        } else {
            (self.current + failed) / 2
        };
        self.search = if size.saturating_sub(self.current) > CLOSE_ENOUGH && failed > size {
            Search::Trying {
                size,
                failed,
                losses: 0,
                under_way: false,
            }
        } else {
            // At the port's limit there is nothing left to look for.
            let more = self.most - self.current > CLOSE_ENOUGH;
            let again = more.then(|| now + self.next_pause());
            Search::Done { again }
        };
    }

    /// `[M2]`
    fn next_pause(&mut self) -> Duration {
        let pause = self.pause;
        self.pause = (pause * 2).min(LONGEST_PAUSE);
        pause
    }

    /// `[M3]` Large packets do not come through any more; which ones do is to be found out anew.
    pub fn fall_back(&mut self, now: Instant) -> bool {
        let was_larger = self.current > self.base;
        if was_larger {
            // What has held for longer than the last pause was right until now.
            if now - self.found > self.pause {
                self.pause = PAUSE;
            }
            self.current = self.base;
            let again = Some(now + self.next_pause());
            self.search = Search::Done { again };
        }
        was_larger
    }

    pub fn base(&self) -> usize {
        self.base
    }
}

#[cfg(test)]
mod tests {
    use super::{LONGEST_PAUSE, Mtu, PAUSE};
    use crate::time::Instant;

    fn found(most: usize, network: usize) -> (usize, u32) {
        let now = Instant::ZERO;
        let (mut mtu, mut pings) = (Mtu::new(most, 28), 0);
        while let Some(size) = mtu.next_trial(now, 9000) {
            pings += 1;
            if size + 28 <= network {
                mtu.on_ack(now, size);
            } else {
                mtu.on_loss(now, size);
            }
        }
        (mtu.size() + 28, pings)
    }

    // [M1] [M2]
    #[test]
    fn finds_what_the_network_carries() {
        assert_eq!(found(1500, 1500), (1500, 1));
        assert_eq!(found(9000, 9000), (9000, 1));
        assert_eq!(found(1200, 1200), (1200, 0));
        let (size, pings) = found(9000, 1500);
        assert!(
            (1480..=1500).contains(&size) && pings < 30,
            "{size} {pings}"
        );
        assert_eq!(found(9000, 1200).0, 1200);
    }

    // [M3]
    #[test]
    fn falls_back() {
        let now = Instant::ZERO;
        let mut mtu = Mtu::new(9000, 28);
        let size = mtu.next_trial(now, 9000).unwrap();
        assert!(mtu.on_ack(now, size));
        assert!(mtu.fall_back(now));
        assert_eq!(mtu.size() + 28, 1200);
        assert_eq!(mtu.next_trial(now, 9000), None);
        assert_eq!(mtu.next_trial(now + PAUSE, 9000), Some(size));
    }

    // [M2] [M3]
    #[test]
    fn pauses_grow_until_a_size_has_held_for_long() {
        let mut now = Instant::ZERO;
        let mut mtu = Mtu::new(1500, 28);
        let mut pauses = alloc::vec::Vec::new();
        for _ in 0..18 {
            // Nothing over 1,200 bytes comes through.
            while let Some(size) = mtu.next_trial(now, 9000) {
                mtu.on_loss(now, size);
            }
            let began = now;
            while mtu.next_trial(now, 9000).is_none() {
                now = now + PAUSE;
            }
            pauses.push(now - began);
            mtu.on_loss(now, 1472);
        }
        assert_eq!(pauses[..3], [PAUSE, PAUSE * 2, PAUSE * 4]);
        assert_eq!(pauses[17], LONGEST_PAUSE);
        assert!(mtu.on_ack(now, 1472));
        let later = now + LONGEST_PAUSE * 2;
        assert!(mtu.fall_back(later));
        assert_eq!(mtu.next_trial(later + PAUSE, 9000), Some(1472));
    }
}
