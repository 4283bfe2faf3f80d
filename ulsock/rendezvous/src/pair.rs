//! A pair: this process and one peer process, their channel, segments and bells.
//!
//! Many connections share a pair. Bells are handed over lazily, and taken from the channel when a
//! wire names one that we do not know yet. Nothing here blocks, nothing a peer sends is used
//! before it was checked, and little is kept of a peer that has not shown that a connection is between us.

mod blocks;
mod credit;
mod heard;
mod mail;
mod segments;
mod share;
#[cfg(test)]
mod tests;
mod windows;

use std::collections::VecDeque;
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering, fence};
use std::sync::{Arc, Mutex, OnceLock};

use netstack::shared_memory;

use crate::channel::{Channel, ChannelError, Credentials};
use crate::message::{Introduction, Message, VERSION};
use crate::reason::Reason;
use os::fds;
use os::window::Window;
use shm::doorbell::Ringer;
use shm::layout::{BOARDS, SideNumber};
use shm::segment::ReadOnlySegment;
use shm::waiter;
use shm::waiter::{WAITERS, Waiter};

pub use blocks::PairSegment;
pub use credit::Verdict;
pub use heard::Heard;
pub use mail::Mail;
pub use share::{Share, Shares};

use credit::Credit;
use segments::Segments;

/// Messages taken from a channel at a time. Who writes without end waits for his next turn.
const AT_A_TIME: usize = 256;
/// Claims that wait to be looked at; more stay in the channel.
const MOST_CLAIMS: usize = 1024;

/// A claim that came in over a channel.
#[derive(Clone, Copy, Debug)]
pub struct Claim {
    pub offer_cookie: u64,
    pub claim_cookie: u64,
    pub segment: u32,
    pub conn: u32,
}

/// Who is at the other end of a channel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Other {
    /// A process with the other end of a connection.
    Peer,
    /// The daemon of this host.
    Daemon,
    /// A program, and we are the daemon.
    Program,
    /// The same two, in a container and on its host.
    HostDaemon,
    Guest,
    /// As [`Other::Peer`], and it was the daemon of the host that found it.
    Introduced,
}

/// How the daemon is rung: by its first waiter and that one's first board.
pub const DAEMON: u32 = 1 << 16;

/// Bells of 64 waiters; most peers have only a few.
type Ringers = [OnceLock<Ringer>; 64];

pub struct Pair {
    other: Other,
    channel: Channel,
    peer: Credentials,
    same_uid: bool,
    credit: Credit,
    share: Arc<Share>,
    /// The process that made the pair; a forked child must not talk on its channel.
    owner: u32,
    page: OnceLock<ReadOnlySegment>,
    /// The peer's bells by waiter number.
    ringers: [OnceLock<Box<Ringers>>; WAITERS / 64],
    /// Waiters of the peer that were rung before their bells had come: they are rung when these come.
    early: [AtomicU64; WAITERS / 64],
    /// Which of our own bells the peer has.
    handed: [AtomicU64; WAITERS / 64],
    /// How many of the peer's bells we hold.
    bells: AtomicU32,
    segments: Mutex<Segments>,
    claims: Mutex<VecDeque<Claim>>,
    mail: Mutex<VecDeque<Mail>>,
    /// Into the peer's network namespace, if it is not ours; `None`: it has shown none that we could trust.
    window: OnceLock<Option<Window>>,
    /// Looks for its window that found none.
    missed: AtomicU32,
    dead: AtomicBool,
    /// The tick in which the channel was last asked whether the peer lives.
    asked: AtomicU64,
    gone: AtomicBool,
}

impl Pair {
    /// Over a fresh channel, with a stranger so far; introduces us to the peer. `share` is that of its user.
    pub fn new(channel: Channel, share: Arc<Share>) -> Option<Arc<Pair>> {
        let peer = channel.peer().ok()?;
        let same_uid = peer.uid == rustix::process::geteuid().as_raw();
        Pair::begin(Other::Peer, channel, peer, same_uid, share)
    }

    /// The same, for the daemon and the programs that it serves.
    pub fn with(other: Other, channel: Channel) -> Option<Arc<Pair>> {
        Pair::with_share(other, channel, Share::trusted().into())
    }

