//! A peer that the victim calls, and that claims the connection: the claiming side, by hand. Its is the memory.

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::os::fd::{AsRawFd, OwnedFd, RawFd};
use std::time::{Duration, Instant};

use super::memory::{self, CONFIRMED, OFFERER, Words};
use super::offers::{self, Offer};
use super::scene::Scene;
use super::unix::cookie;
use super::wire::{self, Channel, mailbox_name};

/// How long the victim may take to offer its connection, or to answer a claim.
const PATIENCE: Duration = Duration::from_millis(700);

pub struct Claimant {
    pub stream: TcpStream,
    pub offer: Offer,
    pub channel: Channel,
}

/// Has the victim call, and talks until it has offered that connection.
pub fn be_called(scene: &Scene) -> Option<(TcpStream, Offer)> {
    let listener = TcpListener::bind(("127.0.0.1", 0)).expect("bind");
    scene.ask_for_call(listener.local_addr().expect("an address").port());
    let (stream, from) = listener.accept().expect("the victim calls");
    let patience = Some(Duration::from_millis(20));
    stream.set_read_timeout(patience).expect("a time-out");
    let end = Instant::now() + PATIENCE;
    while Instant::now() < end {
        echo(&stream);
        let offers = offers::read(&scene.run_dir, scene.victim_uid);
        if let Some(offer) = offers.iter().find(|offer| offer.is_from(from.port())) {
            return Some((stream, *offer));
        }
    }
    None
}

/// Sends back what has come, if it has; `false`: it has ended.
pub fn echo(mut stream: &TcpStream) -> bool {
    let mut buffer = [0; 65536];
    match stream.read(&mut buffer) {
        Ok(0) => false,
        Ok(got) => stream.write_all(&buffer[..got]).is_ok(),
        Err(_) => true,
    }
}

impl Claimant {
    /// It has a channel to the victim, and has said nothing.
    pub fn new(scene: &Scene) -> Option<Claimant> {
        let (stream, offer) = be_called(scene)?;
        let channel = knock(&offer)?;
        Some(Claimant {
            stream,
            offer,
            channel,
        })
    }

    pub fn say(&self, bytes: &[u8], fds: &[RawFd]) -> bool {
        self.channel.send(bytes, fds)
    }

    /// An honest greeting.
    pub fn greet(&self) -> bool {
        let hello = wire::hello(wire::VERSION, std::process::id());
        self.say(&hello, &[memory::page().as_raw_fd()])
    }

    /// This memory, as the first segment.
    pub fn give(&self, segment: &OwnedFd) -> bool {
        let message = wire::segment(0, memory::CONNS);
        self.say(&message, &[segment.as_raw_fd()])
    }

    /// The claim that is true, with a block of that number.
    pub fn claim(&self, conn: u32) -> bool {
        let ours = cookie(self.stream.as_raw_fd());
        self.say(&wire::claim(self.offer.cookie, ours, 0, conn), &[])
    }

    /// Talks for so long.
    pub fn talk(&self, time: Duration) {
        let end = Instant::now() + time;
        while Instant::now() < end && echo(&self.stream) {}
    }

    /// Talks until the victim has taken the block.
    pub fn is_confirmed(&self, words: &Words, conn: u32) -> bool {
        let end = Instant::now() + PATIENCE;
        while Instant::now() < end && echo(&self.stream) {
            if words.stage(conn, OFFERER) == CONFIRMED {
                return true;
            }
        }
        false
    }

    /// All honest, up to a connection that both sides know to have rings.
    pub fn is_taken(scene: &Scene) -> Option<(Claimant, Words)> {
        let claimant = Claimant::new(scene)?;
        let segment = memory::segment();
        let said = claimant.greet() && claimant.give(&segment) && claimant.claim(0);
        let words = Words::of(segment);
        let taken = said && claimant.is_confirmed(&words, 0);
        taken.then_some((claimant, words))
    }
}

/// A channel to who has made an offer.
pub fn knock(offer: &Offer) -> Option<Channel> {
    let (pid, random) = offer.mailbox;
    Channel::to_mailbox(&mailbox_name(pid, random)).ok()
}
