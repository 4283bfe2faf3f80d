//! A pair: this process and one peer process, their channel, segments and bells.
//!
//! Many connections share a pair. Bells are handed over lazily, and taken from the channel when a
//! wire names one that we do not know yet. Nothing here blocks, and nothing a peer sends is used
//! before it was checked.

mod blocks;
mod mail;

use std::collections::VecDeque;
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::atomic::{fence, AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, OnceLock};

use crate::channel::{Channel, Credentials};
use crate::doorbell::Ringer;
use crate::layout::{SideNumber, BOARDS, LARGE, SMALL};
use crate::mailbox::MailboxName;
use crate::message::{Introduction, Message, VERSION};
use crate::process;
use crate::segment::ReadOnlySegment;
use crate::sys::window::Window;
use crate::waiter::{Waiter, WAITERS};

pub use blocks::PairSegment;
pub use mail::Mail;

/// Segments of one pair: 64 Ki connections.
const MOST_SEGMENTS: u32 = 64;

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

/// Looks for a window at every call, and then before we ask for it again.
const PATIENCE: u32 = 64;

/// Bells of 64 waiters; most peers have only a few.
type Ringers = [OnceLock<Ringer>; 64];

pub struct Pair {
    other: Other,
    channel: Channel,
    peer: Credentials,
    same_uid: bool,
    /// The process that made the pair; a forked child must not talk on its channel.
    owner: u32,
    page: OnceLock<ReadOnlySegment>,
    /// The peer's bells by waiter number.
    ringers: [OnceLock<Box<Ringers>>; WAITERS / 64],
    /// Which of our own bells the peer has.
    handed: [AtomicU64; WAITERS / 64],
    segments: Mutex<Vec<Arc<PairSegment>>>,
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
    /// Over a fresh channel; introduces us to the peer.
    pub fn new(channel: Channel) -> Option<Arc<Pair>> {
        Pair::with(Other::Peer, channel)
    }

    /// The same, for the daemon and the programs that it serves.
    pub fn with(other: Other, channel: Channel) -> Option<Arc<Pair>> {
        let peer = channel.peer().ok()?;
        let same_uid = peer.uid == rustix::process::geteuid().as_raw();
        Pair::begin(other, channel, peer, same_uid)
    }

    /// With a program in another container, of whom we know what the daemon of the host says.
    pub fn introduced(channel: Channel, it: &Introduction) -> Option<Arc<Pair>> {
        let peer = Credentials {
            pid: 0,
            uid: it.uid,
        };
        Pair::begin(Other::Introduced, channel, peer, it.same_user)
    }

