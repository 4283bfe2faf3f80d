//! What one member sends, as another one receives it.

use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use netstack::broadcast::Reading;

use super::member::{Event, Member};
use super::memory::{RECORD, Ring, longest, record_len};
use super::shared::{Over, Says, Shared};

/// A sender on another host hears at least so often how far its receiver has come, as long as that goes on: it has patience only
/// with who takes something.
const NEWS: Duration = Duration::from_millis(10);

/// Why there is no message.
#[derive(Debug, PartialEq, Eq)]
pub enum Missing {
    /// It has more bytes than there is room for.
    NoRoom(usize),
    /// The sender has written nonsense, or goes on without us.
    Hostile,
}

#[derive(Debug)]
pub struct Stream {
    pub member: Member,
    ring: Option<Ring>,
    reading: Reading,
    says: Says,
    said: Instant,
    /// What had come when its turn began ends here.
    turn: u64,
    over: Option<Over>,
    /// Nothing more comes, although it has left in good order: its relay is gone, too.
    is_lost: bool,
}

impl Stream {
    pub fn new(member: Member, start: u64, says: Says) -> Stream {
        Stream {
            member,
            ring: None,
            reading: Reading::new(start),
            says,
            said: Instant::now(),
            turn: start,
            over: None,
            is_lost: false,
        }
    }

    /// Goes on where it was.
    pub fn read_from(&mut self, ring: Ring) {
        self.reading.change_ring();
        self.turn = self.reading.at();
        self.ring = Some(ring);
    }

    pub fn end(&mut self, over: Over) {
        match (self.over, over) {
            (Some(Over::Left(_)), Over::Failed) => self.is_lost = true,
            _ => self.over = Some(over),
        }
    }

    /// More can be had at once.
    #[inline]
    fn has_more(&self) -> bool {
        self.reading.left() > 0
    }

    /// It is the turn of others. What has come meanwhile waits, also the rest of a message that a relay had in part.
    #[inline]
    pub fn has_had_its_turn(&self) -> bool {
        self.reading.at() >= self.turn
    }

    /// The next message, copied into the room: how long it is.
    #[inline]
    pub fn next(&mut self, room: &mut [u8], shared: &Shared) -> Result<Option<usize>, Missing> {
        let Some(ring) = &self.ring else {
            return Ok(None);
        };
        let at = self.reading.at();
        if at >= self.turn {
            let left = self.reading.look(ring.head(), ring.size());
            let left = left.map_err(|_| Missing::Hostile)?;
            if left < RECORD {
                return Ok(None);
            }
            self.turn = at + left;
        }
        let len = ring.length(at) as usize;
        if len > longest(ring.size()) {
            return Err(Missing::Hostile);
        }
        let whole = record_len(len);
        if !has_come(&mut self.reading, ring, whole)? {
            // A relay has it in part: room for the rest may depend on this.
            self.publish(shared);
            return Ok(None);
        }
        let fits = room.get_mut(..len);
        let has_room = fits.is_some();
        if let Some(room) = fits {
            ring.read(at + RECORD, room);
        }
        // Its length, too, is what has been written since if the sender goes on without us.
        if !self.reading.is_intact(ring.head(), ring.size()) {
            return Err(Missing::Hostile);
        }
        if !has_room {
            return Err(Missing::NoRoom(len));
        }
        self.reading.take(whole);
        let is_much = self.reading.unpublished() >= ring.size() / 8;
        if is_much || !self.has_more() || self.is_waited_for() {
            self.publish(shared);
        }
        Ok(Some(len))
    }

    /// The sender may want to know how far we are.
    fn is_waited_for(&self) -> bool {
        match (&self.says, &self.ring) {
            (Says::Near { .. }, Some(ring)) => ring.head().room.is_down(),
            _ => self.said.elapsed() >= NEWS,
        }
    }

    /// Says how far it has come.
    fn publish(&mut self, shared: &Shared) {
        let Some(ring) = &self.ring else {
            return;
        };
        if self.reading.unpublished() == 0 {
            return;
        }
        match &self.says {
            Says::Near { slot, sender } => {
                let cursor = shared.page.cursor(*slot);
                if self.reading.publish(cursor, ring.head()) {
                    // Who is gone need not be woken.
                    let _ = sender.sender_bell.ring();
                }
            }
            Says::Far(at) => {
                self.said = Instant::now();
                at.store(self.reading.published(), Ordering::Release);
                shared.nudge();
            }
        }
    }

    /// What has become of it, now that nothing more has come.
    pub fn ended(&self) -> Option<Event> {
        match self.over? {
            Over::Left(end) if self.reading.at() >= end => Some(Event::Left(self.member)),
            Over::Left(_) if !self.is_lost => None,
            Over::Left(_) | Over::Failed => Some(Event::Failed(self.member)),
        }
    }

    /// Where its cursor was.
    pub fn slot(&self) -> Option<u16> {
        match &self.says {
            Says::Near { slot, .. } => Some(*slot),
            Says::Far(_) => None,
        }
    }
}

