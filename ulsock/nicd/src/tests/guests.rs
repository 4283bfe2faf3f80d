//! Programs in containers: the daemon of the first host is that of both, and one end of each connection is in
//! its own network namespace.

use std::net::{TcpListener, TcpStream};
use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;

use rustix::net::{
    AddressFamily, RecvFlags, SendFlags, SocketFlags, SocketType, recv, send, socketpair,
};

use super::program::{streams, streams_to, waiter};
use super::world::{TestHost, World, eventually};
use os::tcp;
use rendezvous::channel::Channel;
use rendezvous::message::{Introduction, Message};
use rendezvous::pair::{Mail, Other, Pair};
use rendezvous::reason::Reason;
use rendezvous::rundir::RunDir;

pub struct TestGuest(pub Arc<Pair>);

impl TestGuest {
    pub fn of(host: &TestHost) -> TestGuest {
        waiter();
        let dir = RunDir::open(&host.run_dir).expect("a run directory");
        let channel = Channel::connect_to_host(&dir).expect("a door");
        TestGuest(Pair::with(Other::HostDaemon, channel).expect("a pair"))
    }

    pub fn seek(&self, stream: &TcpStream, connected: bool) -> u64 {
        let cookie = tcp::cookie(stream.as_fd()).expect("a cookie");
        self.seek_as(cookie, connected, stream.as_fd());
        cookie
    }

    fn seek_as(&self, cookie: u64, connected: bool, socket: std::os::fd::BorrowedFd<'_>) {
        let message = Message::Seek {
            cookie,
            connected,
            translated: true,
        };
        assert!(self.0.tell(&message, Some(socket)));
    }

    fn mail(&self) -> Mail {
        eventually("mail", || self.any_mail())
    }

    pub fn any_mail(&self) -> Option<Mail> {
        self.0.receive();
        self.0.next_mail()
    }

    pub fn introduction(&self) -> (Introduction, OwnedFd) {
        match self.mail() {
            Mail::Introduced { it, channel } => {
                (it, channel.as_fd().try_clone_to_owned().expect("a copy"))
            }
            other => panic!("{other:?}"),
        }
    }

    pub fn found(&self) -> (u64, u64, u32) {
        match self.mail() {
            Mail::Found {
                cookie,
                other,
                number,
            } => (cookie, other, number),
            other => panic!("{other:?}"),
        }
    }

    fn refusal(&self) -> Reason {
        match self.mail() {
            Mail::Refused { reason, .. } => Reason::from_number(reason.into()),
            other => panic!("{other:?}"),
        }
    }
}

/// By an address that is no other host's.
fn ends_in_containers(world: &World) -> [TcpStream; 2] {
    streams_to(world, world.hosts[1].other_address())
}

/// Lets the daemon hear everything that was said before.
pub fn settle(guest: &TestGuest) {
    let stray = TcpListener::bind("127.0.0.1:0").expect("to listen");
    guest.seek_as(0, true, stray.as_fd());
    assert_eq!(guest.refusal(), Reason::Identity);
}

#[test]
fn two_programs_get_one_channel_for_all_their_connections() {
    let world = World::new("packet");
    let guests = [0, 1].map(|_| TestGuest::of(&world.hosts[0]));
    let mut numbers = Vec::new();
    for round in 0..2 {
        let ends = ends_in_containers(&world);
        let near = guests[0].seek(&ends[0], true);
        let far = guests[1].seek(&ends[1], false);
        if round == 0 {
            let [offering, claiming] = [0, 1].map(|guest: usize| guests[guest].introduction());
            assert!(!offering.0.claims && claiming.0.claims);
            for it in [offering.0, claiming.0] {
                let us = rustix::process::geteuid().as_raw();
                assert!(it.same_user && it.uid == us);
                numbers.push(it.number);
            }
            send(&offering.1, b"hello", SendFlags::DONTWAIT).expect("a channel");
            let mut text = [0; 8];
            let got = recv(&claiming.1, &mut text, RecvFlags::DONTWAIT).expect("its other end");
            assert_eq!(&text[..got.0], b"hello");
        }
        assert_eq!(guests[0].found(), (near, far, numbers[0]));
        assert_eq!(guests[1].found(), (far, near, numbers[1]));
    }
    let status = world.hosts[0].status().expect("a status");
    assert_eq!((status.guests, status.introduced), (2, 2));
    // It does without the daemon, and the daemon forgets who is gone.
    drop(guests);
    eventually("nobody", || {
        let status = world.hosts[0].status()?;
        (status.guests == 0).then_some(())
    });
}