    fn begin(
        other: Other,
        channel: Channel,
        peer: Credentials,
        same_uid: bool,
    ) -> Option<Arc<Pair>> {
        let pair = Pair {
            other,
            channel,
            peer,
            same_uid,
            owner: process::pid(),
            page: OnceLock::new(),
            ringers: [const { OnceLock::new() }; WAITERS / 64],
            handed: [const { AtomicU64::new(0) }; WAITERS / 64],
            segments: Mutex::default(),
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
            .send(&hello, Some(process::waiters()?.page_fd()))
            .ok()?;
        Some(Arc::new(pair))
    }

    pub fn peer(&self) -> Credentials {
        self.peer
    }

    /// Is the peer of the network namespace in which we have our mailbox?
    pub fn is_near(&self) -> bool {
        self.channel.is_near()
    }

    pub fn is_mine(&self) -> bool {
        self.owner == process::pid()
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
    /// an epoll set the board to post on. `false` when it sleeps and we have no bell of it.
    pub fn ring(&self, segment: &PairSegment, theirs: SideNumber, conn: u32, name: u32) -> bool {
        let (waiter, board) = ((name & 0xffff) as usize, (name >> 16) as usize);
        if waiter >= WAITERS || board > BOARDS {
            return true;
        }
        if board > 0 {
            segment.board(theirs, board - 1).post(conn);
        }
        fence(Ordering::SeqCst);
        if self.peer_asleep(waiter) == Some(false) {
            return true;
        }
        if self.ringer(waiter).is_none() && self.is_mine() {
            self.receive();
        }
        self.ringer(waiter)
            .is_some_and(|ringer| ringer.ring().is_ok())
    }

    fn ringer(&self, waiter: usize) -> Option<&Ringer> {
        self.ringers[waiter / 64].get()?[waiter % 64].get()
    }

    fn keep_ringer(&self, waiter: u32, ringer: Ringer) -> bool {
        let Some(chunk) = self.ringers.get(waiter as usize / 64) else {
            return false;
        };
        let chunk = chunk.get_or_init(|| Box::new([const { OnceLock::new() }; 64]));
        chunk[waiter as usize % 64].set(ringer).is_ok()
    }

    /// `None` when its page has not come yet.
    fn peer_asleep(&self, waiter: usize) -> Option<bool> {
        let page = self.page.get()?;
        // SAFETY: `waiter` is below WAITERS, hence within the page; an atomic is valid for any content.
        let word = unsafe { &*page.base().cast::<AtomicU32>().add(waiter) };
        Some(word.load(Ordering::Relaxed) != 0)
    }

    /// Takes everything from the channel. Claims are kept for [`Self::next_claim`].
    pub fn receive(&self) {
        // One reader at a time; who comes second finds that the first has taken all.
        let Ok(mut claims) = self.claims.lock() else {
            return;
        };
        while !self.has_full_mail() {
            match self.channel.recv() {
                Ok(Some((message, fd))) => {
                    if !self.accept(message, fd, &mut claims) {
                        return self.dead.store(true, Ordering::Relaxed);
                    }
                }
                Ok(None) => return,
                Err(_) => return self.dead.store(true, Ordering::Relaxed),
            }
        }
    }

    /// `false` when the channel is full or closed.
    pub fn tell(&self, message: &Message, fd: Option<BorrowedFd<'_>>) -> bool {
        self.channel.send(message, fd).is_ok()
    }

    /// Nothing more is wanted of this peer.
    pub fn end(&self) {
        self.dead.store(true, Ordering::Relaxed);
    }

    pub fn window(&self) -> Option<&Window> {
        self.window.get()?.as_ref()
    }

    /// What it has shown was not to be trusted.
    pub fn is_suspect(&self) -> bool {
        self.window.get().is_some_and(Option::is_none)
    }

    /// The first one counts.
    pub fn keep_window(&self, window: Option<Window>) {
        let _ = self.window.set(window);
    }

    /// Claiming side: lets the peer look into our network namespace, so that it does the same; again
    /// after some looks without a window of its. `false` if it cannot be told.
    pub fn show_window(&self, offer_cookie: u64, mailbox: MailboxName) -> bool {
        if !self.missed.load(Ordering::Relaxed).is_multiple_of(PATIENCE) {
            return true;
        }
        let message = Message::Window {
            offer_cookie,
            mailbox,
            returned: false,
        };
        Window::open().is_ok_and(|ours| self.tell(&message, Some(ours.as_fd())))
    }

    /// There is none yet: is it worth a look at every call? Only while it can be expected.
    pub fn may_show_soon(&self) -> bool {
        self.missed.fetch_add(1, Ordering::Relaxed) < PATIENCE
    }

    /// It is of another network namespace, which we keep alive, and is gone.
    pub fn has_left_its_namespace(&self) -> bool {
        self.window().is_some() && self.channel.has_ended()
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

    pub fn segment(&self, number: u32) -> Option<Arc<PairSegment>> {
        self.segments.lock().ok()?.get(number as usize).cloned()
    }

    /// Claiming side: a free block, in a new segment if need be.
    pub fn allocate(&self) -> Option<(Arc<PairSegment>, u32)> {
        let mut segments = self.segments.lock().ok()?;
        for segment in segments.iter().rev() {
            if let Some(conn) = segment.allocate() {
                return Some((segment.clone(), conn));
            }
        }
        let number = segments.len() as u32;
        if number >= MOST_SEGMENTS {
            return None;
        }
        let conns = if number == 0 { SMALL } else { LARGE };
        let (segment, fd) = PairSegment::create(number, conns)?;
        self.channel
            .send(
                &Message::Segment {
                    segment: number,
                    conns,
                },
                Some(fd.as_fd()),
            )
            .ok()?;
        let segment = Arc::new(segment);
        segments.push(segment.clone());
        let conn = segment.allocate()?;
        Some((segment, conn))
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
        self.channel.send(&message, None).is_ok()
    }
}
