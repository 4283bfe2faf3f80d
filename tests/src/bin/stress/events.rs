//! Non-blocking modes: one thread serves both directions of all links by poll, select or epoll.
//!
//! Readiness must be honest: where only this thread reads, a level-triggered "readable" is followed
//! by a recv that does not say EAGAIN.

use std::io::{self, ErrorKind};
use std::net::Shutdown;

use tests::rng::Rng;
use tests::sock::{self, Epoll};

use crate::Link;
use crate::piece::{Receiver, Sender};

/// Steps per readiness report in the level-triggered modes.
const BURST: usize = 4;

/// One link's two halves.
struct Member<'a> {
    link: &'a Link,
    sender: Sender,
    receiver: Receiver,
    shut: bool,
}

impl<'a> Member<'a> {
    fn new(link: &'a Link) -> Self {
        sock::set_nonblocking(link.fd(), true).expect("O_NONBLOCK");
        let mut member = Self {
            link,
            sender: Sender::new(link),
            receiver: Receiver::new(link, false),
            shut: false,
        };
        member.shut_when_done();
        member
    }

    fn is_done(&self) -> bool {
        self.shut && self.receiver.is_done()
    }

    /// The poll events that this member still wants.
    fn interest(&self) -> i16 {
        let read = if self.receiver.is_done() {
            0
        } else {
            libc::POLLIN
        };
        let write = if self.sender.is_done() {
            0
        } else {
            libc::POLLOUT
        };
        read | write
    }

    fn shut_when_done(&mut self) {
        let early = !self.link.late || self.receiver.has_all();
        if self.sender.is_done() && early && !self.shut {
            let stream = &self.link.stream;
            stream.shutdown(Shutdown::Write).expect("shutdown");
            self.shut = true;
        }
    }

    /// Up to `steps` receives; gives how many went well before EAGAIN or the end.
    fn receive(&mut self, steps: usize) -> usize {
        let taken = (0..steps)
            .take_while(|_| !self.receiver.is_done() && went(self.receiver.step()))
            .count();
        self.shut_when_done();
        taken
    }

    fn send(&mut self, steps: usize) -> usize {
        let taken = (0..steps)
            .take_while(|_| !self.sender.is_done() && went(self.sender.step()))
            .count();
        self.shut_when_done();
        taken
    }

    /// Acts on level-triggered readiness.
    fn act(&mut self, events: i16, burst: usize) {
        if events & libc::POLLIN != 0 && !self.receiver.is_done() {
            assert!(self.receive(burst) > 0, "readable, and then EAGAIN");
        }
        if events & libc::POLLOUT != 0 && !self.shut {
            self.send(burst);
        }
    }
}

/// Whether a step did something; EAGAIN is the only error that may come.
fn went(step: io::Result<()>) -> bool {
    match step {
        Ok(()) => true,
        Err(error) if error.kind() == ErrorKind::WouldBlock => false,
        Err(error) => panic!("{error}"),
    }
}

/// Runs all links on this thread.
pub fn run(links: &[Link], mode: &str) {
    let mut members: Vec<Member> = links.iter().map(Member::new).collect();
    let mut rng = Rng::new(links[0].seed, links[0].stream_seed(3));
    match mode {
        "poll" => by_list(&mut members, &mut rng, |fds| sock::poll(fds, -1)),
        "select" => by_list(&mut members, &mut rng, sock::select),
        "epoll" => by_epoll(&mut members, &mut rng, 0),
        "oneshot" => by_epoll(&mut members, &mut rng, libc::EPOLLONESHOT),
        "edge" => by_edge(&mut members),
        other => panic!("no mode {other:?}"),
    }
}

fn by_list(
    members: &mut [Member],
    rng: &mut Rng,
    wait: impl Fn(&mut [libc::pollfd]) -> io::Result<usize>,
) {
    loop {
        let open: Vec<usize> = (0..members.len())
            .filter(|&i| !members[i].is_done())
            .collect();
        if open.is_empty() {
            return;
        }
        let entry = |&i: &usize| sock::pollfd(members[i].link.fd(), members[i].interest());
        let mut fds: Vec<libc::pollfd> = open.iter().map(entry).collect();
        assert!(wait(&mut fds).expect("wait") > 0, "nothing ready");
        for (&i, entry) in open.iter().zip(&fds) {
            members[i].act(entry.revents, 1 + rng.below(BURST));
        }
    }
}

/// Level-triggered, and one-shot, which is level-triggered with a MOD after every event.
fn by_epoll(members: &mut [Member], rng: &mut Rng, flags: i32) {
    let epoll = Epoll::new().expect("epoll");
    let mut interests = Vec::new();
    for (member, number) in members.iter().zip(0..) {
        let interest = member.interest();
        let events = i32::from(interest) | flags;
        epoll.add(member.link.fd(), events, number).expect("add");
        interests.push(interest);
    }
    while !members.iter().all(Member::is_done) {
        for (events, number) in epoll.wait(-1).expect("wait") {
            let member = &mut members[number as usize];
            member.act(events as i16, 1 + rng.below(BURST));
            let (interest, fd) = (member.interest(), member.link.fd());
            if member.is_done() {
                epoll.remove(fd).expect("remove");
            } else if flags != 0 || interest != interests[number as usize] {
                let events = i32::from(interest) | flags;
                epoll.modify(fd, events, number).expect("modify");
                interests[number as usize] = interest;
            }
        }
    }
}

/// Edge-triggered: registered once, each half worked until EAGAIN.
fn by_edge(members: &mut [Member]) {
    let epoll = Epoll::new().expect("epoll");
    let events = libc::EPOLLIN | libc::EPOLLOUT | libc::EPOLLRDHUP | libc::EPOLLET;
    for (member, number) in members.iter().zip(0..) {
        epoll.add(member.link.fd(), events, number).expect("add");
    }
    while !members.iter().all(Member::is_done) {
        for (events, number) in epoll.wait(-1).expect("wait") {
            let member = &mut members[number as usize];
            if events & (libc::EPOLLIN | libc::EPOLLRDHUP) != 0 {
                member.receive(usize::MAX);
            }
            if events & libc::EPOLLOUT != 0 {
                member.send(usize::MAX);
            }
        }
    }
}
