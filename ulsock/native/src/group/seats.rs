//! Who gets what this member sends, and how far each has come: that bounds what can be sent.

use std::sync::Arc;

use netstack::broadcast::{Known, Rung};

use super::memory::{OwnRing, record_len};
use super::near::Near;

/// One that gets what is sent.
#[derive(Debug)]
struct Seat {
    number: u32,
    known: Known,
    /// Where it was when the sender's patience with it began.
    watched: u64,
    /// It reads the ring itself, and its cursor is at this slot of its page. Others say how far they have come.
    near: Option<(Arc<Near>, u16)>,
    rung: Rung,
}

/// All of them. They share the lock with the ring's tail: who is added begins there.
#[derive(Debug)]
pub struct Seats {
    ring: Arc<OwnRing>,
    tail: u64,
    /// As far as is known there is room up to here.
    limit: u64,
    seats: Vec<Seat>,
    far: usize,
    /// Who have written nonsense, and have no seat any more.
    hostile: Vec<u32>,
}

impl Seats {
    pub fn new(ring: Arc<OwnRing>) -> Seats {
        Seats {
            limit: ring.size(),
            ring,
            tail: 0,
            seats: Vec::new(),
            far: 0,
            hostile: Vec::new(),
        }
    }

    pub fn tail(&self) -> u64 {
        self.tail
    }

    /// From which position on it gets everything.
    pub fn add(&mut self, number: u32, near: Option<(Arc<Near>, u16)>) -> u64 {
        self.far += usize::from(near.is_none());
        self.seats.push(Seat {
            number,
            known: Known::new(self.tail),
            watched: self.tail,
            near,
            rung: Rung::default(),
        });
        self.limit = self.limit.min(self.tail + self.ring.size());
        self.tail
    }

    pub fn remove(&mut self, number: u32) {
        self.seats.retain(|seat| seat.number != number);
        self.count_far();
        self.hostile.retain(|hostile| *hostile != number);
    }

    fn count_far(&mut self) {
        self.far = self.seats.iter().filter(|seat| seat.near.is_none()).count();
    }

    /// Somebody has to be sent what is in the ring.
    #[inline]
    pub fn has_far(&self) -> bool {
        self.far > 0
    }

    /// One that reads elsewhere says how far it has come; whether that can be.
    pub fn hear(&mut self, number: u32, at: u64) -> bool {
        let tail = self.tail;
        let seat = self.seats.iter_mut().find(|seat| seat.number == number);
        seat.is_none_or(|seat| seat.known.hear(at, tail).is_ok())
    }

    /// How far it has come, as it has said.
    pub fn at(&self, number: u32) -> Option<u64> {
        let seat = self.seats.iter().find(|seat| seat.number == number)?;
        Some(seat.known.at())
    }

    /// Looks at all cursors: how far everybody has come.
    fn least(&mut self) -> u64 {
        let (tail, hostile) = (self.tail, &mut self.hostile);
        let mut least = tail;
        self.seats.retain_mut(|seat| {
            let looked = match &seat.near {
                Some((near, slot)) => seat.known.look(near.page.cursor(*slot), tail),
                None => Ok(seat.known.at()),
            };
            match looked {
                Ok(at) => least = least.min(at),
                Err(_) => hostile.push(seat.number),
            }
            looked.is_ok()
        });
        least
    }

    /// Whether everybody has come to this position.
    pub fn have_come_to(&mut self, position: u64) -> bool {
        self.least() >= position
    }

    /// The sender waits from now on: its patience with everybody begins.
    pub fn watch(&mut self) {
        self.least();
        for seat in &mut self.seats {
            seat.watched = seat.known.at();
        }
    }

    /// Its patience has ended: who have not come to this position, and have taken nothing at all meanwhile, lose their seats. It
    /// begins anew with the others.
    pub fn remove_idle(&mut self, position: u64) -> Vec<u32> {
        self.least();
        let mut idle = Vec::new();
        self.seats.retain_mut(|seat| {
            let at = seat.known.at();
            let stays = at >= position || at > seat.watched;
            seat.watched = at;
            if !stays {
                idle.push(seat.number);
            }
            stays
        });
        self.count_far();
        idle
    }

