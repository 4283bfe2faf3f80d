//! One side between the carriers: its stage, and what it knows of the peer's.

use super::record::Resume;
use crate::ring::Tail;

/// `[F1]` Which side proposes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    /// A: it alone proposes promotions.
    Connected,
    /// B.
    Accepted,
}

/// Where a side stands between the carriers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stage {
    /// Kernel TCP carries both directions.
    Kernel,
    /// A promotion is proposed (A) or agreed to (B), but the word does not say OPEN yet.
    Joining,
    /// The link carries both directions.
    Linked,
    /// Our tail word is frozen; RESUME is still to be written.
    Frozen,
    /// RESUME is written; what the peer may lack goes to the kernel.
    Resending,
    /// An error: nothing is sent any more, what is in the ring can still be read.
    Over,
}

/// What A proposes, and where it stands in both directions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Prepare {
    pub epoch: u64,
    pub key: u64,
    pub sent: u64,
    pub received: u64,
}

/// How the kernel's stream goes on after all that has been read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Tip {
    Fin,
    /// A reset, or an error.
    Broken,
}

/// One side of a connection that is promoted, or may be.
#[derive(Clone, Debug)]
pub struct Side {
    pub(super) role: Role,
    pub(super) stage: Stage,
    /// The last promotion that we took part in; 0 before the first.
    pub(super) epoch: u64,
    /// The same for all promotions of a connection: a RESUME of one that we gave up may still come.
    pub(super) key: u64,
    /// The peer's RESUME of this epoch has been read: plain bytes follow. Before, nothing else can come.
    pub(super) heard: bool,
    /// We gave this epoch up before it was open: the peer may not know.
    pub(super) aborted: bool,
    /// Since then we have written plain bytes to the kernel: that tells it.
    pub(super) spoke: bool,
    /// `[F18]`
    pub(super) owes_answer: bool,
    /// Offset of the next byte from the kernel; behind the ring's tail as long as bytes come twice.
    pub(super) at: u64,
    /// How far the peer had written when it resumed: no end of the stream comes before.
    pub(super) promised: u64,
    /// Where the peer wants our bytes from, if it has said so before we resumed.
    pub(super) wanted: Option<u64>,
}

impl Side {
    /// A connection on kernel TCP, of which the program has read so much.
    pub fn new(role: Role, read: u64) -> Side {
        Side {
            role,
            stage: Stage::Kernel,
            epoch: 0,
            key: 0,
            heard: true,
            aborted: false,
            spoke: false,
            owes_answer: false,
            at: read,
            promised: 0,
            wanted: None,
        }
    }

    /// A connection that is on the link in this epoch, taken over from a holder that has closed it.
    pub fn linked(role: Role, epoch: u64, key: u64, read: u64) -> Side {
        Side {
            stage: Stage::Linked,
            epoch,
            key,
            heard: false,
            ..Side::new(role, read)
        }
    }

    /// The holder before us has read the peer's record of this epoch.
    pub fn take_for_heard(&mut self) {
        self.heard = true;
    }

    pub fn stage(&self) -> Stage {
        self.stage
    }

    pub fn epoch(&self) -> u64 {
        self.epoch
    }

    pub fn key(&self) -> u64 {
        self.key
    }

    /// The offset of the next byte from the kernel.
    pub fn at(&self) -> u64 {
        self.at
    }

    /// Where the peer wants our bytes from, if it has said so.
    pub fn wanted(&self) -> Option<u64> {
        self.wanted
    }

    /// What the kernel brings next is plain bytes, whatever they look like: nobody needs to look.
    pub fn is_plain(&self) -> bool {
        let on_kernel = matches!(self.stage, Stage::Kernel | Stage::Resending);
        on_kernel && self.heard && !self.aborted
    }

    /// The peer's record of this epoch has been read, or none can come.
    pub fn has_heard(&self) -> bool {
        self.heard
    }

    /// `[F18]` A record is owed.
    pub fn owes_answer(&self) -> bool {
        self.owes_answer
    }

    /// `[F2]` `[F3]` Nothing is under way between the carriers. That the kernel's queues are empty, and both
    /// streams still go on, the caller knows.
    pub fn can_join(&self, tail: Option<Tail>, read: u64) -> bool {
        let last = tail.map_or(0, Tail::offset);
        let drained = self.at.min(read) >= last;
        self.stage == Stage::Kernel && self.heard && !self.owes_answer && drained
    }

