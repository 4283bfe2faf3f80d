//! One stream direction as the sockets layer drives it: the same steps in the same order.

use super::kernel::{Kernel, Queued};
use super::memory::{Check, Collect, Pattern, Rings, byte_at};
use loom::cell::UnsafeCell;
use loom::sync::atomic::{AtomicU32, Ordering};
use netstack::ring::{Gate, Look, Receiver, RxState, Sender, Shared, SideLock, Slots, TxState};

/// One side's lock, and what it guards.
pub struct Side<S> {
    lock: SideLock,
    state: UnsafeCell<S>,
    /// The thread that died last, plus one.
    dead: AtomicU32,
    pub gate: Gate,
}

impl<S> Side<S> {
    fn new(state: S) -> Side<S> {
        Side {
            lock: SideLock::new(),
            state: UnsafeCell::new(state),
            dead: AtomicU32::new(0),
            gate: Gate::new(),
        }
    }

    /// `true`: taken over from a dead holder.
    fn lock(&self, me: usize) -> bool {
        let me = me as u32 + 1;
        loop {
            match self.lock.try_lock(me) {
                Ok(()) => return false,
                Err(owner) if self.dead.load(Ordering::Acquire) == owner => {
                    if self.lock.take_over(owner, me) {
                        return true;
                    }
                }
                Err(_) => loom::thread::yield_now(),
            }
        }
    }

    fn die(&self, me: usize) {
        self.dead.store(me as u32 + 1, Ordering::Release);
    }
}

/// What a locked step of a sender leads to.
enum Sent {
    All,
    More,
    WaitForSpace,
    WaitForKernel,
}

/// What a locked step of a receiver leads to.
#[derive(PartialEq)]
pub enum Received {
    Some,
    Nothing,
    Eof,
}

pub struct World {
    pub shared: Shared,
    pub memory: Rings,
    pub kernel: Kernel,
    pub tx: Side<TxState>,
    pub rx: Side<RxState>,
    largest: u8,
    /// A receiver's bell that the sender has not: it must poke.
    no_bells: bool,
}

impl World {
    /// Both sides are established at `begin`, on the kernel, with nothing granted.
    pub fn new(largest: u8, room: usize, begin: u64) -> World {
        let world = World {
            shared: Shared::new(),
            memory: Rings::new(largest),
            kernel: Kernel::new(room, begin),
            tx: Side::new(TxState::begin(begin)),
            rx: Side::new(RxState::begin(begin)),
            largest,
            no_bells: false,
        };
        world.receiver(0, |r| r.publish_start());
        world
    }

    /// Already on the ring.
    pub fn on_ring(largest: u8, room: usize, begin: u64) -> World {
        let world = World::new(largest, room, begin);
        world.wish(0, true);
        world.sender(0, |s| s.enter_ring().unwrap());
        world.receiver(0, |r| r.look().unwrap());
        world
    }

    pub fn without_bells(self) -> World {
        World {
            no_bells: true,
            ..self
        }
    }

    /// A step of the sending side, under its lock.
    pub fn sender<T>(&self, me: usize, f: impl FnOnce(&mut Sender<Rings>) -> T) -> T {
        let took_over = self.tx.lock(me);
        let result = self.sender_locked(|s| {
            if took_over {
                s.recover();
            }
            f(s)
        });
        if took_over {
            self.ring_data(netstack::ring::tripwire::ALL);
        }
        self.tx.lock.unlock();
        result
    }

    fn sender_locked<T>(&self, f: impl FnOnce(&mut Sender<Rings>) -> T) -> T {
        self.tx.state.with_mut(|state| {
            f(&mut Sender {
                shared: &self.shared,
                memory: &self.memory,
                // SAFETY: the lock is held; loom reports it if another thread is inside.
                state: unsafe { &mut *state },
            })
        })
    }

    /// A step of the receiving side, under its lock.
    pub fn receiver<T>(&self, me: usize, f: impl FnOnce(&mut Receiver<Rings>) -> T) -> T {
        let took_over = self.rx.lock(me);
        let result = self.receiver_locked(f);
        if took_over {
            self.ring_space(netstack::ring::tripwire::ALL);
        }
        self.rx.lock.unlock();
        result
    }

    fn receiver_locked<T>(&self, f: impl FnOnce(&mut Receiver<Rings>) -> T) -> T {
        self.rx.state.with_mut(|state| {
            f(&mut Receiver {
                shared: &self.shared,
                memory: &self.memory,
                // SAFETY: as in `sender_locked`.
                state: unsafe { &mut *state },
                peek: false,
            })
        })
    }

