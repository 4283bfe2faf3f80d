//! What the kernel's stream brings to a side that is promoted, or was.
//!
//! A promotion begins with empty queues, so a record is the first thing in its direction, and travels in
//! one segment: where plain bytes may come as well, fewer bytes than a record has are plain ones.

use core::cmp::Ordering;

use super::record::{LENGTH, Resume};
use super::side::{Role, Side, Stage};
use crate::ring::Tail;

/// What stands next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Arrived {
    /// Bytes of the program; the ring has had the first `skip` of them.
    Plain { skip: u64 },
    /// A record, which has been taken note of. Its bytes are to be thrown away.
    Record,
    /// The beginning of a record.
    Part,
    /// Nothing that can be read before something else has happened here.
    NotYet,
}

/// The peer's stream cannot be what it is: a reset.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Nonsense;

/// What a side has in its segment.
pub trait Segment {
    fn tail(&self) -> Tail;

    /// `[F16]` Freezes the tail word.
    fn freeze(&self) -> Tail;

    /// How far the sending ring was freed and filled.
    fn freed(&self) -> u64;
    fn filled(&self) -> u64;
}

/// What the first bytes are.
enum Head {
    /// `[F17]` Of an earlier epoch: the peer's in one that we had given up.
    Stale,
    Ours(Resume),
    Short,
    Other,
}

impl Side {
    /// Says what stands next in the kernel's stream, of which `bytes` are the first that there are, at
    /// least one, and as many as a record has if there are.
    pub fn look(&mut self, bytes: &[u8], segment: &impl Segment) -> Result<Arrived, Nonsense> {
        self.see(segment.tail());
        let bound = segment.tail().is_open();
        let plain = self.heard && !self.aborted;
        match (self.stage, self.head(bytes)) {
            (Stage::Frozen | Stage::Over, _) => Ok(Arrived::NotYet),
            (Stage::Kernel | Stage::Resending, _) if plain => Ok(self.plain(segment)),
            (_, Head::Stale) => Ok(Arrived::Record),
            (Stage::Joining | Stage::Linked, Head::Ours(record)) => {
                segment.freeze();
                self.stage = Stage::Frozen;
                self.hear(record, segment)
            }
            (Stage::Kernel | Stage::Resending, Head::Ours(record)) if !self.heard => {
                self.hear(record, segment)
            }
            // [F18] The peer had agreed to what we gave up. Plain bytes were an answer; else it gets one.
            (Stage::Kernel, Head::Ours(record)) => {
                self.aborted = false;
                self.owes_answer = !self.spoke;
                self.promised = record.written;
                Ok(Arrived::Record)
            }
            (Stage::Kernel | Stage::Resending, _) if self.heard => Ok(self.plain(segment)),
            // [F8] A gives up before it reads on.
            (Stage::Joining, _) if self.role == Role::Connected => Ok(Arrived::NotYet),
            (_, Head::Short) if bound => Ok(Arrived::Part),
            (Stage::Joining, _) => self.follow(segment),
            // [F17] We have resumed, and A had given up.
            (Stage::Kernel | Stage::Resending, _) if !bound => {
                self.heard = true;
                Ok(self.plain(segment))
            }
            _ => Err(Nonsense),
        }
    }

    fn head(&self, bytes: &[u8]) -> Head {
        let Some((head, _)) = bytes.split_first_chunk::<LENGTH>() else {
            return Head::Short;
        };
        let record = Resume::from_bytes(head);
        match record.epoch.cmp(&self.epoch) {
            _ if record.key != self.key => Head::Other,
            Ordering::Less => Head::Stale,
            Ordering::Equal => Head::Ours(record),
            Ordering::Greater => Head::Other,
        }
    }

    fn plain(&self, segment: &impl Segment) -> Arrived {
        Arrived::Plain {
            skip: segment.tail().offset().saturating_sub(self.at),
        }
    }

    /// `[F17]` Plain bytes where only a record could be: A has given up, unless OPEN has come after all. B
    /// has written nothing meanwhile.
    fn follow(&mut self, segment: &impl Segment) -> Result<Arrived, Nonsense> {
        if segment.freeze().is_open() {
            return Err(Nonsense);
        }
        self.stage = Stage::Kernel;
        self.heard = true;
        Ok(self.plain(segment))
    }

    /// `[F19]` The peer's record: which byte follows, and from where it wants ours.
    fn hear(&mut self, record: Resume, segment: &impl Segment) -> Result<Arrived, Nonsense> {
        let tail = segment.tail().offset();
        let ours = (segment.freed()..=segment.filled()).contains(&record.received);
        let theirs = (record.from..=record.written).contains(&tail);
        if !ours || !theirs {
            return Err(Nonsense);
        }
        self.heard = true;
        self.at = record.from;
        self.promised = record.written;
        if self.stage == Stage::Frozen {
            self.wanted = Some(record.received);
        }
        Ok(Arrived::Record)
    }
}
