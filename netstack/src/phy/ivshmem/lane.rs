//! A ring of frames from one port to another. A frame is a word with its length, and its bytes, up to a
//! multiple of eight; cursors count bytes, and are never reset.
//!
//! Every member of the group can write anything at any time: each end keeps its own cursor to itself and only
//! shows it, reads the other's once, and copies a frame before it looks at it. A reader that finds an impossible
//! length goes on at the tail that the writer shows; what it skips is lost, as on any network.

use core::sync::atomic::{AtomicU64, Ordering};
use std::sync::Arc;

use super::layout::{ApertureLayout, HEAD, LOST, TAIL};
use crate::phy::sys::Map;

const WORD: usize = size_of::<u64>();

/// A word of an aperture.
pub fn word(map: &Map, at: usize) -> &AtomicU64 {
    map.get(at)
}

/// Bytes that a frame takes.
fn room(length: usize) -> usize {
    WORD + length.next_multiple_of(WORD)
}

/// Where a lane lies.
#[derive(Clone, Debug)]
struct LanePlace {
    map: Arc<Map>,
    layout: ApertureLayout,
    number: usize,
}

impl LanePlace {
    fn word(&self, which: usize) -> &AtomicU64 {
        word(&self.map, self.layout.lane(self.number) + which)
    }

    fn size(&self) -> u64 {
        self.layout.size as u64
    }

    /// The pieces of a stretch of the ring: where each is, and how long.
    fn pieces(&self, from: u64, length: usize) -> [(*mut u8, usize); 2] {
        let at = (from % self.size()) as usize;
        let first = length.min(self.layout.size - at);
        let bytes = self.layout.bytes(self.number);
        let piece = |at, length| (self.map.at(bytes + at, length), length);
        [piece(at, first), piece(0, length - first)]
    }

    /// A frame's length, as it stands there.
    fn length_at(&self, at: u64) -> &AtomicU64 {
        let bytes = self.layout.bytes(self.number);
        word(&self.map, bytes + (at % self.size()) as usize)
    }
}

/// The end that sends, into another's aperture.
#[derive(Debug)]
pub struct Outgoing {
    place: LanePlace,
    tail: u64,
    lost: u64,
    /// Something has to be shown.
    news: bool,
}

impl Outgoing {
    /// Goes on where the last sender on this lane was.
    pub fn new(map: Arc<Map>, layout: ApertureLayout, number: usize) -> Outgoing {
        let place = LanePlace {
            map,
            layout,
            number,
        };
        let tail = place.word(TAIL).load(Ordering::Acquire) & !(WORD as u64 - 1);
        Outgoing {
            tail,
            lost: place.word(LOST).load(Ordering::Relaxed),
            news: false,
            place,
        }
    }

    /// Writes a frame; it is seen with the next [`Outgoing::publish`]. Without room it is lost, and counted
    /// where its receiver sees it.
    pub fn put(&mut self, frame: &[u8]) {
        let head = self.place.word(HEAD).load(Ordering::Acquire);
        let used = self.tail.wrapping_sub(head);
        let needed = room(frame.len()) as u64;
        // A reader that is where it cannot be has been led astray: it shall see our cursor again.
        self.news |= used > self.place.size();
        if used > self.place.size() || self.place.size() - used < needed {
            self.lost += 1;
            self.place.word(LOST).store(self.lost, Ordering::Relaxed);
            return;
        }
        let length = frame.len() as u64;
        self.place
            .length_at(self.tail)
            .store(length, Ordering::Relaxed);
        let mut from = frame;
        let start = self.tail.wrapping_add(WORD as u64);
        for (to, length) in self.place.pieces(start, frame.len()) {
            let (now, rest) = from.split_at(length);
            // SAFETY: `to` is good for so many bytes of the mapping, and `now` has as many; nobody has a
            // reference to a mapping's bytes.
            unsafe { core::ptr::copy_nonoverlapping(now.as_ptr(), to, length) };
            from = rest;
        }
        self.tail = self.tail.wrapping_add(needed);
        self.news = true;
    }

    /// Shows what was written. `false`: nothing was.
    pub fn publish(&mut self) -> bool {
        let news = core::mem::take(&mut self.news);
        if news {
            self.place.word(TAIL).store(self.tail, Ordering::Release);
        }
        news
    }
}

/// What a look at a lane finds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LaneFrame {
    /// Of so many bytes.
    Frame(usize),
    Nothing,
    /// It was skipped.
    Nonsense,
}

/// The end that receives, in its own aperture.
#[derive(Debug)]
pub struct Incoming {
    place: LanePlace,
    head: u64,
    /// The position at which its tripwire is.
    armed: Option<u64>,
}

impl Incoming {
    pub fn new(map: Arc<Map>, layout: ApertureLayout, number: usize) -> Incoming {
        let place = LanePlace {
            map,
            layout,
            number,
        };
        Incoming {
            place,
            head: 0,
            armed: None,
        }
    }

    pub fn has_news(&self) -> bool {
        self.tail() != self.head
    }

    /// Cursors are multiples of words, whatever stands there.
    fn tail(&self) -> u64 {
        self.place.word(TAIL).load(Ordering::Acquire) & !(WORD as u64 - 1)
    }

    /// Copies the next frame, if there is one that fits.
    pub fn take(&mut self, into: &mut [u8]) -> LaneFrame {
        let tail = self.tail();
        if tail == self.head {
            return LaneFrame::Nothing;
        }
        let Some(length) = self.next_length(tail).filter(|it| *it <= into.len()) else {
            self.move_to(tail);
            return LaneFrame::Nonsense;
        };
        let start = self.head.wrapping_add(WORD as u64);
        let mut to = &mut into[..length];
        for (from, length) in self.place.pieces(start, length) {
            let (now, rest) = to.split_at_mut(length);
            // SAFETY: `from` is good for so many bytes of the mapping, and `now` has room for them.
            unsafe { core::ptr::copy_nonoverlapping(from, now.as_mut_ptr(), length) };
            to = rest;
        }
        self.move_to(self.head.wrapping_add(room(length) as u64));
        LaneFrame::Frame(length)
    }