    fn ring(&self, slots: Slots, name: impl Fn(usize) -> u32) {
        for slot in (0..8).filter(|slot| slots & 1 << slot != 0) {
            if let Some(bell) = name(slot).checked_sub(1) {
                self.kernel.ring(bell as usize);
            }
        }
    }

    /// Rings receivers; `false`: they have bells that we do not have.
    pub fn ring_data(&self, slots: Slots) -> bool {
        if self.no_bells {
            return slots == 0;
        }
        self.ring(slots, |slot| self.shared.wait.data.name(slot));
        true
    }

    pub fn ring_space(&self, slots: Slots) {
        self.ring(slots, |slot| self.shared.room.space.name(slot));
    }

    pub fn wish(&self, me: usize, ring: bool) {
        let slots = self.receiver(me, |r| r.wish(ring));
        self.ring_space(slots);
    }

    /// Sends the bytes of the stream up to `end`, with all means.
    pub fn send_until(&self, me: usize, end: u64) {
        loop {
            match self.sender(me, |s| self.send_step(s, me, end)) {
                Sent::All => return,
                Sent::More => {}
                Sent::WaitForSpace => self.kernel.sleep_until_reset(me),
                Sent::WaitForKernel => self.kernel.sleep_until_writable(me),
            }
        }
    }

    fn send_step(&self, s: &mut Sender<Rings>, me: usize, end: u64) -> Sent {
        if s.state.written >= end && !s.state.must_resend() {
            return Sent::All;
        }
        if self.kernel.is_reset() {
            s.state.written = end;
            return Sent::All;
        }
        self.follow_wish(s);
        if s.state.on_ring() {
            self.push_step(s, me, end)
        } else {
            self.kernel_step(s, end)
        }
    }

    /// Does what the receiver wishes, if it can be done now.
    pub fn follow_wish(&self, s: &mut Sender<Rings>) {
        if !s.wishes_change() {
            return;
        }
        let slots = if s.state.on_ring() {
            s.yield_ring().unwrap()
        } else {
            s.enter_ring().unwrap_or(0)
        };
        self.ring_data(slots);
    }

    fn push_step(&self, s: &mut Sender<Rings>, me: usize, end: u64) -> Sent {
        if self.push(s, end) > 0 {
            // Once more after publishing: a receiver that asked for the kernel at this very moment
            // may listen to nothing else.
            self.follow_wish(s);
            return Sent::More;
        }
        if let Some(slots) = s.grow(self.largest) {
            self.ring_data(slots);
        } else if s.consumer_moved().unwrap() {
            s.arm_space(me, me as u32 + 1, 1);
            if s.free(1).unwrap() == 0 && !s.wishes_change() {
                return Sent::WaitForSpace;
            }
        } else {
            let slots = s.leave_ring();
            self.ring_data(slots);
        }
        Sent::More
    }

    /// Pushes up to `end`; pokes if it cannot ring.
    pub fn push(&self, s: &mut Sender<Rings>, end: u64) -> u64 {
        let mut heard = true;
        let begin = s.state.written;
        let mut from = Pattern(begin);
        let n = s
            .push(end.saturating_sub(begin), &mut from, |slots| {
                heard &= self.ring_data(slots)
            })
            .unwrap();
        if !heard {
            s.leave_with_poke();
        }
        n
    }

    /// After a burst: to the smallest ring, if everything has been read.
    pub fn shrink(&self, me: usize) {
        self.sender(me, |s| {
            let slots = s.shrink().unwrap();
            if slots.is_some() || s.has_left_larger_rings() {
                self.memory.punch();
            }
            self.ring_data(slots.unwrap_or(0));
        });
    }

    fn kernel_step(&self, s: &mut Sender<Rings>, end: u64) -> Sent {
        if s.state.must_resend() {
            return self.resend_step(s);
        }
        let bytes: Vec<u8> = (s.state.written..end).map(byte_at).collect();
        let n = self.kernel.send(&bytes);
        s.sent_by_kernel(n);
        if n == 0 {
            return Sent::WaitForKernel;
        }
        Sent::More
    }

    fn resend_step(&self, s: &mut Sender<Rings>) -> Sent {
        let mut again = Collect(Vec::new());
        s.resend(u64::MAX, &mut again);
        let n = self.kernel.send(&again.0);
        s.resent(n);
        if n == 0 {
            return Sent::WaitForKernel;
        }
        Sent::More
    }

