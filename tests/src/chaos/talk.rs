//! One end of a conversation: patterned bytes both ways at once, each byte checked by its position in this very
//! conversation; then the ends of both streams.

use std::io::{self, Error};
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::{Relaxed, SeqCst};
use std::thread;
use std::time::Duration;

use super::board::{BROKEN, Board, DONE, Slot, WRONG};
use crate::rng::Rng;
use crate::{pattern, sock};

/// Words of [`Plan`] as it goes over the wire.
const WORDS: usize = 7;
/// Bytes of it.
pub const PLAN: usize = WORDS * 8;
/// Each conversation has its own part of the pattern.
const PART_SHIFT: u32 = 32;
const PARTS: u64 = 1 << 12;
const LARGEST_PIECE: usize = 64 * 1024;
const MOST_PIECES: usize = 256;
/// One of so many pieces is preceded by a pause.
const PAUSE_AFTER: usize = 64;
const LONGEST_PAUSE_MS: usize = 20;

/// What was agreed for a conversation; the caller chooses, and sends it first.
#[derive(Clone, Copy, Debug)]
pub struct Plan {
    /// Its number.
    pub id: u64,
    seed: u64,
    /// Bytes from the caller, and to it.
    bytes: [u64; 2],
    piece: u64,
    /// Who closes its direction only when all has been received.
    late: u64,
    /// Having received so much, the called end hands the connection over, if it is of that kind.
    pub hand: u64,
}

impl Plan {
    /// A random one.
    pub fn new(id: u64, rng: &mut Rng) -> Self {
        let piece = rng.size(LARGEST_PIECE);
        let bytes = [0; 2].map(|_| (rng.size(MOST_PIECES) * piece) as u64);
        Self {
            id,
            seed: rng.bits(),
            bytes,
            piece: piece as u64,
            late: rng.below(4) as u64,
            hand: rng.below(bytes[0].min(bytes[1]) as usize) as u64,
        }
    }

    /// As it goes over the wire.
    pub fn bytes(&self) -> [u8; PLAN] {
        let [up, down] = self.bytes;
        let words = [
            self.id, self.seed, up, down, self.piece, self.late, self.hand,
        ];
        let mut bytes = [0; PLAN];
        for (place, word) in bytes.chunks_exact_mut(8).zip(words) {
            place.copy_from_slice(&word.to_le_bytes());
        }
        bytes
    }

    /// The same back.
    pub fn read(bytes: &[u8; PLAN]) -> Self {
        let mut words = bytes
            .chunks_exact(8)
            .map(|word| u64::from_le_bytes(word.try_into().expect("eight bytes")));
        let mut next = || words.next().expect("a word of the plan");
        Self {
            id: next(),
            seed: next(),
            bytes: [next(), next()],
            piece: next(),
            late: next(),
            hand: next(),
        }
    }
}

/// One end.
pub struct Talk {
    /// What was agreed.
    pub plan: Plan,
    fd: OwnedFd,
    side: usize,
    sent: u64,
    received: u64,
    closed: Arc<AtomicBool>,
    ended: bool,
    rng: Rng,
    slot: &'static Slot,
}

/// Why [`Talk::poll`] returned.
#[derive(PartialEq, Eq)]
pub enum Stop {
    /// The conversation is over.
    Over,
    /// So much has been received as was asked for.
    Reached,
}

impl Talk {
    /// End `side` (0 called, 1 was called) of a conversation that begins.
    pub fn new(board: Board, fd: OwnedFd, plan: Plan, side: usize) -> Self {
        Self::at(board, fd, plan, side, [0; 4])
    }

    fn at(board: Board, fd: OwnedFd, plan: Plan, side: usize, state: [u64; 4]) -> Self {
        let slot = &board.pair(plan.id)[side];
        slot.plan.store(plan.bytes[side], Relaxed);
        slot.enter();
        let [sent, received, closed, ended] = state;
        Self {
            plan,
            fd,
            side,
            sent,
            received,
            closed: Arc::new(AtomicBool::new(closed != 0)),
            ended: ended != 0,
            rng: Rng::new(plan.seed ^ sent, side as u64),
            slot,
        }
    }

