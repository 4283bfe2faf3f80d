//! The channel between two nicds: authenticated and encrypted messages of up to 1 KiB over a nonblocking
//! kernel TCP stream. A state machine without threads or waits: whoever polls calls `progress`.
//! Everything that arrives is hostile until the peers file vouches for its sender's key and address.
//!
//! It is Noise, pattern XX: each side sends its static key under cover of the ephemeral ones. The other's
//! key need not be chosen beforehand, so both of two listed keys are good in either direction while one is
//! being replaced; IK and KK would have to guess. Whatever authenticates depends on both sides' ephemeral
//! keys, so nothing of a recorded handshake is good a second time; the first message of IK would be. It takes
//! half a round trip more than they do, once in the life of a channel.

mod dial;
mod noise;
mod wire;

use std::collections::VecDeque;
use std::fmt;
use std::io;
use std::net::{IpAddr, TcpStream};
use std::os::fd::{AsFd, BorrowedFd};
use std::time::{Duration, Instant};

use super::identity::Identity;
use super::key::PublicKey;
use super::peers::{Peer, Peers};
use noise::{Noise, Step};
use wire::{Inbound, Outbound};

pub use dial::{IDLE, dial};
pub use noise::MESSAGE;

/// From the start of the connection to the proof of both keys.
pub const HANDSHAKE: Duration = Duration::from_secs(5);

/// What may wait to be sent. A peer that lets so much gather does not read.
const BACKLOG: usize = 256 << 10;

/// Messages that nobody has fetched yet, before no more is read.
const INBOX: usize = 64;

pub struct Secure {
    stream: TcpStream,
    noise: Noise,
    /// Who it must be: the line of the peers file for that address.
    peer: usize,
    keys: Vec<PublicKey>,
    key: Option<PublicKey>,
    deadline: Instant,
    inbound: Inbound,
    outbound: Outbound,
    /// What was sent before the handshake was over.
    early: Vec<Vec<u8>>,
    inbox: VecDeque<Vec<u8>>,
    /// The peer has sent a message: it knows us too.
    welcome: bool,
}

/// Why a channel is over.
#[derive(Debug)]
pub enum Closed {
    Io(io::Error),
    /// The peer has closed it.
    Ended,
    /// It did so before it had sent any message.
    Unwelcome,
    /// No handshake in time.
    Late,
    /// No line of the peers file has this address.
    Stranger(IpAddr),
    /// The line for its address does not list this key.
    WrongKey(PublicKey),
    /// A frame of a length that none has at this point.
    Length(usize),
    /// What arrived was not made by who must have made it, or not for this place in the stream.
    Forged,
}

/// Why a message was not taken. The channel is what it was.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NotSent {
    /// Too much waits to be sent already.
    Full,
    /// 1 to `MESSAGE` bytes are wanted.
    Length,
    Closed,
}

impl Secure {
    /// The caller's side, on a stream that `dial` made; it need not be connected yet.
    pub fn connect(
        stream: TcpStream,
        own: &Identity,
        peer: &Peer,
        now: Instant,
    ) -> io::Result<Secure> {
        Secure::new(stream, Noise::initiator(own), peer, now)
    }

    /// The called side, on a stream from `accept`. Strangers are not answered at all.
    pub fn accept(
        stream: TcpStream,
        own: &Identity,
        peers: &Peers,
        now: Instant,
    ) -> Result<Secure, Closed> {
        let source = stream.peer_addr().map_err(Closed::Io)?.ip().to_canonical();
        let peer = peers
            .at(source)
            .and_then(|index| peers.get(index))
            .ok_or(Closed::Stranger(source))?;
        Secure::new(stream, Noise::responder(own), peer, now).map_err(Closed::Io)
    }

    fn new(stream: TcpStream, noise: Noise, peer: &Peer, now: Instant) -> io::Result<Secure> {
        dial::prepare(&stream)?;
        let mut secure = Secure {
            stream,
            noise,
            peer: peer.index,
            keys: peer.keys.clone(),
            key: None,
            deadline: now + HANDSHAKE,
            inbound: Inbound::default(),
            outbound: Outbound::default(),
            early: Vec::new(),
            inbox: VecDeque::new(),
            welcome: false,
        };
        secure.noise.speak(&mut secure.outbound);
        Ok(secure)
    }

