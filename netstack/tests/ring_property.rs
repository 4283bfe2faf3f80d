//! Random sequences of everything that the two sides of a direction can do, one step at a time,
//! against a queue: what was sent is read, in order and once, wherever the carrier changes.
#![cfg(not(loom))]

mod support;

use netstack::ring::{Look, Receiver, RxState, Sender, Shared, TxState, Unread};
use proptest::prelude::*;
use std::collections::VecDeque;
use support::{Heap, MAPPED, stream};

const LARGEST: u8 = MAPPED as u8 - 1;

#[derive(Clone, Debug)]
enum Step {
    Push(u64),
    KernelSend(u64),
    SendAgain(u64),
    Grow,
    Shrink,
    Enter,
    Leave,
    Yield,
    Poke,
    Receive(u64),
    Peek(u64),
    Wish(bool),
    /// A reader that knows no ring takes over, if it can, with the kernel's word or the sender's.
    HandOver(bool),
    /// The holder dies after the step, before it has written down what it did.
    DieAfter(Box<Step>),
}

fn size() -> impl Strategy<Value = u64> {
    prop_oneof![1..4u64, 1..5_000u64, 10_000..100_000u64]
}

fn sender_step() -> impl Strategy<Value = Step> {
    prop_oneof![
        6 => size().prop_map(Step::Push),
        3 => size().prop_map(Step::KernelSend),
        3 => size().prop_map(Step::SendAgain),
        2 => Just(Step::Grow),
        2 => Just(Step::Shrink),
        4 => Just(Step::Enter),
        1 => Just(Step::Leave),
        1 => Just(Step::Yield),
        1 => Just(Step::Poke),
    ]
}

fn ring_step() -> impl Strategy<Value = Step> {
    prop_oneof![
        // One chunk at most: a holder writes down each one.
        (1..5_000u64).prop_map(Step::Push),
        Just(Step::Grow),
        Just(Step::Shrink),
        Just(Step::Leave),
        Just(Step::Yield),
        Just(Step::Poke),
    ]
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        12 => sender_step(),
        8 => size().prop_map(Step::Receive),
        1 => size().prop_map(Step::Peek),
        2 => any::<bool>().prop_map(Step::Wish),
        1 => any::<bool>().prop_map(Step::HandOver),
        1 => ring_step().prop_map(|step| Step::DieAfter(Box::new(step))),
    ]
}

struct Pair {
    shared: Shared,
    memory: Heap,
    tx: TxState,
    rx: RxState,
    kernel: VecDeque<u8>,
    /// Sent and not yet read.
    unread: VecDeque<u8>,
}

impl Pair {
    fn new(begin: u64) -> Pair {
        let mut pair = Pair {
            shared: Shared::new(),
            memory: Heap::new(),
            tx: TxState::begin(begin),
            rx: RxState::begin(begin),
            kernel: VecDeque::new(),
            unread: VecDeque::new(),
        };
        pair.receiver().publish_start();
        pair.receiver().wish(true);
        pair
    }