    /// What another process, or program, needs to continue.
    pub fn words(&self) -> String {
        let plan = self.plan.bytes();
        let words = plan.chunks_exact(8);
        let words = words.map(|word| u64::from_le_bytes(word.try_into().expect("eight bytes")));
        let state = [
            self.side as u64,
            self.sent,
            self.received,
            u64::from(self.closed.load(SeqCst)),
            u64::from(self.ended),
        ];
        let words: Vec<String> = words.chain(state).map(|word| word.to_string()).collect();
        words.join(":")
    }

    /// Continues from [`Self::words`].
    pub fn resume(board: Board, fd: OwnedFd, words: &str) -> Self {
        let words: Vec<u64> = words
            .split(':')
            .map(|word| word.parse().expect("a number"))
            .collect();
        let plan: Vec<u8> = words[..WORDS]
            .iter()
            .flat_map(|w| w.to_le_bytes())
            .collect();
        let plan = Plan::read(&plan.try_into().expect("the plan's length"));
        let state = words[WORDS + 1..].try_into().expect("four words");
        Self::at(board, fd, plan, words[WORDS] as usize, state)
    }

    /// Its descriptor.
    pub fn fd(&self) -> RawFd {
        self.fd.as_raw_fd()
    }

    /// The descriptor alone: another process continues.
    pub fn into_fd(self) -> OwnedFd {
        self.fd
    }

    fn is_over(&self) -> bool {
        self.closed.load(SeqCst) && self.ended
    }

    fn late(&self) -> bool {
        self.plan.late >> self.side & 1 != 0
    }

    /// Where `position` of this conversation is in the pattern.
    fn place(&self, position: u64) -> u64 {
        (self.plan.id % PARTS) << PART_SHIFT | position
    }

    /// What to wait for.
    pub fn wants(&self) -> i16 {
        let read = if self.ended { 0 } else { libc::POLLIN };
        let more = self.sent < self.plan.bytes[self.side];
        read | if more { libc::POLLOUT } else { 0 }
    }

    /// Sends a piece; gives whether anything was taken.
    fn send(&mut self, flags: i32) -> io::Result<bool> {
        let left = self.plan.bytes[self.side] - self.sent;
        if left == 0 {
            return self.close();
        }
        let mut piece = vec![0; self.rng.size(self.plan.piece as usize).min(left as usize)];
        pattern::fill(self.side as u8, self.place(self.sent), &mut piece);
        match sock::send(self.fd(), &piece, flags | libc::MSG_NOSIGNAL) {
            Ok(sent) => {
                self.sent += sent as u64;
                self.slot.sent.store(self.sent, SeqCst);
                self.close()?;
                Ok(true)
            }
            Err(error) => wait_or(error),
        }
    }

    /// By whichever thread comes last: each writes how far it is, and then looks how far the other is.
    fn close(&self) -> io::Result<bool> {
        let all_in = self.slot.received.load(SeqCst) == self.plan.bytes[1 - self.side];
        let all_out = self.slot.sent.load(SeqCst) == self.plan.bytes[self.side];
        if !all_out || self.late() && !all_in || self.closed.swap(true, SeqCst) {
            return Ok(false);
        }
        // SAFETY: plain integers.
        if unsafe { libc::shutdown(self.fd(), libc::SHUT_WR) } < 0 {
            return Err(Error::last_os_error());
        }
        Ok(true)
    }

    /// Receives and checks; gives whether anything came.
    fn receive(&mut self, flags: i32) -> io::Result<bool> {
        if self.ended {
            return Ok(false);
        }
        let mut piece = vec![0; self.rng.size(LARGEST_PIECE)];
        let whole = self.plan.bytes[1 - self.side];
        match sock::recv(self.fd(), &mut piece, flags) {
            Ok(0) if self.received < whole => Err(io::ErrorKind::UnexpectedEof.into()),
            Ok(0) => {
                self.ended = true;
                Ok(true)
            }
            Ok(count) => {
                let place = self.place(self.received);
                pattern::check(1 - self.side as u8, place, &piece[..count])
                    .map_err(|wrong| Error::other(wrong.to_string()))?;
                self.received += count as u64;
                self.slot.received.store(self.received, SeqCst);
                if self.received > whole {
                    return Err(Error::other("more than was sent"));
                }
                Ok(true)
            }
            Err(error) => wait_or(error),
        }
    }