    /// `[F1]` `[F2]` A proposes the next epoch. From now on it accepts no byte from the program, until the
    /// word says OPEN or it gives up. The key of the first promotion is taken at `random`.
    pub fn propose(&mut self, random: u64, written: u64, read: u64) -> Prepare {
        let key = if self.epoch == 0 { random } else { self.key };
        self.join(self.epoch + 1, key);
        Prepare {
            epoch: self.epoch,
            key,
            sent: written,
            received: read,
        }
    }

    /// `[F3]` B agrees if it stands where A stood.
    pub fn agree(&mut self, prepare: &Prepare, written: u64, read: u64) -> bool {
        let same = written == prepare.received && read == prepare.sent;
        let known = self.epoch == 0 || self.key == prepare.key;
        let new = prepare.epoch > self.epoch && self.role == Role::Accepted;
        let agrees = same && known && new;
        if agrees {
            self.join(prepare.epoch, prepare.key);
        }
        agrees
    }

    fn join(&mut self, epoch: u64, key: u64) {
        (self.epoch, self.key) = (epoch, key);
        self.stage = Stage::Joining;
        self.heard = false;
        self.aborted = false;
        self.wanted = None;
    }

    /// `[F7]` Looks whether the word says OPEN.
    pub fn see(&mut self, tail: Tail) {
        if self.stage == Stage::Joining && tail.is_open() {
            self.stage = Stage::Linked;
        }
    }

    /// `[F8]` A gives up: its word is frozen, and this is what it says. `false`: the peer was bound before.
    pub fn give_up(&mut self, tail: Tail) -> bool {
        self.see(tail);
        let gives_up = self.stage == Stage::Joining && self.role == Role::Connected;
        if gives_up {
            self.stage = Stage::Kernel;
            self.heard = true;
            self.aborted = true;
            self.spoke = false;
        }
        gives_up
    }

    /// `[F9]` `[F15]` Fails over: the word is frozen.
    pub fn freeze(&mut self) {
        let joins = self.stage == Stage::Joining && self.role == Role::Accepted;
        if self.stage == Stage::Linked || joins {
            self.stage = Stage::Frozen;
        }
    }

    /// `[F16]` The record that is written now; behind it the bytes of the ring from `from` on.
    pub fn resume(&mut self, tail: Tail, freed: u64, written: u64) -> Resume {
        self.stage = Stage::Resending;
        self.record(tail, self.wanted.unwrap_or(freed), written)
    }

    fn record(&self, tail: Tail, from: u64, written: u64) -> Resume {
        Resume {
            key: self.key,
            epoch: self.epoch,
            received: tail.offset(),
            from,
            written,
        }
    }

    /// `[F20]` All that the ring held is in the kernel.
    pub fn resent(&mut self) {
        if self.stage == Stage::Resending {
            self.stage = Stage::Kernel;
        }
    }

    /// Plain bytes, or FIN, have been written to the kernel.
    pub fn spoke(&mut self) {
        self.spoke = true;
        self.owes_answer = false;
    }

    /// `[F18]` The record that is owed to a peer that had agreed to what we gave up.
    pub fn answer(&mut self, tail: Tail, written: u64) -> Option<Resume> {
        let owed = core::mem::take(&mut self.owes_answer);
        owed.then(|| self.record(tail, written, written))
    }

    /// The same as `took`, by where the kernel's stream is: it is told of now and then.
    pub fn took_up_to(&mut self, at: u64) {
        self.took(at.saturating_sub(self.at));
    }

    /// So many plain bytes have been taken from the kernel.
    pub fn took(&mut self, bytes: u64) {
        self.at += bytes;
        self.aborted &= bytes == 0;
    }

    /// How the kernel's stream goes on after all that it has brought. `None`: what is in the ring comes
    /// first, or `[F23]` the end only asks: if the word does not say ENDED in time, `despair`.
    pub fn end(&mut self, tip: Tip, tail: Option<Tail>, read: u64) -> Option<Tip> {
        if matches!(self.stage, Stage::Joining | Stage::Linked | Stage::Frozen) {
            return None;
        }
        // [F22] The peer will not resume, or will not keep its promise.
        let broken = tip == Tip::Broken || !self.heard || self.at < self.promised;
        if broken {
            self.stage = Stage::Over;
        }
        let drained = read >= tail.map_or(0, Tail::offset);
        drained.then_some(if broken { Tip::Broken } else { Tip::Fin })
    }

    /// `[F23]` FIN or a reset was seen, and the frozen word does not say how the stream ends.
    pub fn despair(&mut self) {
        self.stage = Stage::Over;
    }
}