    fn sender(&mut self) -> Sender<'_, Heap> {
        Sender {
            shared: &self.shared,
            memory: &self.memory,
            state: &mut self.tx,
        }
    }

    fn receiver(&mut self) -> Receiver<'_, Heap> {
        Receiver {
            shared: &self.shared,
            memory: &self.memory,
            state: &mut self.rx,
            peek: false,
        }
    }

    fn step(&mut self, step: Step) {
        match step {
            Step::Push(n) => self.push(n),
            Step::KernelSend(n) => self.kernel_send(n),
            Step::SendAgain(n) => self.send_again(n),
            Step::Grow => drop(self.sender().grow(LARGEST)),
            Step::Shrink => self.shrink(),
            Step::Enter => drop(self.sender().enter_ring()),
            Step::Leave => self.switch(|s| s.leave_ring()),
            Step::Yield => self.switch(|s| s.yield_ring().unwrap()),
            Step::Poke => self.switch(|s| s.leave_with_poke()),
            Step::Receive(n) => drop(self.receive(n)),
            Step::Peek(n) => self.peek(n),
            Step::Wish(ring) => self.wish(ring),
            Step::HandOver(trusting) => self.hand_over(trusting),
            Step::DieAfter(step) => self.die_after(*step),
        }
    }

    fn switch(&mut self, f: impl FnOnce(&mut Sender<Heap>) -> u32) {
        let slots = f(&mut self.sender());
        assert_eq!(slots, 0, "nobody is armed");
    }

    /// The memory of the larger rings goes whenever it may.
    fn shrink(&mut self) {
        let shrunk = self.sender().shrink().unwrap().is_some();
        if shrunk || self.sender().has_left_larger_rings() {
            self.memory.punch();
        }
    }

    fn push(&mut self, n: u64) {
        let bytes = stream(self.tx.written, n);
        let pushed = match self.sender().put(n, &mut &bytes[..], false) {
            Some(_) => n,
            None => self.sender().push(n, &mut &bytes[..], |_| {}).unwrap(),
        };
        self.unread.extend(&bytes[..pushed as usize]);
    }

    fn kernel_send(&mut self, n: u64) {
        if self.tx.on_ring() || self.tx.must_resend() {
            return;
        }
        let bytes = stream(self.tx.written, n);
        self.kernel.extend(&bytes);
        self.unread.extend(&bytes);
        self.sender().sent_by_kernel(n);
    }

    /// The kernel takes half of what it is offered, rounded up.
    fn send_again(&mut self, most: u64) {
        let mut buffer = vec![0; most as usize];
        let n = self.sender().resend(most, &mut &mut buffer[..]);
        let taken = n.div_ceil(2);
        self.kernel.extend(&buffer[..taken as usize]);
        self.sender().resent(taken);
    }

    fn wish(&mut self, ring: bool) {
        self.receiver().wish(ring);
    }

    /// What the kernel carries from here on is the rest of the stream.
    fn hand_over(&mut self, trusting: bool) {
        self.wish(false);
        let queued = self.kernel.len() as u64;
        let result = self.receiver().onto_kernel(queued, trusting).unwrap();
        if let Unread::InKernel { skip } = result {
            let carried = self.kernel.iter().skip(skip as usize);
            let resent = self.unread.iter().take(carried.len());
            assert!(carried.eq(resent));
            assert!(!self.rx.on_ring());
        }
    }

    /// `false`: nothing to read.
    fn receive(&mut self, most: u64) -> bool {
        let queued = self.kernel.len() as u64;
        let begin = self.rx.pos;
        let look = self.receiver().look().unwrap();
        let (thrown, bytes) = self.bytes_at(begin, look, most, queued);
        self.kernel.drain(..thrown as usize);
        self.receiver().skipped(thrown);
        if let Look::Kernel { .. } = look {
            self.kernel.drain(..bytes.len());
            self.receiver().consumed(bytes.len() as u64);
        } else {
            let mut again = vec![0; bytes.len()];
            let n = bytes.len() as u64;
            match self.receiver().take(n, &mut &mut again[..]) {
                Some((taken, _)) => assert_eq!(taken, n),
                None => drop(self.receiver().pull(n, &mut &mut again[..])),
            }
            assert_eq!(again, bytes);
        }
        let expected: Vec<u8> = self.unread.drain(..bytes.len()).collect();
        assert!(bytes == expected, "wrong bytes from {begin} on");
        assert_eq!(bytes, stream(begin, bytes.len() as u64));
        thrown > 0 || !bytes.is_empty()
    }

    /// What lies where `look` says: how much of the kernel's is to be thrown away, and the bytes.
    fn bytes_at(&mut self, from: u64, look: Look, most: u64, queued: u64) -> (u64, Vec<u8>) {
        match look {
            Look::Ring(n) => {
                let mut bytes = vec![0; n.min(most) as usize];
                let mut state = self.rx.clone();
                let mut peek = Receiver {
                    state: &mut state,
                    peek: true,
                    shared: &self.shared,
                    memory: &self.memory,
                };
                assert_eq!(peek.state.pos, from);
                peek.pull(bytes.len() as u64, &mut &mut bytes[..]);
                (0, bytes)
            }
            Look::Kernel { skip, limit } => {
                let thrown = skip.min(queued);
                let n = most.min(limit).min(queued - thrown);
                let rest = self.kernel.iter().skip(thrown as usize);
                (thrown, rest.take(n as usize).copied().collect())
            }
        }
    }

    /// Looking ahead changes nothing and sees what a read would get next.
    fn peek(&mut self, most: u64) {
        let queued = self.kernel.len() as u64;
        let head = self
            .shared
            .consumer
            .head
            .load(std::sync::atomic::Ordering::Relaxed);
        let mut state = self.rx.clone();
        let look = Receiver {
            state: &mut state,
            peek: true,
            shared: &self.shared,
            memory: &self.memory,
        }
        .look()
        .unwrap();
        if let Look::Ring(n) = look {
            assert!(n <= self.unread.len() as u64);
        } else {
            let (_, bytes) = self.bytes_at(state.pos, look, most, queued);
            assert!(bytes.iter().eq(self.unread.iter().take(bytes.len())));
        }
        assert_eq!(
            head,
            self.shared
                .consumer
                .head
                .load(std::sync::atomic::Ordering::Relaxed)
        );
    }

    /// The holder that takes over finds the state from before the step and what the step published.
    fn die_after(&mut self, step: Step) {
        if !self.tx.on_ring() {
            return;
        }
        // A step that finds no room changes nothing but what it knows of the head.
        self.sender().free(u64::MAX).unwrap();
        let before = self.tx.clone();
        self.step(step);
        let (written, on_ring, again) = (self.tx.written, self.tx.on_ring(), self.tx.must_resend());
        self.tx = before;
        assert!(self.sender().recover());
        assert_eq!(written, self.tx.written);
        assert_eq!(on_ring, self.tx.on_ring());
        assert_eq!(again, self.tx.must_resend());
    }

    /// Everything is read in the end.
    fn finish(&mut self) {
        while self.tx.must_resend() || self.receive(u64::MAX) {
            self.send_again(1 << 20);
        }
        assert!(self.unread.is_empty());
        assert!(self.kernel.is_empty());
        assert_eq!(self.rx.pos, self.tx.written);
    }

    /// The receiver gives its socket to a program that knows no rings, when it may: that one reads
    /// exactly the rest from the kernel.
    fn finish_with_a_stranger(&mut self) {
        let look = self.receiver().look().unwrap();
        let clean = !matches!(look, Look::Kernel { skip: 1.., .. });
        if !self.tx.on_ring() || !clean {
            return self.finish();
        }
        self.wish(false);
        assert!(self.sender().wishes_change());
        self.switch(|s| s.yield_ring().unwrap());
        while self.tx.must_resend() {
            self.send_again(1 << 20);
        }
        assert!(self.kernel == self.unread);
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, ..ProptestConfig::default() })]

    #[test]
    fn every_byte_once_and_in_order(
        begin in 0..1_000_000u64,
        steps in prop::collection::vec(step(), 1..150),
        stranger: bool,
    ) {
        let mut pair = Pair::new(begin);
        for step in steps {
            pair.step(step);
        }
        if stranger {
            pair.finish_with_a_stranger();
        } else {
            pair.finish();
        }
    }
}
