//! A connection that its program has left to the daemon, and a peer that sends without end.

use std::io::{ErrorKind, Write};
use std::net::{TcpListener, TcpStream};
use std::os::fd::{AsFd, OwnedFd};
use std::sync::atomic::Ordering;

use netstack::failover::Segment as _;
use netstack::failover::record::Resume;
use rustix::io::ioctl_fionread;
use rustix::net::{AddressFamily, SocketFlags, SocketType, socketpair};

use super::program::{KEY, waiter};
use super::world::eventually;
use crate::clock::now;
use crate::orphan::{Fate, Known, Orphan};
use os::fds::to_high;
use rendezvous::channel::Channel;
use rendezvous::engine_endpoint::Block;
use rendezvous::pair::{Other, Pair};

const KNOWN: Known = Known {
    end_acked: false,
    closed: false,
};

/// As much as both sockets hold.
fn flood(peer: &mut TcpStream) {
    peer.set_nonblocking(true).expect("a mode");
    loop {
        match peer.write(&[7; 1 << 16]) {
            Ok(_) => {}
            Err(why) if why.kind() == ErrorKind::WouldBlock => return,
            Err(why) => panic!("{why}"),
        }
    }
}

/// The daemon has one thread: nobody keeps it for longer than a turn.
#[test]
fn a_peer_that_sends_without_end_is_read_in_turns() {
    waiter();
    let flags = SocketFlags::NONBLOCK | SocketFlags::CLOEXEC;
    let ends = socketpair(AddressFamily::UNIX, SocketType::SEQPACKET, flags, None);
    let (near, _far) = ends.expect("a channel");
    let channel = Channel::accepted(near).expect("a channel");
    let pair = Pair::with(Other::Program, channel).expect("a pair");
    let block = Block::allocate(&pair).expect("a block");
    let promotion = &block.theirs().promotion;
    promotion.key.store(KEY, Ordering::Relaxed);
    promotion.epoch.store(1, Ordering::Relaxed);
    block.freeze();

    let listener = TcpListener::bind("127.0.0.1:0").expect("to listen");
    let mut peer = TcpStream::connect(listener.local_addr().expect("an address")).expect("a peer");
    let (socket, _) = listener.accept().expect("to accept");
    let socket = to_high(OwnedFd::from(socket)).expect("a socket");
    let mut orphan = Orphan::new(socket, 1, true, &block, now());
    assert_eq!(orphan.run(now(), &block, KNOWN), Fate::Waits);
    let record = Resume {
        key: KEY,
        epoch: 1,
        received: 0,
        from: 0,
        written: 0,
    };
    peer.write_all(&record.to_bytes()).expect("to write");
    flood(&mut peer);
    let unread = |orphan: &Orphan| ioctl_fionread(orphan.socket().as_fd()).expect("a count");
    eventually("a flood", || (unread(&orphan) > 100_000).then_some(()));
    assert_eq!(orphan.run(now(), &block, KNOWN), Fate::Waits);
    assert!(orphan.is_unfinished && unread(&orphan) > 0);
    eventually("that all is read", || {
        assert_eq!(orphan.run(now(), &block, KNOWN), Fate::Waits);
        (!orphan.is_unfinished).then_some(())
    });
}
