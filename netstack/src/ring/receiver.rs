//! The receiving side of one direction.
//!
//! A `Receiver` is put together for the length of one call, under the side lock. [`Receiver::look`]
//! says where the next bytes are; ring bytes are pulled here, kernel bytes by the caller, which never
//! takes more than `look` allows: bytes of a later kernel stretch must not be read early. Bytes that
//! are in the ring are always read from the ring, also when the kernel carries them again: so none
//! is lost with a sender that dies before it has sent them again.

use super::Hostile;
use super::mark::{Carrier, LEVEL_SIZE, Mark};
use super::memory::{Memory, Sink, pieces};
use super::shared::{MARKS, Shared};
use super::sync::{Ordering, compiler_fence, fence, publish};
use super::tail::Tail;
use super::tripwire::Slots;

/// What the receiving side knows for itself, what every receive needs first. In the socket record; all
/// zero is the beginning.
#[repr(C)]
#[derive(Clone, Default)]
pub struct RxState {
    /// Stream offset of the next byte to read.
    pub pos: u64,
    /// The current carrier's code.
    pub(super) code: u64,
    /// Marks consumed.
    pub(super) epoch: u64,
    /// The sender's tail when last looked at.
    tail_seen: u64,
    /// The sender's turn as far as its marks were consumed.
    pub(super) turn: u64,
    /// Kernel bytes to throw away first: they were read from the ring already.
    pub(super) skip: u64,
    /// The wish published last.
    wish: u64,
    /// 1: wants a ring.
    wants_ring: u64,
}

/// Where the next bytes are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Look {
    /// In the ring, this many (none: wait).
    Ring(u64),
    /// In the kernel socket; take no more than this many after `skip` others were thrown away
    /// (`limit` is 0 only with some to throw away, and then the ring comes next).
    /// `u64::MAX` only means that no end is known: see [`Receiver::look`].
    Kernel { skip: u64, limit: u64 },
}

pub struct Receiver<'a, M: Memory> {
    pub shared: &'a Shared,
    pub memory: &'a M,
    pub state: &'a mut RxState,
    /// Looking ahead: nothing is published, the state is a copy.
    pub peek: bool,
}

impl RxState {
    /// The kernel's own count, once nobody is inside the gate.
    pub fn begin(pos: u64) -> RxState {
        RxState {
            pos,
            ..RxState::default()
        }
    }

    /// Onto the ring of `level` at once, which an engine fills from this byte on.
    pub fn begin_on_ring(pos: u64, level: u8) -> RxState {
        RxState {
            pos,
            code: Carrier::Ring(level).code(),
            turn: 1,
            ..RxState::default()
        }
    }

    #[inline]
    pub fn carrier(&self) -> Carrier {
        Carrier::from_code(self.code).unwrap_or(Carrier::Kernel)
    }

    pub fn on_ring(&self) -> bool {
        self.code != 0
    }

    /// Up to here the kernel's bytes have been taken, while it is the carrier; some of them may have come
    /// through the ring before.
    pub fn taken_from_kernel(&self) -> u64 {
        self.pos.saturating_sub(self.skip)
    }

    pub fn wants_ring(&self) -> bool {
        self.wants_ring == 1
    }
}

