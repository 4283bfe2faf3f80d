//! Two real threads move a long stream through one direction while both ends change its carrier at
//! random; every byte is checked, every sleep is a real one, and a wake-up that does not come within
//! seconds is a lost one.
#![cfg(not(loom))]

mod support;

use netstack::ring::{Look, Receiver, RxState, Sender, Shared, Slots, TxState};
use std::collections::VecDeque;
use std::sync::{Condvar, Mutex};
use std::time::Duration;
use support::{Heap, MAPPED, stream};

const LARGEST: u8 = MAPPED as u8 - 1;
const TOTAL: u64 = if cfg!(debug_assertions) {
    300 << 20
} else {
    2000 << 20
};
const KERNEL_ROOM: usize = 100_000;
const LOST: Duration = Duration::from_secs(20);
const SENDER: usize = 0;
const RECEIVER: usize = 1;

/// xorshift, so that a run needs no other crate and repeats by its seed.
struct Dice(u64);

impl Dice {
    fn roll(&mut self, sides: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % sides
    }

    /// Often small, sometimes large.
    fn size(&mut self) -> u64 {
        let bits = 1 + self.roll(18);
        1 + self.roll(1 << bits)
    }
}

#[derive(Default)]
struct Kernel {
    queue: VecDeque<u8>,
    eof: bool,
    rung: [bool; 2],
}

struct Link {
    shared: Shared,
    memory: Heap,
    kernel: Mutex<Kernel>,
    changed: Condvar,
    /// A long piece of the stream; it repeats.
    bytes: Vec<u8>,
}

impl Link {
    fn new() -> Link {
        Link {
            shared: Shared::new(),
            memory: Heap::new(),
            kernel: Mutex::default(),
            changed: Condvar::new(),
            bytes: stream(0, 600_000),
        }
    }

    /// The stream from `position` on.
    fn at(&self, position: u64, len: u64) -> &[u8] {
        let from = (position % 251) as usize;
        &self.bytes[from..from + len as usize]
    }

    fn change<T>(&self, f: impl FnOnce(&mut Kernel) -> T) -> T {
        let result = f(&mut self.kernel.lock().unwrap());
        self.changed.notify_all();
        result
    }

    fn ring(&self, slots: Slots, who: usize) {
        if slots != 0 {
            self.change(|k| k.rung[who] = true);
        }
    }

    fn sleep(&self, who: usize, event: impl Fn(&Kernel) -> bool) {
        let guard = self.kernel.lock().unwrap();
        let asleep = |k: &mut Kernel| !k.rung[who] && !event(k);
        let (mut k, late) = self
            .changed
            .wait_timeout_while(guard, LOST, asleep)
            .unwrap();
        assert!(!late.timed_out(), "{who} was never woken");
        k.rung[who] = false;
    }
}

struct Writer<'a> {
    link: &'a Link,
    state: TxState,
    dice: Dice,
    /// Carriers entered and left.
    switches: u64,
}

impl<'a> Writer<'a> {
    fn sender(&mut self) -> Sender<'_, Heap> {
        Sender {
            shared: &self.link.shared,
            memory: &self.link.memory,
            state: &mut self.state,
        }
    }

    fn run(mut self) -> u64 {
        while self.state.written < TOTAL || self.state.must_resend() {
            let before = self.state.on_ring();
            let slots = self.switch();
            self.switches += u64::from(before != self.state.on_ring());
            self.link.ring(slots, RECEIVER);
            if self.state.on_ring() {
                self.push();
            } else {
                self.kernel_send();
            }
        }
        self.link.change(|k| k.eof = true);
        self.switches
    }

    /// Does what the receiver wishes, or leaves the ring for no reason.
    fn switch(&mut self) -> Slots {
        let roll = self.dice.roll(40);
        let mut s = self.sender();
        match (s.state.on_ring(), s.wishes_change()) {
            (true, true) => s.yield_ring().unwrap(),
            (false, true) => s.enter_ring().unwrap_or(0),
            (true, false) if roll == 0 => s.leave_ring(),
            (true, false) if roll == 1 => s.leave_with_poke(),
            (true, false) if roll < 10 => self.shrink(),
            _ => 0,
        }
    }

    /// To the smallest ring, if it can; the memory of the larger ones goes.
    fn shrink(&mut self) -> Slots {
        let slots = self.sender().shrink().unwrap();
        if slots.is_some() {
            self.link.memory.punch();
        }
        slots.unwrap_or(0)
    }

    fn push(&mut self) {
        let link = self.link;
        let len = self.dice.size().min(TOTAL - self.state.written);
        let mut from = link.at(self.state.written, len);
        if let Some(slots) = self.sender().put(len, &mut from, true) {
            return link.ring(slots, RECEIVER);
        }
        let n = self
            .sender()
            .push(len, &mut from, |slots| link.ring(slots, RECEIVER))
            .unwrap();
        if n < len {
            self.full();
        }
    }

    fn full(&mut self) {
        let link = self.link;
        let mut s = self.sender();
        if let Some(slots) = s.grow(LARGEST) {
            link.ring(slots, RECEIVER);
        } else if s.consumer_moved().unwrap() {
            s.arm_space(0, 1, 1);
            if s.free(1).unwrap() == 0 && !s.wishes_change() {
                link.sleep(SENDER, |_| false);
            }
        } else {
            link.ring(s.leave_ring(), RECEIVER);
        }
    }

    fn kernel_send(&mut self) {
        let len = self.dice.size().min(TOTAL - self.state.written);
        let mut again = vec![0; 70_000];
        let n = self.sender().resend(70_000, &mut &mut again[..]);
        let bytes = match n {
            0 => self.link.at(self.state.written, len),
            n => &again[..n as usize],
        };
        let taken = self.link.change(|k| {
            let taken = bytes.len().min(KERNEL_ROOM - k.queue.len());
            k.queue.extend(&bytes[..taken]);
            taken as u64
        });
        match n {
            0 => self.sender().sent_by_kernel(taken),
            _ => self.sender().resent(taken),
        }
        if taken == 0 && (n > 0 || len > 0) {
            self.link.sleep(SENDER, |k| k.queue.len() < KERNEL_ROOM);
        }
    }
}