    /// The same, and all pairs with processes of that user have one share.
    pub fn with_share(other: Other, channel: Channel, share: Arc<Share>) -> Option<Arc<Pair>> {
        let peer = channel.peer().ok()?;
        let same_uid = peer.uid == rustix::process::geteuid().as_raw();
        let pair = Pair::begin(other, channel, peer, same_uid, share)?;
        pair.prove();
        Some(pair)
    }

    /// With a program in another container, of whom we know what the daemon of the host says.
    pub fn introduced(channel: Channel, it: &Introduction) -> Option<Arc<Pair>> {
        let peer = Credentials {
            pid: 0,
            uid: it.uid,
        };
        let share = Share::of_other_user().into();
        let pair = Pair::begin(Other::Introduced, channel, peer, it.same_user, share)?;
        pair.prove();
        Some(pair)
    }

    fn begin(
        other: Other,
        channel: Channel,
        peer: Credentials,
        same_uid: bool,
        share: Arc<Share>,
    ) -> Option<Arc<Pair>> {
        let pair = Pair {
            other,
            channel,
            peer,
            same_uid,
            credit: Credit::of_stranger(),
            segments: Mutex::new(Segments::new(share.clone())),
            share,
            owner: os::pid::get(),
            page: OnceLock::new(),
            ringers: [const { OnceLock::new() }; WAITERS / 64],
            early: [const { AtomicU64::new(0) }; WAITERS / 64],
            handed: [const { AtomicU64::new(0) }; WAITERS / 64],
            bells: AtomicU32::new(0),
            claims: Mutex::default(),
            mail: Mutex::default(),
            window: OnceLock::new(),
            missed: AtomicU32::new(0),
            dead: AtomicBool::new(false),
            asked: AtomicU64::new(0),
            gone: AtomicBool::new(false),
        };
        let hello = Message::Hello {
            version: VERSION,
            pid: pair.owner,
        };
        pair.channel
            .send(&hello, Some(waiter::own()?.page_fd()))
            .ok()?;
        Some(Arc::new(pair))
    }

    pub fn peer(&self) -> Credentials {
        self.peer
    }

    /// Nothing has shown yet that we have anything to do with each other.
    pub fn is_stranger(&self) -> bool {
        !self.credit.is_known()
    }

    /// A connection is between us, for certain.
    pub fn prove(&self) {
        self.credit.prove();
    }

    /// Is the peer of the network namespace in which we have our mailbox?
    pub fn is_near(&self) -> bool {
        self.channel.is_near()
    }

    pub fn is_mine(&self) -> bool {
        self.owner == os::pid::get()
    }

    /// Both ends are the process that made it.
    pub fn is_with_itself(&self) -> bool {
        self.peer.pid == self.owner
    }

    /// Is the other process gone? Asks its channel.
    pub fn has_ended(&self) -> bool {
        self.receive();
        self.is_dead()
    }

    /// The process at the other end of our own channel is gone, for certain.
    pub fn has_lost_peer(&self) -> bool {
        self.is_mine() && self.channel.has_ended()
    }

    /// Nothing more is taken from its channel: the peer is gone, or has broken the protocol.
    pub fn is_dead(&self) -> bool {
        self.dead.load(Ordering::Relaxed)
    }

    /// Has the peer's process ended? The channel is asked once in a tick of the clock, for all
    /// connections: a process that ends closes it, however it ends.
    pub fn is_gone(&self, tick: u64) -> bool {
        if self.asked.load(Ordering::Relaxed) != tick {
            self.asked.store(tick, Ordering::Relaxed);
            if self.channel.has_ended() {
                self.gone.store(true, Ordering::Relaxed);
            }
        }
        self.gone.load(Ordering::Relaxed)
    }

