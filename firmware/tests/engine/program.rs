//! A program with one connection: its segment, on the heap, and its two streams, each byte of which
//! depends on its place.

use std::rc::Rc;

use firmware::{Half, Segment};
use netstack::ring::mark::LEVEL_SIZE;
use netstack::ring::sync::Ordering;
use netstack::ring::{Look, Memory, Receiver, RxState, Sender, Shared, Slots, Tail, TxState};

use crate::support::{Heap, stream};

/// What a segment is, without its sharing.
#[derive(Default)]
struct Rings {
    sending: Shared,
    receiving: Shared,
}

/// A segment that the engine and its program hold.
#[derive(Clone)]
pub struct Shm {
    rings: Rc<Rings>,
    memory: Rc<[Heap; 2]>,
    level: u8,
}

impl std::fmt::Debug for Shm {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "segment of level {}", self.level)
    }
}

impl Shm {
    pub fn new(level: u8, send_from: u64, receive_from: u64) -> Shm {
        let segment = Shm {
            rings: Rc::default(),
            memory: Rc::new([Heap::new(), Heap::new()]),
            level,
        };
        firmware::lay_out(&segment, send_from, receive_from);
        segment
    }
}

/// For programs that use the rings without the sockets layer's rules.
impl Shm {
    fn size(&self) -> u64 {
        LEVEL_SIZE[usize::from(self.level)]
    }

    /// Copies bytes out of a ring, one place after the other.
    fn copy(&self, memory: &Heap, from: u64, count: u64) -> Vec<u8> {
        let mut bytes = vec![0; count as usize];
        for (at, byte) in (from..).zip(bytes.chunks_mut(1)) {
            let mut byte = byte;
            memory.drain(self.level, (at % self.size()) as usize, 1, &mut byte);
        }
        bytes
    }

    pub fn read_received(&self, from: u64, count: u64) -> Vec<u8> {
        self.copy(&self.memory[1], from, count)
    }

    pub fn read_sending(&self, from: u64, count: u64) -> Vec<u8> {
        self.copy(&self.memory[0], from, count)
    }

    /// As many as there is room for, behind what is there.
    pub fn write_sending(&self, from: u64, bytes: &[u8]) -> u64 {
        let shared = &self.rings.sending;
        let freed = shared.consumer.head.load(Ordering::Acquire);
        let count = (freed + self.size() - from).min(bytes.len() as u64);
        for (at, byte) in (from..from + count).zip(bytes.chunks(1)) {
            let mut byte = byte;
            self.memory[0].fill(self.level, (at % self.size()) as usize, 1, &mut byte);
        }
        shared.producer.tail.store(from + count, Ordering::SeqCst);
        count
    }
}

impl Segment for Shm {
    type Memory = Heap;

    fn level(&self) -> u8 {
        self.level
    }

    fn sending(&self) -> Half<'_, Heap> {
        Half {
            shared: &self.rings.sending,
            memory: &self.memory[0],
        }
    }

    fn receiving(&self) -> Half<'_, Heap> {
        Half {
            shared: &self.rings.receiving,
            memory: &self.memory[1],
        }
    }
}

/// The slot at which the program waits, in both directions, and the bell that hangs there.
pub const SLOT: usize = 3;
pub const BELL: u32 = 7;

/// What a program does: it writes up to an offset in messages of some size, ends its stream, and reads
/// until the other's end.
pub struct Program {
    pub segment: Shm,
    tx: TxState,
    rx: RxState,
    /// Write up to here, then end the stream; `None`: do not write now.
    pub write_to: Option<u64>,
    pub message: u64,
    /// Bytes read at a time.
    pub gulp: u64,
    /// It does not read now.
    pub is_lazy: bool,
    pub is_awake: bool,
    pub closed: bool,
    /// It saw the end of what it reads.
    pub ended: bool,
}

