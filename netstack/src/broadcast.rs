//! The words of a ring that one process writes and any number of others read, each at its own pace.
//!
//! Each word has one writer: the head lies in the memory of the ring's writer, the cursor in that of a reader, and each maps the
//! other's to read only. So nobody can change what is another's; what a hostile one writes into its own is checked here.
//! Positions are bytes since the ring began. Who sleeps says so and looks again; who moves looks at the sleeper afterwards:
//! one of the two sees the other.

use crate::ring::Hostile;
use crate::ring::sync::{AtomicU64, Ordering, fence, publish};

/// Whether its owner sleeps, and until which position. Odd epochs are sleeps.
#[repr(C)]
pub struct Sleeper {
    epoch: AtomicU64,
    at: AtomicU64,
    _rest_of_line: [AtomicU64; 6],
}

/// The sleep that somebody was rung for last, at whoever rings.
#[derive(Clone, Copy, Debug, Default)]
pub struct Rung(u64);

/// Of the ring's writer.
#[repr(C)]
pub struct Head {
    tail: AtomicU64,
    /// Up to here the writer may have written, or is just doing so.
    claimed: AtomicU64,
    _rest_of_line: [AtomicU64; 6],
    /// The writer waits for room: all cursors are to pass a position.
    pub room: Sleeper,
}

/// How far a reader has come.
#[repr(C)]
pub struct Cursor {
    at: AtomicU64,
    _rest_of_line: [AtomicU64; 7],
}

#[cfg(not(loom))]
crate::in_shared_memory!(Sleeper {
    epoch,
    at,
    _rest_of_line
});
#[cfg(not(loom))]
crate::in_shared_memory!(Head {
    tail,
    claimed,
    _rest_of_line,
    room
});
#[cfg(not(loom))]
crate::in_shared_memory!(Cursor { at, _rest_of_line });

fn zeros<const N: usize>() -> [AtomicU64; N] {
    core::array::from_fn(|_| AtomicU64::new(0))
}

impl Sleeper {
    pub fn new() -> Sleeper {
        Sleeper {
            epoch: AtomicU64::new(0),
            at: AtomicU64::new(0),
            _rest_of_line: zeros(),
        }
    }

    /// Its owner wants to be rung when a cursor has reached `at`. It looks once more before it sleeps.
    pub fn lie_down(&self, at: u64) {
        let epoch = self.epoch.load(Ordering::Relaxed);
        self.at.store(at, Ordering::Relaxed);
        self.epoch.store(
            (epoch | 1).wrapping_add((epoch & 1) << 1),
            Ordering::Release,
        );
        fence(Ordering::SeqCst);
    }

    /// Its owner is awake again. A ring that is under way may still come.
    pub fn get_up(&self) {
        let epoch = self.epoch.load(Ordering::Relaxed);
        if epoch & 1 == 1 {
            self.epoch.store(epoch.wrapping_add(1), Ordering::Relaxed);
        }
    }

    /// Whether its owner sleeps, or is about to.
    #[inline]
    pub fn is_down(&self) -> bool {
        self.epoch.load(Ordering::Relaxed) & 1 == 1
    }

    /// Who has published `position` asks whether to ring: once for each sleep.
    #[inline]
    pub fn must_be_rung(&self, rung: &mut Rung, position: u64) -> bool {
        let epoch = self.epoch.load(Ordering::Relaxed);
        if epoch & 1 == 0 || epoch == rung.0 {
            return false;
        }
        // After the epoch is seen, its position is.
        fence(Ordering::Acquire);
        if position < self.at.load(Ordering::Relaxed) {
            return false;
        }
        rung.0 = epoch;
        true
    }
}

impl Head {
    pub fn new(tail: u64) -> Head {
        Head {
            tail: AtomicU64::new(tail),
            claimed: AtomicU64::new(tail),
            _rest_of_line: zeros(),
            room: Sleeper::new(),
        }
    }

    /// Its writer: the ring begins here, and nobody reads it yet.
    pub fn begin(&self, tail: u64) {
        self.tail.store(tail, Ordering::Release);
    }

    /// Its writer, before it writes up to there. Who has been put out and still reads finds out by this that what it has read was
    /// overwritten meanwhile.
    #[inline]
    pub fn claim(&self, tail: u64) {
        self.claimed.store(tail, Ordering::Relaxed);
        fence(Ordering::Release);
    }

    /// Its writer: all before this is written. Then it looks at those who sleep.
    #[inline]
    pub fn publish(&self, tail: u64) {
        publish(&self.tail, tail);
    }
}

impl Cursor {
    pub fn new(at: u64) -> Cursor {
        Cursor {
            at: AtomicU64::new(at),
            _rest_of_line: zeros(),
        }
    }

    /// Its reader begins here.
    pub fn begin(&self, at: u64) {
        self.at.store(at, Ordering::Release);
    }
}

impl Default for Sleeper {
    fn default() -> Sleeper {
        Sleeper::new()
    }
}

/// What the writer knows of a reader.
#[derive(Clone, Copy, Debug)]
pub struct Known {
    at: u64,
}

impl Known {
    /// It reads from here on.
    pub fn new(at: u64) -> Known {
        Known { at }
    }

