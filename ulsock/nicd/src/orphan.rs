//! `[F24]` A connection whose program has closed it while the link carries it: we do what its library would,
//! until the last acknowledgement, or over the kernel if the link fails.

use std::os::fd::{AsFd, BorrowedFd};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use netstack::failover::record::LENGTH;
use netstack::failover::{Arrived, Role, Segment, Side, Stage};
use netstack::ring::mark::LEVEL_SIZE;
use netstack::time::Instant;
use rustix::io::Errno;
use rustix::net::{RecvFlags, SendFlags, Shutdown, recv, send, shutdown, sockopt};

use os::fds::InternalFd;
use os::tcp;
use rendezvous::engine_endpoint::Block;
use shm::layout::NIC_LEVEL;

/// `[F30]` So long we wait for the peer.
const PEER_TIMEOUT: Duration = Duration::from_secs(60);
/// `[F15]` Without an acknowledgement for so long, we fail over: a library waits no longer (`conn/nic/watch.rs`).
pub const ACK_TIMEOUT: Duration = Duration::from_millis(500);
/// Bytes that are thrown away at once, and how often in one turn: a peer may send without end, and others wait.
const DISCARD: usize = 1 << 14;
const TURN: usize = 4;

/// What is known of the link.
#[derive(Clone, Copy, Debug)]
pub struct Known {
    pub end_acked: bool,
    /// The engine has carried both directions to their ends.
    pub closed: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fate {
    Waits,
    /// The socket can be closed: all is said.
    Done,
    /// Or with a reset: the peer goes on sending, or makes no sense.
    Broken,
}

pub struct Orphan {
    socket: InternalFd,
    /// How the daemon hears of it.
    pub number: u32,
    /// Its turn was over before all was read that the kernel had.
    pub is_unfinished: bool,
    side: Side,
    /// What of RESUME has not been written yet.
    record: Vec<u8>,
    /// `[F16]` The next byte of the ring that goes by the kernel.
    next: u64,
    filled: u64,
    /// When the last thing happened.
    since: Instant,
    freed: u64,
    /// How far the program had read when it closed.
    read: u64,
    /// The kernel's stream has ended.
    ended: bool,
}

impl Orphan {
    pub fn new(
        socket: InternalFd,
        number: u32,
        connected: bool,
        block: &Block,
        now: Instant,
    ) -> Orphan {
        let role = if connected {
            Role::Connected
        } else {
            Role::Accepted
        };
        // Of B's block the daemon's side has what A proposed.
        let promotion = match role {
            Role::Connected => &block.theirs().promotion,
            Role::Accepted => &block.ours().promotion,
        };
        let load = |word: &AtomicU64| word.load(Ordering::Relaxed);
        let (key, epoch) = (load(&promotion.key), load(&promotion.epoch));
        let read = block.read();
        let mut orphan = Orphan {
            socket,
            number,
            is_unfinished: false,
            side: Side::linked(role, epoch, key, read),
            record: Vec::new(),
            next: 0,
            filled: 0,
            since: now,
            freed: block.freed(),
            read,
            ended: false,
        };
        if block.is_entrusted() && orphan.take_up(block).is_none() {
            orphan.side.despair();
        }
        orphan
    }

    /// `[F31]` Goes on where the program was when it was killed: what the kernel has been given since the promotion is
    /// the beginning of RESUME and of the ring's bytes. `None`: what it left makes no sense.
    fn take_up(&mut self, block: &Block) -> Option<()> {
        let trust = &block.theirs().trust;
        let since =
            |count: Option<u64>, then: &AtomicU64| count?.checked_sub(then.load(Ordering::Relaxed));
        if since(tcp::taken(self.socket.as_fd()), &trust.taken)? >= LENGTH as u64 {
            self.side.take_for_heard();
        }
        let sent = since(tcp::given(self.socket.as_fd()), &trust.sent)?;
        let Some(from) = trust.from.load(Ordering::Acquire).checked_sub(1) else {
            return Some(());
        };
        self.filled = trust.written.load(Ordering::Relaxed);
        let ring = LEVEL_SIZE[usize::from(NIC_LEVEL)];
        let length = self
            .filled
            .checked_sub(from)
            .filter(|length| *length <= ring)?;
        block.freeze();
        self.side.freeze();
        let record = self.side.resume(block.tail(), from, self.filled).to_bytes();
        let (begun, more) = (sent.min(LENGTH as u64), sent.saturating_sub(LENGTH as u64));
        self.record = record[begun as usize..].to_vec();
        self.next = from + more.min(length);
        Some(())
    }

    pub fn socket(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }

    /// Does what there is to do.
    pub fn run(&mut self, now: Instant, block: &Block, known: Known) -> Fate {
        if self.listen(block) == Fate::Broken {
            return Fate::Broken;
        }
        if self.side.stage() == Stage::Linked && block.tail().is_frozen() {
            self.side.freeze();
        }
        if self.resume(now, block).is_err() {
            return Fate::Broken;
        }
        // What stood behind a record of the peer's.
        if self.listen(block) == Fate::Broken {
            return Fate::Broken;
        }
        match self.side.stage() {
            Stage::Linked if self.is_stalled(now, block, known) => {
                block.freeze();
                self.side.freeze();
                match self.resume(now, block) {
                    Ok(()) => Fate::Waits,
                    Err(_) => Fate::Broken,
                }
            }
            Stage::Linked => self
                .judge_linked(block, known)
                .unwrap_or_else(|| self.expire(now)),
            Stage::Kernel => self.judge_kernel(now),
            Stage::Over => Fate::Broken,
            _ => self.expire(now),
        }
    }