impl Program {
    pub fn new(segment: Shm, send_from: u64, receive_from: u64) -> Program {
        Program {
            tx: TxState::begin_on_ring(send_from, segment.level),
            rx: RxState::begin_on_ring(receive_from, segment.level),
            segment,
            write_to: None,
            message: 1000,
            gulp: 4096,
            is_lazy: false,
            is_awake: true,
            closed: false,
            ended: false,
        }
    }

    pub fn written(&self) -> u64 {
        self.tx.written
    }

    pub fn read(&self) -> u64 {
        self.rx.pos
    }

    pub fn is_done(&self) -> bool {
        self.closed && self.ended
    }

    /// Runs until it has to wait. Returns whether its engine has to be rung.
    pub fn run(&mut self) -> bool {
        let mut rang = 0;
        loop {
            let (written, read) = (self.write(&mut rang), self.read_on(&mut rang));
            if !written && !read && self.sleeps() {
                break;
            }
        }
        self.is_awake = false;
        rang != 0
    }

    /// The wires are armed; `true` if there is nothing to do even now.
    fn sleeps(&mut self) -> bool {
        let mut sender = sender(&self.segment, &mut self.tx);
        let has_room = sender.free(1).expect("an honest engine") > 0;
        let wants_room = self.write_to.is_some_and(|end| sender.state.written < end);
        sender.arm_space(SLOT, BELL, 1);
        let room = wants_room && (has_room || sender.free(1).expect("an honest engine") > 0);
        let next = self.rx.pos + 1;
        receiver(&self.segment, &mut self.rx).arm_data(SLOT, BELL, next);
        let news = !self.is_lazy && !self.ended && (self.there() > 0 || self.sees_end());
        !room && !news
    }

    /// Rung by its engine at these slots.
    pub fn wake(&mut self, slots: Slots) {
        assert_eq!(slots, 1 << SLOT);
        self.is_awake = true;
    }

    fn write(&mut self, rang: &mut Slots) -> bool {
        let Some(end) = self.write_to else {
            return false;
        };
        let mut sender = sender(&self.segment, &mut self.tx);
        let from = sender.state.written;
        let length = self.message.min(end - from);
        let bytes = stream(from, length);
        let pushed = sender
            .push(length, &mut &bytes[..], |slots| *rang |= slots)
            .expect("an honest engine");
        if from + pushed == end && !self.closed {
            let shared = self.segment.sending().shared;
            shared.producer.closed.store(1, Ordering::SeqCst);
            *rang |= shared.wait.data.trip_all();
            self.closed = true;
            return true;
        }
        pushed > 0
    }

    /// Bytes that are there to be read.
    fn there(&mut self) -> u64 {
        match receiver(&self.segment, &mut self.rx).look() {
            Ok(Look::Ring(count)) => count,
            other => panic!("an engine's ring gave {other:?}"),
        }
    }

    fn sees_end(&self) -> bool {
        let tail = Tail::read(&self.segment.receiving().shared.producer.tail);
        tail.has_ended() && tail.offset() == self.rx.pos
    }

    fn read_on(&mut self, rang: &mut Slots) -> bool {
        if self.is_lazy || self.ended {
            return false;
        }
        let (from, count) = (self.rx.pos, self.there().min(self.gulp));
        let mut bytes = vec![0; count as usize];
        *rang |= receiver(&self.segment, &mut self.rx).pull(count, &mut &mut bytes[..]);
        assert!(bytes == stream(from, count), "{count} bytes at {from}");
        self.ended = self.sees_end();
        count > 0 || self.ended
    }
}

fn sender<'a>(segment: &'a Shm, state: &'a mut TxState) -> Sender<'a, Heap> {
    Sender {
        shared: &segment.rings.sending,
        memory: &segment.memory[0],
        state,
    }
}

fn receiver<'a>(segment: &'a Shm, state: &'a mut RxState) -> Receiver<'a, Heap> {
    Receiver {
        shared: &segment.rings.receiving,
        memory: &segment.memory[1],
        state,
        peek: false,
    }
}
