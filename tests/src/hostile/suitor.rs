//! A peer that connects to the victim, offers the connection, and is claimed: the offering side, by hand.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::os::fd::AsRawFd;
use std::time::Duration;

use super::memory::{self, CONFIRMED, OFFERER, STAGE, Words};
use super::offers::{Offer, Table};
use super::scene::Scene;
use super::wire::{self, Channel, Letter, Mailbox};

/// Round trips after which the victim should have looked at its connection.
const PATIENCE: usize = 400;

pub struct Suitor {
    pub stream: TcpStream,
    pub mailbox: Mailbox,
    pub table: Table,
    pub channel: Option<Channel>,
    /// What the victim has sent, in order.
    pub letters: Vec<Letter>,
}

impl Suitor {
    /// It has a connection and a mailbox, and has offered nothing.
    pub fn connect(scene: &mut Scene) -> Suitor {
        let random = scene.rng.bits();
        Suitor {
            stream: connect(scene.port),
            mailbox: Mailbox::open(&scene.run_dir, random).expect("a mailbox"),
            table: Table::open(&scene.run_dir, scene.uid).expect("a table"),
            channel: None,
            letters: Vec::new(),
        }
    }

    /// The same process with another connection; the last one is closed.
    pub fn connect_again(self, scene: &Scene) -> Suitor {
        Suitor {
            stream: connect(scene.port),
            ..self
        }
    }

    /// Whatever has come is of no interest.
    pub fn drop_mail(&mut self) {
        self.read_mail();
        self.letters.clear();
    }

    pub fn offer(&self) -> Offer {
        Offer::of(&self.stream, (self.mailbox.pid, self.mailbox.random))
    }

    /// One message there and back, by the kernel; `false`: the connection has ended, or is silent.
    pub fn round(&mut self) -> bool {
        let mut message = [b'h'; 32];
        let sent = (&self.stream).write_all(&message);
        sent.and_then(|()| (&self.stream).read_exact(&mut message))
            .is_ok()
    }

    /// As many, unless the connection ends before.
    pub fn rounds(&mut self, count: usize) -> bool {
        (0..count).all(|_| self.round())
    }

    /// Publishes the offer, and talks until the victim has knocked.
    pub fn be_found(&mut self) -> bool {
        self.table.publish(&self.offer());
        for _ in 0..PATIENCE {
            let alive = self.round();
            self.channel = self.mailbox.accept();
            if self.channel.is_some() || !alive {
                break;
            }
        }
        self.channel.is_some()
    }

    pub fn say(&self, bytes: &[u8], fds: &[i32]) -> bool {
        let channel = self.channel.as_ref();
        channel.is_some_and(|channel| channel.send(bytes, fds))
    }

    /// An honest greeting.
    pub fn greet(&self) -> bool {
        let hello = wire::hello(wire::VERSION, std::process::id());
        self.say(&hello, &[memory::page().as_raw_fd()])
    }

    fn read_mail(&mut self) {
        let channel = self.channel.iter();
        let mut letters = channel.flat_map(|channel| std::iter::from_fn(|| channel.receive()));
        // A closed channel has empty letters without end.
        let until_end = letters
            .by_ref()
            .take_while(|letter| !letter.bytes.is_empty());
        self.letters.extend(until_end);
    }

    /// Talks until the claim has come; the segment, and the connection's number in it.
    pub fn be_claimed(&mut self) -> Option<(Words, u32)> {
        for _ in 0..PATIENCE {
            self.read_mail();
            let claim = self.letters.iter().find(|it| it.kind() == wire::CLAIM);
            let conn = claim.map(|claim| claim.word(22));
            if conn.is_some() || !self.round() {
                break;
            }
        }
        let claim = self.letters.iter().find(|it| it.kind() == wire::CLAIM)?;
        let conn = claim.word(22);
        let segments = &mut self.letters.iter_mut();
        let segment = segments.find(|it| it.kind() == wire::SEGMENT)?;
        Some((Words::of(segment.fds.pop()?), conn))
    }

    /// All honest, up to a connection that both sides know to have rings.
    pub fn be_taken(scene: &mut Scene) -> Option<(Suitor, Words, u32)> {
        let mut suitor = Suitor::connect(scene);
        let found = suitor.be_found() && suitor.greet();
        let (words, conn) = found.then(|| suitor.be_claimed()).flatten()?;
        words.put(memory::side(conn, OFFERER) + STAGE, 4, CONFIRMED.into());
        suitor.round();
        Some((suitor, words, conn))
    }
}

fn connect(port: u16) -> TcpStream {
    let stream = TcpStream::connect(("127.0.0.1", port)).expect("connect");
    let patience = Some(Duration::from_millis(500));
    stream.set_read_timeout(patience).expect("a time-out");
    stream.set_nodelay(true).expect("a flag");
    stream
}