    /// `[F15]` Has nothing of what the program left been acknowledged for as long as the deadline?
    fn is_stalled(&mut self, now: Instant, block: &Block, known: Known) -> bool {
        let freed = block.freed();
        if freed != self.freed {
            (self.freed, self.since) = (freed, now);
        }
        self.is_unacknowledged(known) && now.since(self.since) >= ACK_TIMEOUT
    }

    /// Bytes or the end of a connection that the link carries.
    pub fn is_unacknowledged(&self, known: Known) -> bool {
        self.side.stage() == Stage::Linked && !known.end_acked && !known.closed
    }

    /// `None`: nothing has changed.
    fn judge_linked(&self, block: &Block, known: Known) -> Option<Fate> {
        let unread = block.tail().offset() > self.read;
        block.watch(block.tail().offset());
        match known {
            Known { closed: true, .. } => Some(Fate::Done),
            // As the kernel: nobody will ever read that.
            Known {
                end_acked: true, ..
            } if unread => Some(Fate::Broken),
            _ => None,
        }
    }

    /// All is in the kernel, and FIN behind it. `[F21]` The peer's RESUME has to be read before we close.
    fn judge_kernel(&mut self, now: Instant) -> Fate {
        if self.ended {
            return Fate::Done;
        }
        self.expire(now)
    }

    fn expire(&self, now: Instant) -> Fate {
        if now.since(self.since) >= PEER_TIMEOUT {
            return Fate::Done;
        }
        Fate::Waits
    }

    /// What the kernel brings: the peer's RESUME, and bytes that nobody reads.
    fn listen(&mut self, block: &Block) -> Fate {
        let mut bytes = [0; DISCARD];
        self.is_unfinished = false;
        for _ in 0..TURN {
            let peeked = recv(
                &self.socket,
                &mut bytes[..LENGTH],
                RecvFlags::PEEK | RecvFlags::DONTWAIT,
            );
            let head = match peeked {
                Ok((0, _)) => {
                    self.ended = true;
                    return Fate::Waits;
                }
                Ok((length, _)) => &bytes[..length],
                Err(Errno::AGAIN | Errno::INTR) => return Fate::Waits,
                // While the link works it says how the stream ends.
                Err(_) if self.side.stage() == Stage::Linked => return Fate::Waits,
                Err(_) => return Fate::Broken,
            };
            let (most, plain) = match self.side.look(head, block) {
                Ok(Arrived::Record) => (LENGTH, false),
                Ok(Arrived::Plain { skip: 0 }) => (DISCARD, true),
                Ok(Arrived::Plain { skip }) => (skip.min(DISCARD as u64) as usize, true),
                Ok(Arrived::Part | Arrived::NotYet) => return Fate::Waits,
                Err(_) => return Fate::Broken,
            };
            match recv(&self.socket, &mut bytes[..most], RecvFlags::DONTWAIT) {
                Ok((length, _)) if plain => self.side.took(length as u64),
                Ok(_) => {}
                Err(_) => return Fate::Waits,
            }
        }
        self.is_unfinished = true;
        Fate::Waits
    }

    /// `[F16]` RESUME, then the ring, then FIN.
    fn resume(&mut self, now: Instant, block: &Block) -> Result<(), Errno> {
        if self.side.stage() == Stage::Frozen {
            self.filled = block.filled();
            let record = self.side.resume(block.tail(), block.freed(), self.filled);
            // The words are the program's own.
            let ring = LEVEL_SIZE[usize::from(NIC_LEVEL)];
            if self.filled.wrapping_sub(record.from) > ring {
                return Err(Errno::PROTO);
            }
            self.next = record.from;
            self.record = record.to_bytes().to_vec();
            self.since = now;
        }
        while !self.record.is_empty() {
            let Some(sent) = self.send(&self.record)? else {
                return Ok(());
            };
            self.record.drain(..sent);
        }
        while self.side.stage() == Stage::Resending {
            let bytes = block.written(self.next, self.filled);
            if bytes.is_empty() {
                self.side.resent();
                shutdown(&self.socket, Shutdown::Write)?;
                break;
            }
            let Some(sent) = self.send(&bytes)? else {
                return Ok(());
            };
            self.next += sent as u64;
            self.since = now;
        }
        Ok(())
    }

    fn send(&self, bytes: &[u8]) -> Result<Option<usize>, Errno> {
        match send(
            &self.socket,
            bytes,
            SendFlags::DONTWAIT | SendFlags::NOSIGNAL,
        ) {
            Ok(sent) => Ok(Some(sent)),
            Err(Errno::AGAIN | Errno::INTR) => Ok(None),
            Err(errno) => Err(errno),
        }
    }

    /// Closes the socket; with a reset if the peer shall know that its bytes found nobody.
    pub fn close(self, fate: Fate) {
        if fate == Fate::Broken {
            let _ = sockopt::set_socket_linger(&self.socket, Some(Duration::ZERO));
        }
    }
}