    /// Does what can be done without waiting; with `all`, until nothing can. Gives whether it is over.
    pub fn step(&mut self, all: bool) -> io::Result<bool> {
        loop {
            let received = self.receive(libc::MSG_DONTWAIT)?;
            let sent = self.send(libc::MSG_DONTWAIT)?;
            if !all || self.is_over() || !(received || sent) {
                return Ok(self.is_over());
            }
        }
    }

    /// In one thread, until it is over or so much has been received.
    pub fn poll(&mut self, until: Option<u64>) -> io::Result<Stop> {
        loop {
            self.pause();
            if self.step(false)? {
                return Ok(Stop::Over);
            }
            if until.is_some_and(|until| self.received >= until) {
                return Ok(Stop::Reached);
            }
            sock::wait(self.fd(), self.wants())?;
        }
    }

    /// In two threads that block, until it is over.
    pub fn block(&mut self) -> io::Result<()> {
        let Ok(mut sender) = self.twin() else {
            // No descriptor is free.
            return self.poll(None).map(drop);
        };
        let (sent, received) = thread::scope(|scope| {
            let sending = scope.spawn(move || {
                while sender.sent < sender.plan.bytes[sender.side] {
                    sender.pause();
                    sender.send(0)?;
                }
                Ok(())
            });
            let mut receiving = || {
                while !self.ended {
                    self.pause();
                    self.receive(0)?;
                    if self.late() {
                        self.close()?;
                    }
                }
                Ok(())
            };
            let received: io::Result<()> = receiving();
            (sending.join().expect("the sender"), received)
        });
        received.and(sent)
    }

    /// The same end for another thread.
    fn twin(&self) -> io::Result<Self> {
        Ok(Self {
            fd: self.fd.try_clone()?,
            closed: Arc::clone(&self.closed),
            rng: self.rng.clone(),
            plan: self.plan,
            side: self.side,
            sent: self.sent,
            received: self.received,
            ended: self.ended,
            slot: self.slot,
        })
    }

    fn pause(&mut self) {
        if self.rng.below(PAUSE_AFTER) == 0 {
            let pause = self.rng.below(LONGEST_PAUSE_MS) as u64;
            thread::sleep(Duration::from_millis(pause));
        }
    }

    /// Writes down how it ended.
    pub fn account(&self, result: io::Result<()>) {
        settle(self.slot, self.plan.id, result);
    }
}

/// Writes down how the end `slot` of conversation `id` came to its end.
pub fn settle(slot: &Slot, id: u64, result: io::Result<()>) {
    let Err(error) = result else {
        return slot.leave(DONE, 0);
    };
    // Shutdown says ENOTCONN when the reset came before it.
    let deaths = [libc::ECONNRESET, libc::EPIPE, libc::ENOTCONN];
    match error.raw_os_error() {
        None if error.kind() == io::ErrorKind::UnexpectedEof => slot.leave(BROKEN, 0),
        Some(errno) if deaths.contains(&errno) => slot.leave(BROKEN, errno as u64),
        errno => {
            eprintln!("conversation {id}: {error}; {}", slot.text());
            slot.leave(WRONG, errno.unwrap_or(0) as u64);
        }
    }
}

/// EAGAIN and EINTR are no errors.
fn wait_or(error: Error) -> io::Result<bool> {
    match error.kind() {
        io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted => Ok(false),
        _ => Err(error),
    }
}

/// Owns a descriptor that came through an exec or from another process.
pub fn adopt(fd: RawFd) -> OwnedFd {
    // SAFETY: the caller has just received the number, and nobody else in this process uses it.
    unsafe { OwnedFd::from_raw_fd(fd) }
}

/// All of it, by a descriptor that may block.
pub fn send_all(fd: RawFd, mut bytes: &[u8]) -> io::Result<()> {
    while !bytes.is_empty() {
        match sock::send(fd, bytes, libc::MSG_NOSIGNAL) {
            Ok(sent) => bytes = &bytes[sent..],
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(())
}
