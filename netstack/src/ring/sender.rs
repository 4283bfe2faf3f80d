//! The sending side of one direction.
//!
//! A `Sender` is put together for the length of one call, under the side lock, from what both ends
//! share and what this side alone knows. It moves bytes into the ring and decides nothing about
//! kernel calls: the caller makes those, and tells how many bytes the kernel took.

use super::Hostile;
use super::mark::{Carrier, LEVEL_SIZE, LEVELS, Mark};
use super::memory::{AHEAD, Memory, Sink, Source, pieces};
use super::shared::{MARKS, Shared};
use super::sync::{Ordering, compiler_fence, fence, publish};
use super::tripwire::Slots;

/// Published at once at most, so that the receiver copies while the sender still writes.
const CHUNK: u64 = 32 << 10;

/// What the sending side knows for itself, what every send needs first. In the socket record; all zero
/// is the beginning.
#[repr(C)]
#[derive(Clone, Default)]
pub struct TxState {
    /// Stream offset of the next byte to send.
    pub written: u64,
    /// The current carrier's code.
    code: u64,
    /// Changes between kernel and ring so far; odd is on a ring.
    turn: u64,
    /// The receiver's head when last looked at; it never goes back.
    head_seen: u64,
    /// Bytes that must go through the kernel again before anything else; they are in the old rings.
    resend_from: u64,
    resend_to: u64,
    /// Where each level's stretch began since the ring was entered; `u64::MAX`: not reached.
    starts: [u64; LEVELS],
    /// Marks published.
    epoch: u64,
    /// The head when the ring was entered or last found full: has the consumer moved since?
    full_at: u64,
}

pub struct Sender<'a, M: Memory> {
    pub shared: &'a Shared,
    pub memory: &'a M,
    pub state: &'a mut TxState,
}

impl TxState {
    /// The kernel's own count, once nobody is inside the gate.
    pub fn begin(written: u64) -> TxState {
        TxState {
            written,
            head_seen: 0,
            ..TxState::default()
        }
    }

    /// Onto the ring of `level` at once, which an engine empties from this byte on.
    pub fn begin_on_ring(written: u64, level: u8) -> TxState {
        let mut state = TxState {
            written,
            turn: 1,
            code: Carrier::Ring(level).code(),
            head_seen: written,
            starts: [u64::MAX; LEVELS],
            full_at: written,
            ..TxState::default()
        };
        // Nothing is in the smaller ones.
        state.starts[..=level as usize].fill(written);
        state
    }

    #[inline]
    pub fn carrier(&self) -> Carrier {
        Carrier::from_code(self.code).unwrap_or(Carrier::Kernel)
    }

    pub fn on_ring(&self) -> bool {
        self.code != 0
    }

    #[inline]
    pub fn must_resend(&self) -> bool {
        self.left_to_resend() > 0
    }

    /// The receiver has said that it has everything up to `offset`: that need not go again. The first
    /// byte that goes.
    pub fn resend_after(&mut self, offset: u64) -> u64 {
        self.resend_from = self.resend_from.max(offset).min(self.resend_to);
        self.resend_from
    }

    /// Bytes that must go through the kernel again.
    #[inline]
    pub fn left_to_resend(&self) -> u64 {
        self.resend_to.saturating_sub(self.resend_from)
    }

    /// Where the current stretch began.
    fn start(&self) -> u64 {
        match self.carrier() {
            Carrier::Kernel => self.written,
            Carrier::Ring(level) => self.starts[level as usize],
        }
    }

    /// Follows a mark that has been published. Done again after a death in the middle, this has the
    /// same result: the epoch comes last.
    fn follow(&mut self, mark: Mark) {
        match mark.carrier {
            Carrier::Kernel if self.on_ring() => {
                self.resend_from = mark.start;
                self.resend_to = self.written;
            }
            Carrier::Kernel => {}
            Carrier::Ring(level) => {
                self.starts[level as usize..].fill(u64::MAX);
                self.starts[level as usize] = mark.start;
            }
        }
        compiler_fence(Ordering::SeqCst);
        self.code = mark.carrier.code();
        self.turn += u64::from((self.turn & 1 == 1) != mark.carrier.is_ring());
        compiler_fence(Ordering::SeqCst);
        self.epoch += 1;
    }