impl<M: Memory> Receiver<'_, M> {
    /// Consumes marks that have been reached and says where the next bytes are.
    ///
    /// A caller that reads from the kernel first asks how many bytes are queued there and only then
    /// looks: if no mark had been published by then, the queued bytes all belong to this stretch.
    ///
    /// It ends after as many marks as can be out at once, whatever the sender does meanwhile. To
    /// find nothing at that very moment is safe for a caller that has armed: one of those marks was
    /// published after this call began, and so it rings.
    #[inline]
    pub fn look(&mut self) -> Result<Look, Hostile> {
        for consumed in 1..=MARKS + 1 {
            // The tail before the epoch: a tail of a later stretch comes with that stretch's mark.
            let tail = Tail::read(&self.shared.producer.tail).offset();
            let epoch = self.shared.producer.epoch.load(Ordering::Acquire);
            if epoch == self.state.epoch {
                return self.within(tail);
            }
            let next = self.next_mark(epoch)?;
            if let Some(look) = self.before(next)? {
                return Ok(look);
            }
            self.advance(next);
            if consumed >= MARKS && self.state.on_ring() {
                return Ok(Look::Ring(0));
            }
        }
        // Two kernel stretches in a row.
        Err(Hostile)
    }

    /// On the kernel, with nothing to throw away, and no other stretch can begin before we wish for
    /// it: whatever the kernel has is next.
    pub fn stays_on_kernel(&self) -> bool {
        let state = &self.state;
        !state.on_ring()
            && state.skip == 0
            && state.wish == state.turn
            && self.shared.producer.epoch.load(Ordering::Acquire) == state.epoch
    }

    /// The sender has published a mark that is not consumed yet, or the kernel carries again what has been read.
    pub fn has_left_ring(&self) -> bool {
        self.state.skip > 0
            || self.shared.producer.epoch.load(Ordering::Acquire) != self.state.epoch
    }

    /// The ring is the carrier, all of it is read, and no mark says that anything follows elsewhere.
    pub fn is_at_end_of_ring(&self) -> bool {
        // The tail before the epoch, as in `look`.
        let tail = Tail::read(&self.shared.producer.tail).offset();
        self.state.on_ring() && tail == self.state.pos && !self.has_left_ring()
    }

    fn next_mark(&self, epoch: u64) -> Result<Mark, Hostile> {
        let out = epoch.wrapping_sub(self.state.epoch);
        if out == 0 || out >= MARKS as u64 {
            return Err(Hostile);
        }
        let slot = &self.shared.switch.marks[(self.state.epoch + 1) as usize % MARKS];
        Mark::unpack(slot.load(Ordering::Relaxed)).ok_or(Hostile)
    }

    fn in_kernel(&self, limit: u64) -> Look {
        Look::Kernel {
            skip: self.state.skip,
            limit,
        }
    }

    /// Unread bytes in the ring of `level` up to `tail`.
    #[inline]
    fn in_ring(&mut self, level: u8, tail: u64) -> Result<u64, Hostile> {
        let available = tail.checked_sub(self.state.pos).ok_or(Hostile)?;
        if available > LEVEL_SIZE[level as usize] || tail < self.state.tail_seen {
            return Err(Hostile);
        }
        self.state.tail_seen = tail;
        Ok(available)
    }

    /// No end of the stretch is known.
    fn within(&mut self, tail: u64) -> Result<Look, Hostile> {
        match self.state.carrier() {
            Carrier::Kernel => Ok(self.in_kernel(u64::MAX)),
            Carrier::Ring(level) => Ok(Look::Ring(self.in_ring(level, tail)?)),
        }
    }

    /// What comes before the stretch of `next`; `None` when that has been reached.
    fn before(&mut self, next: Mark) -> Result<Option<Look>, Hostile> {
        match (self.state.carrier(), next.carrier) {
            (Carrier::Ring(level), Carrier::Kernel) => self.before_leaving(level, next.start),
            (Carrier::Ring(level), Carrier::Ring(_)) => {
                let left = self.left_before(next.start)?;
                if left > LEVEL_SIZE[level as usize] {
                    return Err(Hostile);
                }
                Ok((left > 0).then_some(Look::Ring(left)))
            }
            (Carrier::Kernel, Carrier::Ring(_)) => {
                let left = self.left_before(next.start)?;
                // What is to be thrown away lies in front of later kernel stretches: first that.
                let reached = left == 0 && self.state.skip == 0;
                Ok((!reached).then(|| self.in_kernel(left)))
            }
            // A holder died inside `advance`: the rest of it is to be done.
            (Carrier::Kernel, Carrier::Kernel) => Ok(None),
        }
    }

    /// A stretch that begins behind what was read can only be a kernel one.
    fn left_before(&self, start: u64) -> Result<u64, Hostile> {
        start.checked_sub(self.state.pos).ok_or(Hostile)
    }

    /// The sender has left the ring: nothing comes into it any more, and the tail is its end. The
    /// kernel stretch may begin before it and repeat no more than the rings hold.
    fn before_leaving(&mut self, level: u8, start: u64) -> Result<Option<Look>, Hostile> {
        let tail = Tail::read(&self.shared.producer.tail).offset();
        let left = self.in_ring(level, tail)?;
        if tail.checked_sub(start).ok_or(Hostile)? > LEVEL_SIZE.iter().sum() {
            return Err(Hostile);
        }
        Ok((left > 0).then_some(Look::Ring(left)))
    }

    /// Done again after a death in the middle, this has the same result: the epoch comes last.
    fn advance(&mut self, next: Mark) {
        let state = &mut *self.state;
        if state.on_ring() && !next.carrier.is_ring() {
            state.skip = state.pos - next.start;
        }
        compiler_fence(Ordering::SeqCst);
        state.code = next.carrier.code();
        state.turn += u64::from((state.turn & 1 == 1) != next.carrier.is_ring());
        compiler_fence(Ordering::SeqCst);
        state.epoch += 1;
        if !self.peek {
            self.shared
                .consumer
                .epoch
                .store(self.state.epoch, Ordering::Release);
            self.publish_wish();
        }
    }

    /// Takes `n` ring bytes, which `look` has allowed, unless the sink fails; returns the slots
    /// of a sender that waits for space and must be rung.
    #[inline]
    pub fn pull(&mut self, n: u64, to: &mut dyn Sink) -> Slots {
        let Carrier::Ring(level) = self.state.carrier() else {
            return 0;
        };
        for (at, piece) in pieces(self.state.pos, n, LEVEL_SIZE[level as usize]) {
            if piece > 0 {
                self.memory.drain(level, at, piece, to);
            }
        }
        if to.has_failed() {
            return 0;
        }
        self.consumed(n)
    }

    /// The usual case of [`Self::look`] and [`Self::pull`]: up to `most` bytes that are in the ring,
    /// with no mark before them. `None` if it is another case; then nothing has happened.
    #[inline(always)]
    pub fn take<S: Sink>(&mut self, most: u64, to: &mut S) -> Option<(u64, Slots)> {
        let Carrier::Ring(level) = self.state.carrier() else {
            return None;
        };
        let tail = Tail::read(&self.shared.producer.tail).offset();
        if self.shared.producer.epoch.load(Ordering::Acquire) != self.state.epoch {
            return None;
        }
        let n = self.in_ring(level, tail).ok()?.min(most);
        if n == 0 {
            return None;
        }
        let [(at, first), (_, rest)] = pieces(self.state.pos, n, LEVEL_SIZE[level as usize]);
        if rest == 0 {
            self.memory.drain(level, at, n as usize, to);
        } else {
            self.memory.drain(level, at, first, to);
            self.memory.drain(level, 0, rest, to);
        }
        if to.has_failed() {
            return None;
        }
        Some((n, self.consumed(n)))
    }

    /// `n` bytes of the stream were read, from whichever carrier.
    #[inline(always)]
    pub fn consumed(&mut self, n: u64) -> Slots {
        let pos = self.state.pos + n;
        self.state.pos = pos;
        if self.peek {
            return 0;
        }
        publish(&self.shared.consumer.head, pos);
        self.shared.room.space.trip(pos)
    }

    /// The sender cannot write its mark here, and has said by the kernel where that goes on: it is
    /// written for it. The ring is read out first, and what it has of the kernel's bytes is skipped.
    pub fn mark_for_sender(&mut self, start: u64) {
        let mark = Mark {
            start,
            carrier: Carrier::Kernel,
        };
        let epoch = self.state.epoch + 1;
        self.shared.switch.marks[epoch as usize % MARKS].store(mark.pack(), Ordering::Relaxed);
        self.shared.producer.epoch.store(epoch, Ordering::Release);
    }

    /// `n` kernel bytes that had been read from the ring before were thrown away.
    pub fn skipped(&mut self, n: u64) {
        self.state.skip = self.state.skip.saturating_sub(n);
    }

    /// Wishes for a ring, or for the kernel; returns the slots of a sender that waits for space.
    ///
    /// The kernel carries again what lies behind the head at that time. A receiver that goes on looking may
    /// still read it from the ring; one that hands the kernel socket to a reader that knows no ring must stop.
    pub fn wish(&mut self, ring: bool) -> Slots {
        self.state.wants_ring = u64::from(ring);
        self.publish_wish();
        fence(Ordering::SeqCst);
        self.shared.room.space.trip_all()
    }

    /// The wish is a turn: the least one that is not behind the sender and has the right parity. So
    /// it only grows, and asking twice, or while the sender moves by itself, is harmless.
    pub(super) fn publish_wish(&mut self) {
        let least = self.state.wish.max(self.state.turn);
        let wish = least + u64::from(least & 1 != self.state.wants_ring);
        if wish != self.state.wish {
            self.state.wish = wish;
            self.shared.wait.wish.store(wish, Ordering::Release);
        }
    }

    /// The kernel's byte count has been taken over: shows it to the sender.
    pub fn publish_start(&mut self) {
        self.shared
            .consumer
            .head
            .store(self.state.pos, Ordering::Release);
    }

    /// Bytes that the current ring holds at most; 0 on the kernel.
    pub fn size(&self) -> u64 {
        match self.state.carrier() {
            Carrier::Kernel => 0,
            Carrier::Ring(level) => LEVEL_SIZE[level as usize],
        }
    }

    /// Asks to be rung at `slot` when the stream reaches `at`, or at any switch. The caller looks
    /// again before it sleeps.
    pub fn arm_data(&self, slot: usize, name: u32, at: u64) {
        self.shared.wait.data.arm(slot, name, at);
    }
}