#[test]
fn what_is_not_the_connection_of_its_user_is_refused() {
    let world = World::new("packet");
    let guest = TestGuest::of(&world.hosts[0]);
    let [near, far] = streams(&world);
    let cookie = tcp::cookie(near.as_fd()).expect("a cookie");
    let flags = SocketFlags::CLOEXEC;
    let kind = SocketType::STREAM;
    let (unix, _other) = socketpair(AddressFamily::UNIX, kind, flags, None).expect("a pair");
    let file = std::fs::File::open("/dev/null").expect("a file");
    let listener = TcpListener::bind("127.0.0.1:0").expect("to listen");
    let listening = tcp::cookie(listener.as_fd()).expect("a cookie");
    for (cookie, socket) in [
        (cookie + 1, near.as_fd()),
        (cookie, far.as_fd()),
        (cookie, unix.as_fd()),
        (cookie, file.as_fd()),
        (listening, listener.as_fd()),
    ] {
        guest.seek_as(cookie, true, socket);
        assert_eq!(guest.refusal(), Reason::Identity);
    }
    // Somebody else's.
    rustix::fs::fchown(&near, Some(rustix::fs::Uid::from_raw(1)), None).expect("root");
    guest.seek(&near, true);
    assert_eq!(guest.refusal(), Reason::Identity);
}

/// The peers file knows whose its address is; but in another network namespace it may be somebody else's.
#[test]
fn nobody_is_sought_who_is_on_another_host() {
    let world = World::new("packet");
    let guest = TestGuest::of(&world.hosts[0]);
    let [near, far] = streams(&world);
    for connected in [true, false] {
        guest.seek(&near, connected);
        assert_eq!(guest.refusal(), Reason::OtherHost);
    }
    guest.seek(&far, false);
    settle(&guest);
    assert!(guest.any_mail().is_none());
}

#[test]
fn ends_that_do_not_belong_together_stay_apart() {
    let world = World::new("packet");
    let guests = [0, 1].map(|_| TestGuest::of(&world.hosts[0]));
    let [[near, far], [other, _rest]] = [(); 2].map(|()| ends_in_containers(&world));
    // Both connected, or both ends of one program: nobody is the other end of anybody.
    guests[0].seek(&near, true);
    guests[1].seek(&far, true);
    guests[0].seek(&other, true);
    guests[0].seek(&far, false);
    guests.iter().for_each(settle);
    assert_eq!(world.hosts[0].status().expect("a status").introduced, 0);
    // One that goes away takes what it has shown with it.
    let [first, second] = guests;
    drop(first);
    eventually("one", || {
        (world.hosts[0].status()?.guests == 1).then_some(())
    });
    second.seek(&far, false);
    settle(&second);
    assert!(second.any_mail().is_none());
}

/// What only programs of the host may say, and what only the daemon may.
#[test]
fn who_says_what_is_not_for_a_guest_is_shown_the_door() {
    let world = World::new("packet");
    let [near, _far] = streams(&world);
    let cookie = tcp::cookie(near.as_fd()).expect("a cookie");
    let show = Message::Show {
        cookie,
        connected: true,
    };
    let found = Message::Found {
        cookie,
        other: 1,
        number: 1,
    };
    for (message, socket) in [
        (show, Some(near.as_fd())),
        (found, None),
        (Message::Ask, None),
    ] {
        let guest = TestGuest::of(&world.hosts[0]);
        assert!(guest.0.tell(&message, socket));
        eventually("its end", || {
            guest.0.receive();
            guest.0.is_dead().then_some(())
        });
    }
}
