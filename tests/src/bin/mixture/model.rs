//! The truth about every member: what it would take to be told, by what was done to it.

use std::collections::BTreeMap;
use std::net::{Shutdown, TcpListener, TcpStream};
use std::os::fd::{FromRawFd, IntoRawFd, OwnedFd, RawFd};

use libc::{EPOLLHUP, EPOLLIN, EPOLLOUT, EPOLLRDHUP};
use tests::rng::Rng;
use tests::sock;

use crate::Sets;

const CONNECTIONS: usize = 8;
/// No more than any carrier takes at once.
const MOST: usize = 40_000;

#[derive(Clone, Copy, Debug)]
pub enum Kind {
    /// The other end is this member.
    Connection {
        peer: u64,
    },
    /// The end of a pipe that is read; the other is not a member.
    Pipe {
        writer: RawFd,
    },
    Counter,
}

pub struct Member {
    pub number: u64,
    pub fd: RawFd,
    pub kind: Kind,
    /// Its interest in each set.
    pub level: i32,
    pub edge: i32,
    pub shot: i32,
    /// Unread bytes (or counts).
    unread: usize,
    peer_shut: bool,
    shut: bool,
    /// An edge that has not been told.
    due: bool,
    armed: bool,
}

impl Member {
    fn ready(&self) -> i32 {
        let mut events = 0;
        if self.unread > 0 || self.peer_shut {
            events |= EPOLLIN;
        }
        if self.peer_shut {
            events |= EPOLLRDHUP;
        }
        if self.peer_shut && self.shut {
            events |= EPOLLHUP;
        }
        if !matches!(self.kind, Kind::Pipe { .. }) {
            events |= EPOLLOUT;
        }
        events
    }

    /// What a set with this interest tells.
    fn told(&self, interest: i32) -> i32 {
        self.ready() & (interest | EPOLLHUP)
    }
}

/// All members, by number.
pub struct World {
    members: BTreeMap<u64, Member>,
    next: u64,
    listener: TcpListener,
}

fn interest(rng: &mut Rng) -> i32 {
    let choices = [
        EPOLLIN,
        EPOLLOUT,
        EPOLLIN | EPOLLOUT,
        EPOLLIN | EPOLLRDHUP,
        0,
    ];
    rng.pick(&choices)
}

impl World {
    pub fn new(rng: &mut Rng) -> Self {
        let mut world = Self {
            members: BTreeMap::new(),
            next: 1,
            listener: TcpListener::bind("127.0.0.1:0").expect("bind"),
        };
        for _ in 0..CONNECTIONS {
            world.connect(rng);
        }
        for _ in 0..3 {
            let mut ends = [0; 2];
            // SAFETY: room for two.
            let made = unsafe { libc::pipe2(ends.as_mut_ptr(), libc::O_NONBLOCK) };
            assert_eq!(made, 0);
            world.join(ends[0], Kind::Pipe { writer: ends[1] }, rng);
            // SAFETY: takes plain numbers.
            let counter = unsafe { libc::eventfd(0, libc::EFD_NONBLOCK) };
            world.join(counter, Kind::Counter, rng);
        }
        world
    }

    pub fn members(&self) -> impl Iterator<Item = &Member> {
        self.members.values()
    }

    pub fn kind(&self, number: u64) -> Kind {
        self.members[&number].kind
    }

    fn join(&mut self, fd: RawFd, kind: Kind, rng: &mut Rng) -> u64 {
        let number = self.next;
        self.next += 1;
        let member = Member {
            number,
            fd,
            kind,
            level: interest(rng),
            edge: interest(rng),
            shot: rng.pick(&[EPOLLIN, EPOLLIN | EPOLLOUT, EPOLLIN | EPOLLRDHUP]),
            unread: 0,
            peer_shut: false,
            shut: false,
            due: true,
            armed: true,
        };
        self.members.insert(number, member);
        number
    }

    /// A new connection: two members.
    fn connect(&mut self, rng: &mut Rng) -> [u64; 2] {
        let address = self.listener.local_addr().expect("address");
        let near = TcpStream::connect(address).expect("connect");
        let (far, _) = self.listener.accept().expect("accept");
        for end in [&near, &far] {
            end.set_nodelay(true).expect("TCP_NODELAY");
            end.set_nonblocking(true).expect("O_NONBLOCK");
        }
        let peer = self.next + 1;
        let one = self.join(near.into_raw_fd(), Kind::Connection { peer }, rng);
        let two = self.join(far.into_raw_fd(), Kind::Connection { peer: one }, rng);
        [one, two]
    }

    fn get(&mut self, number: u64) -> &mut Member {
        self.members.get_mut(&number).expect("a member")
    }

    /// Level-triggered: what must be told now.
    pub fn expected(&self) -> BTreeMap<u64, i32> {
        let told = self
            .members
            .values()
            .map(|member| (member.number, member.told(member.level)));
        told.filter(|(_, events)| *events != 0).collect()
    }

    pub fn edge_told(&mut self, number: u64, events: i32, told: &str) {
        let member = self.get(number);
        let holds = member.told(member.edge);
        assert_eq!(
            events, holds,
            "{told}: edge of {number} ({:?})",
            member.kind
        );
        member.due = false;
    }

    pub fn check_edges(&self, told: &str) {
        for member in self.members.values() {
            let missing = member.due && member.told(member.edge) != 0;
            assert!(
                !missing,
                "{told}: no edge of {} ({:?})",
                member.number, member.kind
            );
        }
    }