    /// The ring level that holds the byte at `offset`, and where its stretch ends.
    fn place(&self, offset: u64) -> Option<(u8, u64)> {
        let level = self.starts.iter().rposition(|&start| start <= offset)?;
        let end = self.starts.get(level + 1).unwrap_or(&u64::MAX);
        Some((level as u8, *end))
    }
}

impl<M: Memory> Sender<'_, M> {
    pub fn size(&self) -> u64 {
        match self.state.carrier() {
            Carrier::Kernel => 0,
            Carrier::Ring(level) => LEVEL_SIZE[level as usize],
        }
    }

    /// The current ring's level; 0 on the kernel too.
    pub fn level(&self) -> u8 {
        match self.state.carrier() {
            Carrier::Kernel => 0,
            Carrier::Ring(level) => level,
        }
    }

    /// Does the receiver wish for the other kind of carrier?
    #[inline]
    pub fn wishes_change(&self) -> bool {
        let wish = self.shared.wait.wish.load(Ordering::Acquire);
        wish > self.state.turn && (wish ^ self.state.turn) & 1 == 1
    }

    /// Copies the receiver's head once and checks it.
    fn look_at_head(&mut self) -> Result<u64, Hostile> {
        let head = self.shared.consumer.head.load(Ordering::Acquire);
        if head < self.state.head_seen || head > self.state.written {
            return Err(Hostile);
        }
        self.state.head_seen = head;
        Ok(head)
    }

    /// Bytes in the rings that the receiver has not read.
    pub fn unread(&mut self) -> Result<u64, Hostile> {
        Ok(self.state.written - self.look_at_head()?)
    }

    fn free_behind(&self, head: u64) -> u64 {
        let used = self.state.written - head.max(self.state.start()).min(self.state.written);
        self.size().saturating_sub(used)
    }

    /// Free bytes in the ring, at least `want` if there are that many: looks at the receiver's line
    /// only when what it knows already is not enough.
    #[inline]
    pub fn free(&mut self, want: u64) -> Result<u64, Hostile> {
        let known = self.free_behind(self.state.head_seen);
        if known >= want {
            return Ok(known);
        }
        let head = self.look_at_head()?;
        Ok(self.free_behind(head))
    }

    /// The ring is full: has the consumer read anything since it was last full (at whichever level)
    /// or entered?
    pub fn consumer_moved(&mut self) -> Result<bool, Hostile> {
        let head = self.look_at_head()?;
        Ok(core::mem::replace(&mut self.state.full_at, head) != head)
    }

    /// Moves up to `len` bytes into the ring as far as there is room; `ring` rings waiters.
    pub fn push(
        &mut self,
        len: u64,
        from: &mut dyn Source,
        mut ring: impl FnMut(Slots),
    ) -> Result<u64, Hostile> {
        let Carrier::Ring(level) = self.state.carrier() else {
            return Ok(0);
        };
        let todo = len.min(self.free(len)?);
        let mut done = 0;
        while done < todo {
            let want = (todo - done).min(CHUNK);
            let got = self.copy_in(level, want, from);
            if from.has_failed() {
                break;
            }
            done += got;
            if got > 0 {
                ring(self.publish_tail(got));
            }
            if got < want {
                break;
            }
        }
        Ok(done)
    }

    /// The usual case of [`Self::push`]: in one piece, with room that is known of, from a source that
    /// has it all. `None` if it is another case; then nothing has happened. With `more` to come soon,
    /// the memory for it is fetched.
    #[inline(always)]
    pub fn put<S: Source>(&mut self, len: u64, from: &mut S, more: bool) -> Option<Slots> {
        let Carrier::Ring(level) = self.state.carrier() else {
            return None;
        };
        let (size, written) = (LEVEL_SIZE[level as usize], self.state.written);
        let begin = self.state.head_seen.max(self.state.starts[level as usize]);
        let at = written & (size - 1);
        // The ring holds what lies between `begin` and the new tail; if it could not, nonsense is more.
        let held = (written + len).wrapping_sub(begin);
        if len > size - at || held > size || self.state.must_resend() {
            return None;
        }
        let next = (at + len) as usize;
        if more && next + AHEAD <= size as usize {
            self.memory.fetch(level, next);
        }
        self.memory.fill(level, at as usize, len as usize, from);
        if from.has_failed() {
            return None;
        }
        Some(self.publish_tail(len))
    }

    /// Before a [`Self::put`], if other things come first.
    #[inline(always)]
    pub fn fetch(&self) {
        if let Carrier::Ring(level) = self.state.carrier() {
            let at = self.state.written & (LEVEL_SIZE[level as usize] - 1);
            self.memory.fetch_here(level, at as usize);
        }
    }

    fn copy_in(&self, level: u8, len: u64, from: &mut dyn Source) -> u64 {
        let mut done = 0;
        for (at, piece) in pieces(self.state.written, len, self.size()) {
            let got = if piece == 0 {
                0
            } else {
                self.memory.fill(level, at, piece, from)
            };
            done += got as u64;
            if got < piece {
                break;
            }
        }
        done
    }

    #[inline(always)]
    fn publish_tail(&mut self, n: u64) -> Slots {
        let tail = self.state.written + n;
        publish(&self.shared.producer.tail, tail);
        self.state.written = tail;
        self.shared.wait.data.trip(tail)
    }

    /// The kernel took `n` bytes that [`Self::resend`] did not offer.
    pub fn sent_by_kernel(&mut self, n: u64) {
        self.state.written += n;
    }

    /// All marks consumed: nothing of an earlier ring stretch is still unread.
    pub fn settled(&self) -> bool {
        self.shared.consumer.epoch.load(Ordering::Acquire) == self.state.epoch
    }

    /// From the kernel onto a ring, if the receiver wishes it and has caught up with all marks.
    /// The caller has made sure that no kernel send is under way and none of its bytes is held back.
    pub fn enter_ring(&mut self) -> Option<Slots> {
        if self.state.on_ring()
            || self.state.must_resend()
            || !self.wishes_change()
            || !self.settled()
        {
            return None;
        }
        self.shared
            .producer
            .tail
            .store(self.state.written, Ordering::Relaxed);
        // A guess at progress, so it is not checked.
        self.state.full_at = self.shared.consumer.head.load(Ordering::Relaxed);
        Some(self.publish_mark(self.state.written, Carrier::Ring(0)))
    }

    /// To the next larger ring, from the next byte on; `None` at `largest` or with too many marks out.
    pub fn grow(&mut self, largest: u8) -> Option<Slots> {
        let Carrier::Ring(level) = self.state.carrier() else {
            return None;
        };
        let next = level + 1;
        let consumed = self.shared.consumer.epoch.load(Ordering::Acquire);
        let out = self.state.epoch.saturating_sub(consumed);
        // One mark must stay free for leaving.
        if next > largest || next as usize >= LEVELS || out >= MARKS as u64 - 2 {
            return None;
        }
        Some(self.publish_mark(self.state.written, Carrier::Ring(next)))
    }

    /// From a larger ring to the smallest, from the next byte on, if everything has been read: then
    /// nobody looks at the larger ones before the next growth, and their memory is the caller's.
    pub fn shrink(&mut self) -> Result<Option<Slots>, Hostile> {
        let large = matches!(self.state.carrier(), Carrier::Ring(1..));
        if !large || !self.settled() || self.look_at_head()? < self.state.written {
            return Ok(None);
        }
        let (start, carrier) = (self.state.written, Carrier::Ring(0));
        Ok(Some(self.publish_mark(start, carrier)))
    }

    /// Not on a larger ring, and nothing is left in one: as after [`Self::shrink`].
    pub fn has_left_larger_rings(&self) -> bool {
        self.level() == 0 && !self.state.must_resend() && self.settled()
    }

    /// Back to the kernel from the next byte on; the receiver reads the rest of the ring first.
    pub fn leave_ring(&mut self) -> Slots {
        if !self.state.on_ring() {
            return 0;
        }
        self.publish_mark(self.state.written, Carrier::Kernel)
    }

    /// Back to the kernel because the receiver wishes it: what it had not read goes through the
    /// kernel again, from all levels of the ring.
    pub fn yield_ring(&mut self) -> Result<Slots, Hostile> {
        let head = self.look_at_head()?;
        Ok(self.leave_with_resend(head))
    }

    /// Back to the kernel with the last byte sent again through it: wakes a receiver whose doorbell
    /// we do not have, for it always listens to its kernel socket too. One that has read everything
    /// needs no waking, and may have handed the socket to a reader that would take the byte for new.
    pub fn leave_with_poke(&mut self) -> Slots {
        let last = self.state.written.saturating_sub(1);
        let read = self.shared.consumer.head.load(Ordering::Acquire);
        self.leave_with_resend(read.clamp(last, self.state.written))
    }

    fn leave_with_resend(&mut self, from: u64) -> Slots {
        if !self.state.on_ring() {
            return 0;
        }
        self.publish_mark(from.max(self.state.starts[0]), Carrier::Kernel)
    }

    /// Publishes first and follows then: a holder that takes over from a dead one finds either no mark
    /// or one that is to be followed.
    fn publish_mark(&mut self, start: u64, carrier: Carrier) -> Slots {
        let mark = Mark { start, carrier };
        let epoch = self.state.epoch + 1;
        let slot = &self.shared.switch.marks[epoch as usize % MARKS];
        slot.store(mark.pack(), Ordering::Relaxed);
        self.shared.producer.epoch.store(epoch, Ordering::Release);
        fence(Ordering::SeqCst);
        self.state.follow(mark);
        self.shared.wait.data.trip_all()
    }

    /// Bytes that must go through the kernel before any new one: copies up to `len` of them out of
    /// the old rings and says how many. [`Self::resent`] takes off what the kernel accepted.
    pub fn resend(&self, len: u64, to: &mut dyn Sink) -> u64 {
        let begin = self.state.resend_from;
        let end = begin.saturating_add(len).min(self.state.resend_to);
        let mut from = begin;
        while from < end {
            let Some((level, edge)) = self.state.place(from) else {
                break;
            };
            let size = LEVEL_SIZE[level as usize];
            let n = (end.min(edge) - from).min(size);
            for (at, piece) in pieces(from, n, size) {
                if piece > 0 {
                    self.memory.drain(level, at, piece, to);
                }
            }
            from += n;
        }
        from - begin
    }

    pub fn resent(&mut self, n: u64) {
        self.state.resend_from = (self.state.resend_from + n).min(self.state.resend_to);
    }

    /// Asks to be rung at `slot` when `want` bytes are free (or the ring is empty, if it is smaller).
    /// The caller looks again before it sleeps.
    pub fn arm_space(&mut self, slot: usize, name: u32, want: u64) {
        let want = want.clamp(1, self.size().max(1));
        let begin = (self.state.written + want).saturating_sub(self.size());
        self.shared
            .room
            .space
            .arm(slot, name, begin.max(self.state.start()));
    }

    /// After taking the lock over from a dead holder: what it published is what counts. `false`:
    /// still on the ring, the peer wrote nonsense; on the kernel, the holder may have died between a
    /// kernel call and its count, so this direction stays there (and cannot go on at all if it
    /// [`TxState::must_resend`]). The dead holder may also have tripped slots and not rung them: the
    /// caller rings [`super::tripwire::ALL`].
    pub fn recover(&mut self) -> bool {
        if self.state.on_ring() && !self.recover_tail() {
            return false;
        }
        let epoch = self.shared.producer.epoch.load(Ordering::Acquire);
        match epoch.wrapping_sub(self.state.epoch) {
            0 => self.state.on_ring(),
            1 => self.recover_mark(epoch),
            _ => false,
        }
    }

    fn recover_tail(&mut self) -> bool {
        let tail = self.shared.producer.tail.load(Ordering::Acquire);
        let ahead = tail.wrapping_sub(self.state.written);
        if ahead > self.free_behind(self.state.head_seen) {
            return false;
        }
        self.state.written = tail;
        true
    }

    /// A mark was published and not followed.
    fn recover_mark(&mut self, epoch: u64) -> bool {
        let word = self.shared.switch.marks[epoch as usize % MARKS].load(Ordering::Relaxed);
        match Mark::unpack(word) {
            Some(mark) if self.could_be_ours(mark) => {
                self.state.follow(mark);
                true
            }
            _ => false,
        }
    }

    fn could_be_ours(&self, mark: Mark) -> bool {
        match mark.carrier {
            Carrier::Kernel => {
                // A poke repeats one byte that may have been read.
                let unread = self.state.head_seen.saturating_sub(1);
                let oldest = unread.max(self.state.starts[0]);
                (oldest..=self.state.written).contains(&mark.start)
            }
            // To the next level, or back to the smallest; or to this one, if it died while it followed.
            Carrier::Ring(level) => {
                let up = mark.carrier.code().wrapping_sub(self.state.code);
                mark.start == self.state.written && (up <= 1 || level == 0)
            }
        }
    }
}