    /// How far it had come when it was looked at last.
    #[inline]
    pub fn at(&self) -> u64 {
        self.at
    }

    /// How far it has come now. What is behind that has been said already, and what has not been written nobody has read.
    pub fn look(&mut self, cursor: &Cursor, tail: u64) -> Result<u64, Hostile> {
        self.hear(cursor.at.load(Ordering::Acquire), tail)
    }

    /// The same of a reader that says so by other ways.
    pub fn hear(&mut self, at: u64, tail: u64) -> Result<u64, Hostile> {
        if at > tail {
            return Err(Hostile);
        }
        self.at = self.at.max(at);
        Ok(self.at)
    }
}

/// A reader's place in a ring.
#[derive(Debug)]
pub struct Reading {
    at: u64,
    /// The tail when it was looked at last: all before can be read.
    seen: u64,
    published: u64,
    rung: Rung,
}

impl Reading {
    pub fn new(at: u64) -> Reading {
        Reading {
            at,
            seen: at,
            published: at,
            rung: Rung::default(),
        }
    }

    #[inline]
    pub fn at(&self) -> u64 {
        self.at
    }

    /// How many bytes can be read without a look at the tail.
    #[inline]
    pub fn left(&self) -> u64 {
        self.seen - self.at
    }

    /// Looks at the tail: how many bytes can be read. A ring that takes the place of another may not have come here yet.
    #[inline]
    pub fn look(&mut self, head: &Head, size: u64) -> Result<u64, Hostile> {
        let tail = head.tail.load(Ordering::Acquire);
        if tail <= self.at {
            return Ok(0);
        }
        if tail - self.at > size {
            return Err(Hostile);
        }
        self.seen = tail;
        Ok(tail - self.at)
    }

    /// Another ring goes on where the one before was.
    pub fn change_ring(&mut self) {
        self.seen = self.at;
        self.rung = Rung::default();
    }

    /// After the next bytes have been copied out: whether the writer has left them alone until then.
    #[inline]
    pub fn is_intact(&self, head: &Head, size: u64) -> bool {
        fence(Ordering::Acquire);
        head.claimed.load(Ordering::Relaxed).saturating_sub(self.at) <= size
    }

    /// So many of the bytes that are left have been taken.
    #[inline]
    pub fn take(&mut self, bytes: u64) {
        self.at += bytes.min(self.seen - self.at);
    }

    /// What was taken and not said yet.
    #[inline]
    pub fn unpublished(&self) -> u64 {
        self.at - self.published
    }

    /// Says how far it has come; whether the writer is to be rung.
    #[inline]
    pub fn publish(&mut self, cursor: &Cursor, head: &Head) -> bool {
        self.published = self.at;
        publish(&cursor.at, self.at);
        head.room.must_be_rung(&mut self.rung, self.at)
    }

    /// The same for a writer that hears of it by other ways.
    pub fn published(&mut self) -> u64 {
        self.published = self.at;
        self.at
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn a_sleeper_is_rung_once_for_each_sleep() {
        let (sleeper, mut rung) = (Sleeper::new(), Rung::default());
        assert!(!sleeper.must_be_rung(&mut rung, 9) && !sleeper.is_down());
        sleeper.lie_down(5);
        assert!(sleeper.is_down());
        assert!(!sleeper.must_be_rung(&mut rung, 4));
        assert!(sleeper.must_be_rung(&mut rung, 5));
        assert!(!sleeper.must_be_rung(&mut rung, 6));
        // For another position, without having got up.
        sleeper.lie_down(8);
        assert!(!sleeper.must_be_rung(&mut rung, 7));
        assert!(sleeper.must_be_rung(&mut rung, 8));
        sleeper.lie_down(8);
        sleeper.get_up();
        assert!(!sleeper.must_be_rung(&mut rung, 9));
    }

    #[test]
    fn a_cursor_that_lies_is_found_out() {
        let (cursor, mut known) = (Cursor::new(0), Known::new(10));
        assert_eq!(known.look(&cursor, 20), Ok(10), "it has not begun");
        cursor.begin(15);
        assert_eq!(known.look(&cursor, 20), Ok(15));
        cursor.begin(12);
        assert_eq!(known.look(&cursor, 20), Ok(15), "never backwards");
        cursor.begin(21);
        assert_eq!(known.look(&cursor, 20), Err(Hostile));
        assert_eq!(known.at(), 15);
    }

    #[test]
    fn a_tail_that_lies_is_found_out() {
        let (head, mut reading) = (Head::new(0), Reading::new(10));
        assert_eq!(reading.look(&head, 16), Ok(0), "it has not come here yet");
        head.publish(20);
        assert_eq!(reading.look(&head, 16), Ok(10));
        head.claim(26);
        assert!(reading.is_intact(&head, 16));
        head.claim(27);
        assert!(!reading.is_intact(&head, 16), "written anew");
        reading.take(4);
        assert_eq!((reading.at(), reading.left()), (14, 6));
        head.publish(31);
        assert_eq!(reading.look(&head, 16), Err(Hostile));
        reading.take(u64::MAX);
        assert_eq!((reading.at(), reading.left()), (20, 0));
    }
}