    /// Makes sure that the peer can ring `waiter`.
    pub fn hand_over(&self, waiter: &Waiter) -> bool {
        // A forked child's waiters have the numbers of its parent's, and other bells.
        if !self.is_mine() {
            return false;
        }
        let (word, bit) = (
            &self.handed[waiter.number as usize / 64],
            1 << (waiter.number % 64),
        );
        if word.load(Ordering::Acquire) & bit != 0 {
            return true;
        }
        let stranger = (!self.same_uid).then_some(self.peer.uid);
        let Some(bell) = waiter.bell(stranger) else {
            return false;
        };
        let message = Message::Doorbell {
            waiter: waiter.number,
            kind: bell.kind(),
        };
        let sent = self.channel.send(&message, Some(bell.far_fd())).is_ok();
        if sent {
            word.fetch_or(bit, Ordering::AcqRel);
        }
        sent
    }

    /// Wakes the peer's waiter that a wire names, as the peer wrote it: a waiter's number, and for
    /// an epoll set the board to post on.
    pub fn ring(&self, segment: &PairSegment, theirs: SideNumber, conn: u32, name: u32) -> Heard {
        let (waiter, board) = ((name & 0xffff) as usize, (name >> 16) as usize);
        if waiter >= WAITERS || board > BOARDS {
            return Heard::Awake;
        }
        if board > 0 {
            segment.board(theirs, board - 1).post(conn);
        }
        fence(Ordering::SeqCst);
        if self.peer_asleep(waiter) == Some(false) {
            return Heard::Awake;
        }
        // A daemon reads its programs' mail in their turns, and is told by the channel when there is some.
        if self.ringer(waiter).is_none() && self.is_mine() && !self.is_daemon() {
            self.receive();
        }
        match self.ring_bell(waiter) || self.ring_early(waiter) {
            true => Heard::Rung,
            false => Heard::Later,
        }
    }

    fn ring_bell(&self, waiter: usize) -> bool {
        self.ringer(waiter)
            .is_some_and(|ringer| ringer.ring().is_ok())
    }

    /// Notes that it is to be rung. Either we see here that its bell has come, or `keep_ringer` sees the note.
    #[cold]
    fn ring_early(&self, waiter: usize) -> bool {
        self.early[waiter / 64].fetch_or(1 << (waiter % 64), Ordering::SeqCst);
        fence(Ordering::SeqCst);
        self.ring_bell(waiter)
    }

    fn ringer(&self, waiter: usize) -> Option<&Ringer> {
        self.ringers[waiter / 64].get()?[waiter % 64].get()
    }

    /// Beyond its share of descriptors a peer's bell is dropped: it is woken by its kernel socket.
    fn keep_ringer(&self, waiter: u32, ringer: Ringer) -> bool {
        let Some(chunk) = self.ringers.get(waiter as usize / 64) else {
            return false;
        };
        if !ringer.is_at_or_above(self.lowest_bell()) || !self.share.take() {
            return true;
        }
        self.bells.fetch_add(1, Ordering::Relaxed);
        let chunk = chunk.get_or_init(|| Box::new([const { OnceLock::new() }; 64]));
        let (place, bit) = (waiter as usize % 64, 1 << (waiter % 64));
        let is_new = chunk[place].set(ringer).is_ok();
        fence(Ordering::SeqCst);
        if self.early[waiter as usize / 64].fetch_and(!bit, Ordering::SeqCst) & bit != 0 {
            self.ring_bell(waiter as usize);
        }
        is_new
    }

    /// Are we the daemon that serves this program?
    fn is_daemon(&self) -> bool {
        matches!(self.other, Other::Program | Other::Guest)
    }

    /// Other users get none of the numbers that the program counts on. A daemon has none beside it, and counts by itself
    /// who has how many.
    fn lowest_bell(&self) -> i32 {
        match self.same_uid || self.is_daemon() {
            true => 0,
            false => fds::own_range_begins(),
        }
    }

    /// How many of the peer's bells we hold: each is a descriptor.
    pub fn bells(&self) -> usize {
        self.bells.load(Ordering::Relaxed) as usize
    }

    /// `None` when its page has not come yet.
    fn peer_asleep(&self, waiter: usize) -> Option<bool> {
        let page = self.page.get()?;
        debug_assert!(waiter < WAITERS);
        let offset = waiter * size_of::<AtomicU32>();
        // SAFETY: `ring` has checked that the waiter has a word in the page, which is mapped as long as the pair.
        let word: &AtomicU32 = unsafe { shared_memory::at(page.base().add(offset)) };
        Some(word.load(Ordering::Relaxed) != 0)
    }