    #[inline]
    pub fn has_hostile(&self) -> bool {
        !self.hostile.is_empty()
    }

    /// Who have to be put out.
    pub fn take_hostile(&mut self) -> Vec<u32> {
        std::mem::take(&mut self.hostile)
    }

    /// Everybody is to have come here before so many bytes can be sent.
    pub fn wanted(&self, len: usize) -> u64 {
        (self.tail + record_len(len)).saturating_sub(self.ring.size())
    }

    #[inline]
    fn has_room(&mut self, need: u64) -> bool {
        if self.tail + need <= self.limit {
            return true;
        }
        self.limit = self.least() + self.ring.size();
        self.tail + need <= self.limit
    }

    /// Sends a message, unless there is no room for it. The caller has checked its length.
    #[inline]
    pub fn send(&mut self, bytes: &[u8]) -> bool {
        let need = record_len(bytes.len());
        if !self.has_room(need) {
            return false;
        }
        self.ring.head().claim(self.tail + need);
        let head = (bytes.len() as u64).to_le_bytes();
        self.ring.write(self.tail, &head);
        self.ring.write(self.tail + head.len() as u64, bytes);
        self.tail += need;
        self.ring.head().publish(self.tail);
        for seat in &mut self.seats {
            if let Some((near, _)) = &seat.near
                && near.page.rest().must_be_rung(&mut seat.rung, self.tail)
            {
                // Who is gone need not be woken.
                let _ = near.receiver_bell.ring();
            }
        }
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::group::memory::{OwnPage, Page};
    use shm::doorbell::{Doorbell, DoorbellKind, Ringer};
    use std::os::fd::AsFd;

    const SIZE: u64 = 4096;

    fn seats() -> Seats {
        Seats::new(Arc::new(OwnRing::new(SIZE).unwrap().0))
    }

    fn near() -> (OwnPage, Arc<Near>) {
        let (own, page) = OwnPage::new().unwrap();
        let ringer = || {
            let bell = Doorbell::new_event().unwrap();
            let far = os::fds::duplicate_high(bell.far_fd()).unwrap();
            Ringer::adopt(DoorbellKind::Event, far, true).unwrap()
        };
        let near = Near {
            page: Page::adopt(page.as_fd()).unwrap(),
            receiver_bell: ringer(),
            sender_bell: ringer(),
        };
        (own, Arc::new(near))
    }

    /// It has no seat from then on, and is known as such also if the message could be sent without it.
    #[test]
    fn a_cursor_beyond_the_ring_is_noticed() {
        let mut seats = seats();
        let (page, near) = near();
        seats.add(7, Some((near, 3)));
        for _ in 0..4 {
            assert!(seats.send(&[1; 1000]));
        }
        page.cursor(3).begin(5000);
        assert!(!seats.has_hostile());
        assert!(seats.send(&[1; 1000]), "nobody else is in the way");
        assert!(seats.has_hostile());
        assert_eq!(seats.take_hostile(), [7]);
        assert_eq!(seats.at(7), None);
    }

    #[test]
    fn who_moves_is_not_idle() {
        let mut seats = seats();
        for number in [1, 2, 3] {
            seats.add(number, None);
        }
        for _ in 0..4 {
            assert!(seats.send(&[1; 1000]));
        }
        let wanted = seats.wanted(1000);
        seats.watch();
        assert!(seats.hear(2, 8) && seats.hear(3, wanted));
        assert!(!seats.hear(3, 1 << 20), "nobody has written that");
        assert_eq!(seats.remove_idle(wanted), [1]);
        assert_eq!(seats.remove_idle(wanted), [2], "not since then");
        assert!(seats.send(&[1; 1000]));
        assert_eq!(seats.at(3), Some(wanted));
    }
}