    /// If it can be.
    fn next_length(&self, tail: u64) -> Option<usize> {
        let ready = tail.wrapping_sub(self.head);
        if ready > self.place.size() {
            return None;
        }
        let length = self.place.length_at(self.head).load(Ordering::Relaxed);
        let fits = length <= ready && room(length as usize) as u64 <= ready;
        fits.then_some(length as usize)
    }

    fn move_to(&mut self, head: u64) {
        self.head = head;
        self.show();
    }

    /// Says how far it is; again, if somebody has written over it.
    pub fn show(&self) {
        self.place.word(HEAD).store(self.head, Ordering::Release);
    }

    /// Where its tripwire has to be: (offset, position), unless it is there.
    pub fn wire(&mut self) -> Option<(u64, u64)> {
        if self.armed == Some(self.head) {
            return None;
        }
        self.armed = Some(self.head);
        let offset = self.place.layout.lane(self.place.number) + TAIL;
        Some((offset as u64, self.head))
    }

    /// Frames for which there was no room.
    pub fn lost(&self) -> u64 {
        self.place.word(LOST).load(Ordering::Relaxed)
    }
}

#[cfg(test)]
mod tests {
    use std::vec;
    use std::vec::Vec;

    use super::*;

    fn ends() -> (Outgoing, Incoming, Arc<Map>, ApertureLayout) {
        let layout = ApertureLayout::within(1 << 20, 2).expect("room");
        let map = Arc::new(Map::anonymous(layout.total()).expect("memory"));
        let outgoing = Outgoing::new(map.clone(), layout, 1);
        let incoming = Incoming::new(map.clone(), layout, 1);
        (outgoing, incoming, map, layout)
    }

    fn frame(length: usize, seed: usize) -> Vec<u8> {
        (0..length).map(|at| (at * 7 + seed * 13) as u8).collect()
    }

    fn next(incoming: &mut Incoming) -> Option<Vec<u8>> {
        let mut bytes = vec![0; 2000];
        match incoming.take(&mut bytes) {
            LaneFrame::Frame(length) => Some(bytes[..length].to_vec()),
            _ => None,
        }
    }

    #[test]
    fn frames_come_as_they_were() {
        let (mut outgoing, mut incoming, ..) = ends();
        for seed in 0..5000 {
            let sent = frame(14 + seed % 1500, seed);
            outgoing.put(&sent);
            assert_eq!(next(&mut incoming), None, "not before it is published");
            assert!(outgoing.publish());
            assert_eq!(next(&mut incoming), Some(sent));
        }
        assert!(!outgoing.publish());
        assert_eq!(incoming.lost(), 0);
    }

    #[test]
    fn what_does_not_fit_is_lost_and_counted() {
        let (mut outgoing, mut incoming, _, layout) = ends();
        for seed in 0..1000 {
            outgoing.put(&frame(1000, seed));
        }
        outgoing.publish();
        let kept = layout.size / room(1000);
        for seed in 0..kept {
            assert_eq!(next(&mut incoming), Some(frame(1000, seed)));
        }
        assert_eq!(next(&mut incoming), None);
        assert_eq!(incoming.lost(), 1000 - kept as u64);
    }

    #[test]
    fn who_comes_later_goes_on() {
        let (mut outgoing, mut incoming, map, layout) = ends();
        outgoing.put(&frame(100, 1));
        outgoing.publish();
        // It dies in the middle of the second.
        outgoing.put(&frame(100, 2));
        let mut outgoing = Outgoing::new(map, layout, 1);
        outgoing.put(&frame(300, 3));
        outgoing.publish();
        assert_eq!(next(&mut incoming), Some(frame(100, 1)));
        assert_eq!(next(&mut incoming), Some(frame(300, 3)));
    }

    /// Somebody writes anything anywhere: nothing is read outside, and when it has ended frames come again.
    #[test]
    fn scribbles_do_no_harm() {
        let (mut outgoing, mut incoming, map, layout) = ends();
        let mut random = 1u64;
        let mut next_random = || {
            random ^= random << 13;
            random ^= random >> 7;
            random ^= random << 17;
            random
        };
        for round in 0..20_000 {
            let words = layout.total() / WORD;
            // Mostly at the cursors and lengths: there it matters.
            let at = match next_random() % 3 {
                0 => layout.lane(1) + [TAIL, LOST, HEAD][next_random() as usize % 3],
                1 => layout.bytes(1) + (next_random() as usize % 64) * WORD,
                _ => (next_random() as usize % words) * WORD,
            };
            let value = next_random() >> (next_random() % 64);
            word(&map, at).store(value, Ordering::Relaxed);
            outgoing.put(&frame(14 + round % 1500, round));
            outgoing.publish();
            for _ in 0..4 {
                let mut bytes = [0; 2000];
                let _ = incoming.take(&mut bytes);
            }
            let _ = incoming.has_news();
        }
        // Each end may have lost its way once.
        for _ in 0..2 {
            incoming.show();
            outgoing.put(&frame(20, 0));
            outgoing.publish();
            while next(&mut incoming).is_some() || incoming.has_news() {}
        }
        outgoing.put(&frame(200, 7));
        outgoing.publish();
        assert_eq!(next(&mut incoming), Some(frame(200, 7)));
    }
}