    pub fn fd(&self) -> BorrowedFd<'_> {
        self.stream.as_fd()
    }

    /// Whether `progress` is to be called when the stream can be written; when it can be read, always.
    pub fn wants_write(&self) -> bool {
        !self.outbound.is_empty()
    }

    /// When to call `progress` even if nothing happens.
    pub fn deadline(&self) -> Option<Instant> {
        (self.peer().is_none() && !self.noise.is_over()).then_some(self.deadline)
    }

    /// Who it must be, as an index of `Peers`, by its address.
    pub fn expected(&self) -> usize {
        self.peer
    }

    /// After so much silence the kernel asks whether the peer is still there.
    pub fn be_patient(&self, silence: Duration) {
        // As it was, it works too.
        let _ = dial::be_patient(&self.stream, silence);
    }

    /// Who it is, as an index of `Peers`; known once the peer has proved it.
    pub fn peer(&self) -> Option<usize> {
        self.noise.is_open().then_some(self.peer)
    }

    /// The key by which the peer has proved it: a new peers file may not list it any more.
    pub fn key(&self) -> Option<PublicKey> {
        self.key.filter(|_| self.noise.is_open())
    }

    /// Also before the handshake is over: it goes out after it.
    pub fn send(&mut self, message: &[u8]) -> Result<(), NotSent> {
        if !(1..=MESSAGE).contains(&message.len()) {
            return Err(NotSent::Length);
        }
        if self.noise.is_over() {
            return Err(NotSent::Closed);
        }
        let waits: usize = self.early.iter().map(Vec::len).sum();
        if self.outbound.len() + waits + message.len() > BACKLOG {
            return Err(NotSent::Full);
        }
        if self.noise.is_open() {
            self.noise.seal(message, &mut self.outbound);
            // What fails here fails again in `progress`, which tells.
            let _ = self.outbound.flush(&mut self.stream);
        } else {
            self.early.push(message.to_vec());
        }
        Ok(())
    }

    /// The next message; those that came before the channel's end can still be fetched after it.
    pub fn recv(&mut self) -> Option<Vec<u8>> {
        self.inbox.pop_front()
    }

    /// Does what can be done without waiting: to be called when the stream is ready (level-triggered: a
    /// call reads a bounded amount) and at the deadline. An error is the channel's end.
    pub fn progress(&mut self, now: Instant) -> Result<(), Closed> {
        if self.noise.is_over() {
            return Err(Closed::Ended);
        }
        self.advance(now).inspect_err(|_| {
            self.noise = Noise::Over;
            let _ = self.stream.shutdown(std::net::Shutdown::Both);
        })
    }

    fn advance(&mut self, now: Instant) -> Result<(), Closed> {
        self.outbound.flush(&mut self.stream).map_err(Closed::Io)?;
        if self.inbox.len() < INBOX {
            let ended = self.inbound.fill(&mut self.stream).map_err(Closed::Io)?;
            self.hear()?;
            if ended {
                return Err(self.end());
            }
            self.outbound.flush(&mut self.stream).map_err(Closed::Io)?;
        }
        match self.noise.is_open() || now < self.deadline {
            true => Ok(()),
            false => Err(Closed::Late),
        }
    }

    fn end(&self) -> Closed {
        match self.welcome {
            true => Closed::Ended,
            false => Closed::Unwelcome,
        }
    }

    /// All whole frames that have arrived.
    fn hear(&mut self) -> Result<(), Closed> {
        while let Some(frame) = self.inbound.next(|length| self.noise.expects(length))? {
            match self.noise.hear(frame)? {
                Step::Message(message) => {
                    self.welcome = true;
                    self.inbox.push_back(message);
                }
                Step::Unproven => self.noise.speak(&mut self.outbound),
                Step::Proven(key) => self.admit(key)?,
            }
        }
        Ok(())
    }

    /// The peer has proved that it has this key. Only now, if it is a right one, do we say who we are.
    fn admit(&mut self, key: PublicKey) -> Result<(), Closed> {
        if !self.keys.contains(&key) {
            return Err(Closed::WrongKey(key));
        }
        self.key = Some(key);
        self.noise.speak(&mut self.outbound);
        self.noise.open();
        for message in std::mem::take(&mut self.early) {
            self.noise.seal(&message, &mut self.outbound);
        }
        Ok(())
    }
}

impl fmt::Display for Closed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Closed::Io(error) => error.fmt(f),
            Closed::Ended => f.write_str("the peer has closed the channel"),
            Closed::Unwelcome => f.write_str(
                "the peer has closed the channel at once: does its peers file list this host's address and key?",
            ),
            Closed::Late => write!(f, "no handshake within {} s", HANDSHAKE.as_secs()),
            Closed::Stranger(ip) => write!(f, "no line of the peers file has the address {ip}"),
            Closed::WrongKey(key) => {
                write!(f, "its line in the peers file does not list its key {key}")
            }
            Closed::Length(length) => write!(f, "a frame of {length} bytes where none has so many"),
            Closed::Forged => f.write_str("what it sent is forged, replayed or of another version"),
        }
    }
}

#[cfg(test)]
mod tests;