#[inline]
fn has_come(reading: &mut Reading, ring: &Ring, bytes: u64) -> Result<bool, Missing> {
    if reading.left() >= bytes {
        return Ok(true);
    }
    let left = reading.look(ring.head(), ring.size());
    Ok(left.map_err(|_| Missing::Hostile)? >= bytes)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::group::member::Options;
    use crate::group::memory::{OwnPage, OwnRing};
    use std::sync::Arc;
    use std::sync::atomic::AtomicU64;

    const SIZE: u64 = 4096;

    fn reader(ring: &Arc<OwnRing>, start: u64) -> Stream {
        let member = Member {
            number: 1,
            pid: 1,
            host: None,
        };
        let says = Says::Far(Arc::new(AtomicU64::new(start)));
        let mut stream = Stream::new(member, start, says);
        stream.read_from(Ring::own(ring));
        stream
    }

    fn ring() -> Arc<OwnRing> {
        Arc::new(OwnRing::new(SIZE).unwrap().0)
    }

    fn shared() -> Shared {
        let (page, _) = OwnPage::new().unwrap();
        let (own, _) = OwnRing::new(SIZE).unwrap();
        Shared::new(Options::default(), own, page).unwrap()
    }

    #[test]
    fn another_ring_goes_on_where_the_one_before_was() {
        let (shared, rings) = (shared(), [ring(), ring()]);
        let mut stream = reader(&rings[0], 80);
        let bytes: Vec<u8> = [&3_u64.to_le_bytes()[..], b"abc\0\0\0\0\0"].concat();
        let mut room = [0; 10];
        for ring in &rings {
            ring.head().begin(stream.reading.at() - 16);
            stream.read_from(Ring::own(ring));
            ring.write(stream.reading.at(), &[0xff; 8]);
            assert_eq!(stream.next(&mut room, &shared), Ok(None));
            let at = stream.reading.at();
            ring.write(at, &bytes);
            // First in part only.
            ring.head().publish(at + 8);
            assert_eq!(stream.next(&mut room, &shared), Ok(None));
            ring.head().publish(at + 16);
            assert_eq!(stream.next(&mut room, &shared), Ok(Some(3)));
            assert_eq!(&room[..3], b"abc");
            // More has come in this ring, but is to be read in the next one.
            ring.head().publish(at + 40);
            assert_eq!(stream.next(&mut room, &shared), Ok(Some(0)));
        }
        assert_eq!(stream.reading.at(), 128);
    }

    /// Bytes come from a relay as fast as they are taken, and a message always only in part.
    #[test]
    fn what_comes_meanwhile_waits_for_the_next_turn() {
        let (shared, ring) = (shared(), ring());
        let mut stream = reader(&ring, 0);
        let (mut room, mut turns) = ([0; 8], Vec::new());
        ring.write(0, &8_u64.to_le_bytes());
        for at in (0..160).step_by(16) {
            ring.write(at + 16, &8_u64.to_le_bytes());
            ring.head().publish(at + 24);
            assert_eq!(stream.next(&mut room, &shared), Ok(Some(8)));
            if stream.has_had_its_turn() {
                turns.push(at);
            }
        }
        assert_eq!(turns, [16, 48, 80, 112, 144]);
    }

    #[test]
    fn the_length_of_what_was_overwritten_is_not_told() {
        let (shared, ring) = (shared(), ring());
        let mut stream = reader(&ring, 0);
        ring.write(0, &512_u64.to_le_bytes());
        ring.head().publish(1024);
        assert_eq!(stream.next(&mut [], &shared), Err(Missing::NoRoom(512)));
        ring.head().claim(SIZE + 8);
        assert_eq!(stream.next(&mut [], &shared), Err(Missing::Hostile));
    }

    #[test]
    fn who_has_left_has_left_whatever_becomes_of_the_relay() {
        let (shared, ring) = (shared(), ring());
        for (end, lost) in [(16, Event::Left as fn(_) -> _), (24, Event::Failed)] {
            ring.head().begin(0);
            let mut stream = reader(&ring, 0);
            ring.write(0, &[0; 16]);
            stream.end(Over::Left(end));
            assert_eq!(stream.ended(), None, "nothing has come");
            ring.head().publish(16);
            stream.end(Over::Failed);
            while stream.next(&mut [], &shared) == Ok(Some(0)) {}
            assert_eq!(stream.ended(), Some(lost(stream.member)));
        }
    }

    /// What the writer of the ring does, as the bytes of an input say: anywhere, anything, and any tail.
    #[test]
    fn fuzz() {
        let (shared, ring) = (shared(), ring());
        let target = bolero::check!().with_test_time(Duration::from_secs(1));
        target.for_each(|input: &[u8]| {
            let start = 1 << 20;
            let mut stream = reader(&ring, start);
            let (mut room, mut tail) = ([0; 2048], start);
            for step in input.chunks_exact(4) {
                let word = u64::from(u16::from_le_bytes([step[2], step[3]]));
                match step[0] % 4 {
                    0 => ring.write(word * 8, &[step[1]; 24]),
                    1 => ring.write(word * 8, &(u64::from(step[1])).to_le_bytes()),
                    2 => tail = start + word,
                    _ => tail = tail.wrapping_add(word << (step[1] % 64)),
                }
                ring.head().publish(tail);
                if let Ok(Some(len)) = stream.next(&mut room, &shared) {
                    assert!(len <= longest(SIZE));
                }
            }
        });
    }
}