    /// Receives up to `most` bytes at a time until `end` or the end of the stream; says where it is.
    pub fn recv_until(&self, me: usize, most: u64, end: u64) -> u64 {
        loop {
            match self.receiver(me, |r| self.recv_armed(r, me, most, end)) {
                Received::Some => {}
                Received::Eof => return self.receiver(me, |r| r.state.pos),
                Received::Nothing => {
                    let bell = (!self.no_bells).then_some(me);
                    self.kernel.sleep_until_readable(bell);
                }
            }
        }
    }

    /// Receives without a bell: asks for the kernel, looks again, and then listens to nothing else.
    pub fn recv_by_kernel(&self, me: usize, end: u64) {
        loop {
            match self.receiver(me, |r| self.recv_wishing(r, end)) {
                Received::Some => {}
                Received::Eof => return,
                Received::Nothing => self.kernel.sleep_until_readable(None),
            }
        }
    }

    fn recv_wishing(&self, r: &mut Receiver<Rings>, end: u64) -> Received {
        if r.state.pos >= end {
            return Received::Eof;
        }
        match self.recv_step(r, u64::MAX) {
            Received::Nothing => {}
            other => return other,
        }
        let slots = r.wish(false);
        self.ring_space(slots);
        self.recv_step(r, u64::MAX)
    }

    /// [`Self::recv_until`] for a caller to which it does not matter where it ends.
    pub fn read(&self, me: usize, most: u64, end: u64) {
        let _position = self.recv_until(me, most, end);
    }

    fn recv_armed(&self, r: &mut Receiver<Rings>, me: usize, most: u64, end: u64) -> Received {
        if r.state.pos >= end {
            return Received::Eof;
        }
        match self.recv_step(r, most) {
            Received::Nothing => {}
            other => return other,
        }
        r.arm_data(me, me as u32 + 1, r.state.pos + 1);
        self.recv_step(r, most)
    }

    /// One look and what follows from it.
    pub fn recv_step(&self, r: &mut Receiver<Rings>, most: u64) -> Received {
        let queued = self.kernel.queued();
        match r.look().unwrap() {
            Look::Ring(n) if n > 0 => {
                let slots = r.pull(n.min(most), &mut Check(r.state.pos));
                self.ring_space(slots);
                Received::Some
            }
            Look::Ring(_) if queued.eof => {
                assert_eq!(queued.bytes, 0);
                Received::Eof
            }
            Look::Ring(_) => Received::Nothing,
            Look::Kernel { .. } if r.stays_on_kernel() => self.take_all_from_kernel(r, most),
            Look::Kernel { skip, limit } => self.take_from_kernel(r, queued, skip, limit.min(most)),
        }
    }

    /// Whatever has come to the kernel by now.
    fn take_all_from_kernel(&self, r: &mut Receiver<Rings>, most: u64) -> Received {
        let bytes = self.kernel.recv(most);
        let mut check = Check(r.state.pos);
        bytes.iter().for_each(|byte| check.byte(*byte));
        if !bytes.is_empty() {
            let slots = r.consumed(bytes.len() as u64);
            self.ring_space(slots);
            return Received::Some;
        }
        match self.kernel.queued() {
            Queued {
                bytes: 0,
                eof: true,
            } => Received::Eof,
            _ => Received::Nothing,
        }
    }

    fn take_from_kernel(
        &self,
        r: &mut Receiver<Rings>,
        queued: Queued,
        skip: u64,
        most: u64,
    ) -> Received {
        if queued.bytes == 0 && queued.eof {
            return Received::Eof;
        }
        let thrown = self.kernel.recv(skip.min(queued.bytes)).len() as u64;
        r.skipped(thrown);
        let bytes = self.kernel.recv(most.min(queued.bytes - thrown));
        let mut check = Check(r.state.pos);
        bytes.iter().for_each(|byte| check.byte(*byte));
        if !bytes.is_empty() {
            let slots = r.consumed(bytes.len() as u64);
            self.ring_space(slots);
        }
        if thrown > 0 || !bytes.is_empty() {
            return Received::Some;
        }
        Received::Nothing
    }

    /// A sender that takes the lock and never gives it back.
    pub fn die_as_sender(&self, me: usize, f: impl FnOnce(&mut Sender<Rings>)) {
        self.tx.lock(me);
        self.sender_locked(f);
        self.tx.die(me);
    }

    /// A receiver that takes the lock and never gives it back.
    pub fn die_as_receiver(&self, me: usize, f: impl FnOnce(&mut Receiver<Rings>)) {
        self.rx.lock(me);
        self.receiver_locked(f);
        self.rx.die(me);
    }
}