struct Reader<'a> {
    link: &'a Link,
    state: RxState,
    dice: Dice,
    buffer: Vec<u8>,
}

impl<'a> Reader<'a> {
    fn receiver(&mut self) -> Receiver<'_, Heap> {
        Receiver {
            shared: &self.link.shared,
            memory: &self.link.memory,
            state: &mut self.state,
            peek: false,
        }
    }

    fn run(mut self) -> u64 {
        self.receiver().publish_start();
        loop {
            if self.dice.roll(30) == 0 {
                let ring = self.dice.roll(4) != 0;
                let slots = self.receiver().wish(ring);
                self.link.ring(slots, SENDER);
            }
            if self.read() {
                continue;
            }
            let at = self.state.pos + 1;
            self.receiver().arm_data(0, 1, at);
            let eof = self.link.kernel.lock().unwrap().eof;
            if self.read() {
                continue;
            }
            if eof {
                return self.state.pos;
            }
            self.link.sleep(RECEIVER, |k| !k.queue.is_empty() || k.eof);
        }
    }

    /// `false`: nothing there.
    fn read(&mut self) -> bool {
        let most = self.dice.size();
        if let Some(read) = self.read_at_once(most) {
            return read;
        }
        let queued = self.link.kernel.lock().unwrap().queue.len() as u64;
        match self.receiver().look().unwrap() {
            Look::Ring(n) => self.pull(n.min(most)),
            Look::Kernel { skip, limit } => self.take(skip.min(queued), limit.min(most), queued),
        }
    }

    fn read_at_once(&mut self, most: u64) -> Option<bool> {
        let from = self.state.pos;
        let mut buffer = std::mem::take(&mut self.buffer);
        let room = &mut buffer[..most as usize];
        let taken = self.receiver().take(most, &mut &mut room[..]);
        self.buffer = buffer;
        let (n, slots) = taken?;
        self.link.ring(slots, SENDER);
        Some(self.verify(from, n))
    }

    fn pull(&mut self, n: u64) -> bool {
        let from = self.state.pos;
        let mut buffer = std::mem::take(&mut self.buffer);
        let slots = self.receiver().pull(n, &mut &mut buffer[..n as usize]);
        self.buffer = buffer;
        self.link.ring(slots, SENDER);
        self.verify(from, n)
    }

    fn take(&mut self, thrown: u64, most: u64, queued: u64) -> bool {
        let from = self.state.pos;
        let n = most.min(queued - thrown);
        let buffer = &mut self.buffer;
        self.link.change(|k| {
            k.queue.drain(..thrown as usize);
            let bytes = k.queue.drain(..n as usize);
            buffer
                .iter_mut()
                .zip(bytes)
                .for_each(|(to, byte)| *to = byte);
        });
        self.receiver().skipped(thrown);
        let slots = self.receiver().consumed(n);
        self.link.ring(slots, SENDER);
        self.verify(from, n) || thrown > 0
    }

    fn verify(&self, from: u64, n: u64) -> bool {
        assert!(
            self.buffer[..n as usize] == *self.link.at(from, n),
            "wrong bytes from {from} on"
        );
        n > 0
    }
}

#[test]
fn a_long_stream_with_random_switches() {
    let link = Link::new();
    let (end, switches) = std::thread::scope(|scope| {
        let writer = Writer {
            link: &link,
            state: TxState::begin(0),
            dice: Dice(0x9e37_79b9_7f4a_7c15),
            switches: 0,
        };
        let reader = Reader {
            link: &link,
            state: RxState::begin(0),
            dice: Dice(0xd1b5_4a32_d192_ed03),
            buffer: vec![0; 1 << 19],
        };
        let writer = scope.spawn(move || writer.run());
        let reader = scope.spawn(move || reader.run());
        (reader.join().unwrap(), writer.join().unwrap())
    });
    assert_eq!(end, TOTAL);
    assert!(switches > 1000, "only {switches} switches");
    println!("{} MB, {switches} switches", end >> 20);
}