    /// A one-shot member that must be told.
    pub fn shot_due(&self) -> Option<u64> {
        let mut members = self.members.values();
        let due = members.find(|member| member.armed && member.told(member.shot) != 0);
        due.map(|member| member.number)
    }

    pub fn shot_told(&mut self, number: u64, events: i32, told: &str) {
        // One that has gone since may have been told just before.
        let Some(member) = self.members.get_mut(&number) else {
            return;
        };
        assert!(
            member.armed,
            "{told}: {number} ({:?}) is told twice",
            member.kind
        );
        let holds = member.told(member.shot);
        assert!(
            events & holds != 0,
            "{told}: shot of {number} tells {events:#x}, not {holds:#x}"
        );
        member.armed = false;
    }

    pub fn disarmed(&self) -> Vec<u64> {
        let disarmed = self.members.values().filter(|member| !member.armed);
        disarmed.map(|member| member.number).collect()
    }

    pub fn arm(&mut self, number: u64) -> &Member {
        let member = self.get(number);
        member.armed = true;
        member
    }

    /// One random thing; gives its name.
    pub fn act(&mut self, rng: &mut Rng, sets: &Sets) -> String {
        let numbers: Vec<u64> = self.members.keys().copied().collect();
        let number = rng.pick(&numbers);
        let kind = self.kind(number);
        match rng.below(100) {
            0..45 => self.send(number, rng),
            45..85 => self.receive(number, rng),
            85..90 => self.change(number, rng, sets),
            90..92 if kind.is_connection() => self.shut(number),
            92..95 if kind.is_connection() => self.replace(number, rng, sets),
            95..97 => self.rejoin(number, sets),
            _ => self.look(number, sets),
        }
    }

    /// To where `number` reads, or from it, if it is a connection.
    fn send(&mut self, number: u64, rng: &mut Rng) -> String {
        let (member, size) = (self.get(number), rng.size(5000));
        let (fd, to, bytes) = match member.kind {
            Kind::Connection { .. } if member.shut => return "nothing to send".to_owned(),
            Kind::Connection { peer } => (member.fd, peer, vec![1; size]),
            Kind::Pipe { writer } => (writer, number, vec![1; size]),
            Kind::Counter => (member.fd, number, 1u64.to_ne_bytes().to_vec()),
        };
        if self.get(to).unread + size > MOST {
            return "enough unread".to_owned();
        }
        assert_eq!(sock::write(fd, &bytes).expect("write"), bytes.len());
        let receiver = self.get(to);
        receiver.unread += bytes.len();
        receiver.due |= receiver.edge & EPOLLIN != 0;
        format!("{} bytes to {to}", bytes.len())
    }

    fn receive(&mut self, number: u64, rng: &mut Rng) -> String {
        let member = self.get(number);
        let mut bytes = vec![
            0;
            if rng.below(2) == 0 {
                MOST
            } else {
                rng.size(3000)
            }
        ];
        if matches!(member.kind, Kind::Counter) {
            bytes.resize(8, 0);
        }
        let expected = match member.kind {
            Kind::Counter => member.unread.min(8),
            _ => member.unread.min(bytes.len()),
        };
        let mut got = 0;
        while got < expected {
            got += sock::read(member.fd, &mut bytes[got..]).expect("read");
        }
        if expected == 0 {
            let found = sock::read(member.fd, &mut bytes);
            assert_eq!(found.is_ok(), member.peer_shut, "{number}: end of file");
        }
        member.unread = match member.kind {
            Kind::Counter => 0,
            _ => member.unread - got,
        };
        format!("{got} bytes read by {number}")
    }

    fn change(&mut self, number: u64, rng: &mut Rng, sets: &Sets) -> String {
        let member = self.get(number);
        (member.level, member.edge) = (interest(rng), interest(rng));
        member.due = true;
        sets.change(member);
        format!("{number} changed")
    }

    fn rejoin(&mut self, number: u64, sets: &Sets) -> String {
        let member = self.get(number);
        sets.remove(member);
        (member.due, member.armed) = (true, true);
        sets.add(member);
        format!("{number} removed and added")
    }

    fn shut(&mut self, number: u64) -> String {
        let member = self.get(number);
        let Kind::Connection { peer } = member.kind else {
            return String::new();
        };
        // SAFETY: the member's own number, which stays open.
        let stream = unsafe { TcpStream::from_raw_fd(member.fd) };
        let done = stream.shutdown(Shutdown::Write);
        let _ = stream.into_raw_fd();
        if done.is_ok() && !member.shut {
            (member.shut, member.due) = (true, true);
            let other = self.get(peer);
            (other.peer_shut, other.due) = (true, true);
        }
        format!("{number} shut")
    }

    /// Both ends are closed, and a new connection comes.
    fn replace(&mut self, number: u64, rng: &mut Rng, sets: &Sets) -> String {
        let Kind::Connection { peer } = self.kind(number) else {
            return String::new();
        };
        for number in [number, peer] {
            let member = self.members.remove(&number).expect("a member");
            if rng.below(2) == 0 {
                sets.remove(&member);
            }
            // SAFETY: the member's own number, closed here.
            drop(unsafe { OwnedFd::from_raw_fd(member.fd) });
        }
        for number in self.connect(rng) {
            sets.add(&self.members[&number]);
        }
        format!("{number} and {peer} replaced")
    }

    fn look(&mut self, number: u64, sets: &Sets) -> String {
        let member = self.get(number);
        let found = i32::from(sets.glance(member));
        let holds = member.told(EPOLLIN | EPOLLOUT);
        assert_eq!(found & !holds, 0, "poll of {number} ({:?})", member.kind);
        format!("{number} polled")
    }
}
