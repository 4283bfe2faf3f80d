//! Any writes of the peer, between any steps of the honest side, as the bytes of an input say. `tests/fuzz` lets coverage
//! find the inputs.

use std::sync::atomic::Ordering;
use std::time::Duration;

use netstack::ring::mark::{LEVEL_SIZE, LEVELS, MAX_OFFSET};
use netstack::ring::shared::MARKS;
use netstack::ring::tripwire::ALL;
use netstack::ring::{Hostile, Sender};

use super::support::{Heap, MAPPED};
use super::{BEGIN, Pair};

/// What a run of the tests spends here, unless told otherwise.
const TIME: Duration = Duration::from_secs(3);
const LARGEST: u8 = MAPPED as u8 - 1;

/// It goes on after `Hostile`, where the sockets layer would stop: the worse for it.
#[test]
fn whatever_the_peer_writes() {
    let target = bolero::check!().with_test_time(TIME).with_max_len(600);
    target.for_each(|input: &[u8]| {
        let mut script = Script(input);
        let mut pair = Pair::on_ring(BEGIN);
        while let Some(step) = script.honest() {
            let _hostile_is_fine = pair.honest(step);
            if let Some(write) = script.write() {
                pair.hostile(write);
            }
        }
    });
}

/// What the honest side does between two writes of the peer.
#[derive(Clone, Debug)]
enum Honest {
    Push(u64),
    Grow,
    Shrink,
    Enter,
    Leave,
    Yield,
    Poke,
    SendAgain,
    WaitForSpace(u64),
    Recover,
    Receive(u64),
    WaitForData,
    Wish(bool),
    HandOver(u64),
}

/// Where the peer writes: a word by its meaning, or any half word.
#[derive(Clone, Debug)]
enum Write {
    Tail(u64),
    Head(u64),
    SenderEpoch(u64),
    ReceiverEpoch(u64),
    Wish(u64),
    Mark(usize, u64),
    NextMark(u64, u8),
    Any(usize, u32),
}

/// The rest of an input.
struct Script<'a>(&'a [u8]);

impl Script<'_> {
    fn byte(&mut self) -> Option<u8> {
        let (first, rest) = self.0.split_first()?;
        self.0 = rest;
        Some(*first)
    }

    fn number(&mut self, bytes: usize) -> u64 {
        let next = |number: u64, byte: u8| number << 8 | u64::from(byte);
        (0..bytes).filter_map(|_| self.byte()).fold(0, next)
    }

    fn honest(&mut self) -> Option<Honest> {
        Some(match self.byte()? % 24 {
            0..4 => Honest::Push(1 + self.number(3) % 100_000),
            4..6 => Honest::Grow,
            6 => Honest::Shrink,
            7..9 => Honest::Enter,
            9 => Honest::Leave,
            10 => Honest::Yield,
            11 => Honest::Poke,
            12 => Honest::SendAgain,
            13 => Honest::WaitForSpace(self.number(8)),
            14 => Honest::Recover,
            15..21 => Honest::Receive(self.number(2) % 10_000),
            21 => Honest::WaitForData,
            22 => Honest::Wish(self.byte()? % 2 == 1),
            _ => Honest::HandOver(self.number(8)),
        })
    }

    /// A value that is close to something that matters, or anything.
    fn value(&mut self) -> Option<u64> {
        let near_the_ring = |number: u64| BEGIN - 2 + number % (LEVEL_SIZE[0] + 4);
        let limits = [0, 1, u64::MAX, u64::MAX - 1, MAX_OFFSET, MAX_OFFSET - 1];
        Some(match self.byte()? % 5 {
            0 => self.number(8),
            1 => limits[self.byte()? as usize % limits.len()],
            2 => near_the_ring(self.number(3)),
            3 => near_the_ring(self.number(3)) << 3 | u64::from(self.byte()? % 8),
            _ => u64::from(self.byte()? % 20),
        })
    }

    fn write(&mut self) -> Option<Write> {
        Some(match self.byte()? % 16 {
            0 => Write::Tail(self.value()?),
            1 => Write::Head(self.value()?),
            2 => Write::SenderEpoch(self.value()?),
            3 => Write::ReceiverEpoch(self.value()?),
            4 => Write::Wish(self.value()?),
            5 => Write::Mark(self.byte()? as usize % MARKS, self.value()?),
            6 => Write::NextMark(self.value()?, self.byte()? % (LEVELS as u8 + 1)),
            7 => Write::Any(self.byte()? as usize, self.number(4) as u32),
            _ => return None,
        })
    }
}

impl Pair {
    fn hostile(&self, write: Write) {
        let (place, value) = match write {
            Write::Tail(value) => (self.tail(), value),
            Write::Head(value) => (self.head(), value),
            Write::SenderEpoch(value) => (&self.shared.producer.epoch, value),
            Write::ReceiverEpoch(value) => (&self.shared.consumer.epoch, value),
            Write::Wish(value) => (&self.shared.wait.wish, value),
            Write::Mark(slot, value) => (&self.shared.switch.marks[slot], value),
            Write::NextMark(start, code) => return self.hostile_mark(start, code),
            Write::Any(index, word) => {
                if let Some(place) = self.word(index) {
                    place.store(word, Ordering::Relaxed);
                }
                return;
            }
        };
        place.store(value, Ordering::Relaxed);
    }

    /// A mark that could be a real one, at the epoch that the receiver waits for.
    fn hostile_mark(&self, start: u64, code: u8) {
        let next = self
            .shared
            .consumer
            .epoch
            .load(Ordering::Relaxed)
            .wrapping_add(1);
        let word = start << 3 | u64::from(code);
        self.shared.switch.marks[next as usize % MARKS].store(word, Ordering::Relaxed);
        self.shared.producer.epoch.store(next, Ordering::Relaxed);
    }

    fn honest(&mut self, step: Honest) -> Result<(), Hostile> {
        match step {
            Honest::Push(n) => self.push(n).map(drop)?,
            Honest::Grow => drop(self.sender().grow(LARGEST)),
            Honest::Shrink => {
                if self.sender().shrink()?.is_some() || self.sender().has_left_larger_rings() {
                    self.memory.punch();
                }
            }
            Honest::Enter => drop(self.sender().enter_ring()),
            Honest::Leave => self.rung(|s| s.leave_ring()),
            Honest::Poke => self.rung(|s| s.leave_with_poke()),
            Honest::Yield => drop(self.sender().yield_ring()?),
            Honest::SendAgain => self.send_again(),
            Honest::WaitForSpace(want) => {
                self.sender().arm_space(1, 7, want);
                self.sender().free(want)?;
                self.sender().consumer_moved()?;
            }
            Honest::Recover => drop(self.sender().recover()),
            Honest::Receive(queued) => drop(self.receive(queued)?),
            Honest::WaitForData => {
                let at = self.rx.pos + 1;
                self.receiver().arm_data(2, 9, at);
            }
            Honest::Wish(ring) => drop(self.receiver().wish(ring)),
            Honest::HandOver(queued) => drop(self.receiver().onto_kernel(queued, false)?),
        }
        Ok(())
    }

    fn rung(&mut self, f: impl FnOnce(&mut Sender<Heap>) -> u32) {
        assert_eq!(f(&mut self.sender()) & !ALL, 0);
    }

    fn send_again(&mut self) {
        let mut buffer = vec![0; 50_000];
        let n = self.sender().resend(50_000, &mut &mut buffer[..]);
        assert!(n <= 50_000);
        self.sender().resent(n);
    }
}