    /// Takes what has come over the channel, as far as it may be taken now. Claims are kept for
    /// [`Self::next_claim`].
    pub fn receive(&self) {
        self.receive_counted();
    }

    /// The same; gives how many messages were asked for.
    pub fn receive_counted(&self) -> usize {
        // One reader at a time; who comes second finds that the first has taken all.
        let Ok(mut claims) = self.claims.lock() else {
            return 0;
        };
        for asked in 0..AT_A_TIME {
            if !self.reads_on(&claims) {
                return asked;
            }
            let fine = match self.channel.recv() {
                Ok(Some((message, fd))) => self.accept(message, fd, &mut claims),
                Ok(None) => return asked + 1,
                Err(_) => false,
            };
            if !fine {
                self.end();
                return asked + 1;
            }
        }
        AT_A_TIME
    }

    /// What follows a stranger's claim is taken when that has shown who it is.
    fn reads_on(&self, claims: &VecDeque<Claim>) -> bool {
        let has_claims = !claims.is_empty();
        let waits_for_them = has_claims && (self.is_stranger() || self.segments_are_full());
        !waits_for_them && claims.len() < MOST_CLAIMS && !self.has_full_mail()
    }

    fn segments_are_full(&self) -> bool {
        let segments = self.segments.lock();
        segments.is_ok_and(|segments| segments.is_full())
    }

    /// `false` when the channel is full or closed.
    pub fn tell(&self, message: &Message, fd: Option<BorrowedFd<'_>>) -> bool {
        self.channel.send(message, fd).is_ok()
    }

    /// Nothing more is wanted of this peer.
    pub fn end(&self) {
        self.dead.store(true, Ordering::Relaxed);
    }

    /// Readable when something has come, or the other end is gone.
    pub fn channel(&self) -> BorrowedFd<'_> {
        self.channel.as_fd()
    }

    pub fn other(&self) -> Other {
        self.other
    }

    pub fn next_claim(&self) -> Option<Claim> {
        self.claims.lock().ok()?.pop_front()
    }

    /// What became of a claim of the peer's.
    pub fn judge(&self, verdict: Verdict) {
        if !self.credit.note(verdict) {
            self.end();
        }
    }

    /// Offering side: the segment of a claim that is genuine; mapped from here on.
    pub fn segment(&self, number: u32) -> Option<Arc<PairSegment>> {
        let mapped = self.segments.lock().ok()?.map(number);
        mapped.unwrap_or_else(|_| {
            self.end();
            None
        })
    }

    /// Offering side: nothing comes of a claim.
    pub fn turn_down(&self, claim: &Claim, reason: Reason) {
        if let Ok(mut segments) = self.segments.lock() {
            segments.turn_down(claim, reason);
        }
    }

    /// Claiming side: a free block, in a new segment if need be.
    pub fn allocate(&self) -> Option<(Arc<PairSegment>, u32)> {
        let mut segments = self.segments.lock().ok()?;
        if let Some(found) = segments.allocate() {
            return Some(found);
        }
        let (segment, fd) = segments.create()?;
        let message = Message::Segment {
            segment: segment.number,
            conns: segment.conns(),
        };
        self.channel.send(&message, Some(fd.as_fd())).ok()?;
        segments.add(segment.clone());
        let conn = segment.allocate()?;
        Some((segment, conn))
    }

    /// Claiming side: finds out which blocks the peer has let go of.
    pub fn settle_debts(&self) {
        if let Ok(segments) = self.segments.lock() {
            segments.settle_debts();
        }
    }

    pub fn send_claim(&self, claim: Claim) -> bool {
        let Claim {
            offer_cookie,
            claim_cookie,
            segment,
            conn,
        } = claim;
        let message = Message::Claim {
            offer_cookie,
            claim_cookie,
            segment,
            conn,
        };
        let sent = self.channel.send(&message, None);
        if sent == Err(ChannelError::Closed) {
            // The next claim finds its way over a new channel.
            self.end();
        }
        sent.is_ok()
    }
}

impl Drop for Pair {
    fn drop(&mut self) {
        self.share.give(self.bells.load(Ordering::Relaxed));
    }
}
