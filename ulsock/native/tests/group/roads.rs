//! Between two hosts, where connections fail and relays are not to be read.

use std::collections::HashMap;
use std::io::{Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant};

use ulsock_native::group::{Event, Group, Options};

use super::help::{await_members, members_on, message, next, service, small};
use super::hosts::{build_road, join_on};

/// What is on the way to one member.
#[derive(Default)]
struct Road {
    /// So many connections are closed as soon as they are there.
    refuses: AtomicU32,
    /// What the one who has connected says is not passed on.
    is_shut: AtomicBool,
    ends: Mutex<Vec<TcpStream>>,
}

impl Road {
    /// An address that leads there.
    fn lay(self: &Arc<Road>, to: SocketAddr) -> SocketAddr {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a listener");
        let address = listener.local_addr().expect("an address");
        let road = self.clone();
        thread::spawn(move || {
            for near in listener.incoming() {
                road.connect(near.expect("a connection"), to);
            }
        });
        address
    }

    fn connect(self: &Arc<Road>, near: TcpStream, to: SocketAddr) {
        let less = |left: u32| left.checked_sub(1);
        if self
            .refuses
            .fetch_update(Ordering::SeqCst, Ordering::SeqCst, less)
            .is_ok()
        {
            return;
        }
        let Ok(far) = TcpStream::connect(to) else {
            return;
        };
        let clone = |stream: &TcpStream| stream.try_clone().expect("a descriptor");
        self.ends
            .lock()
            .expect("ends")
            .extend([clone(&near), clone(&far)]);
        let (back, forth) = ((clone(&far), clone(&near)), (near, far));
        let road = self.clone();
        thread::spawn(move || road.pass(forth.0, forth.1, true));
        let road = self.clone();
        thread::spawn(move || road.pass(back.0, back.1, false));
    }

    fn pass(&self, mut from: TcpStream, mut to: TcpStream, can_be_shut: bool) {
        let mut room = [0; 4096];
        while let Ok(n @ 1..) = from.read(&mut room) {
            while can_be_shut && self.is_shut.load(Ordering::SeqCst) {
                thread::sleep(Duration::from_millis(1));
            }
            if to.write_all(&room[..n]).is_err() {
                break;
            }
        }
        let _ = to.shutdown(Shutdown::Write);
    }

    /// What is on the way is lost.
    fn cut(&self) {
        for end in &*self.ends.lock().expect("ends") {
            let _ = end.shutdown(Shutdown::Both);
        }
        self.is_shut.store(false, Ordering::SeqCst);
    }
}

/// Within a time in which nobody's patience ends.
fn soon(group: &mut Group, room: &mut [u8]) -> Event {
    let begin = Instant::now();
    let event = next(group, room);
    let time = begin.elapsed();
    assert!(time < Duration::from_secs(8), "{event:?} after {time:?}");
    event
}

#[test]
fn everything_comes_to_the_other_host() {
    let mut all = members_on(&[0, 1, 1, 1], &service(), small(4096));
    let receivers = all.split_off(1);
    let sender = &mut all[0];
    let receives: Vec<_> = receivers
        .into_iter()
        .map(|mut group| {
            thread::spawn(move || {
                for count in 0..500_u32 {
                    assert_eq!(message(&mut group).1, vec![count as u8; count as usize * 2]);
                }
                match next(&mut group, &mut []) {
                    Event::Left(_) => group,
                    other => panic!("{other:?}"),
                }
            })
        })
        .collect();
    for count in 0..500_u32 {
        sender
            .send(&vec![count as u8; count as usize * 2])
            .expect("sent");
    }
    all.remove(0).leave().expect("all is taken");
    for receive in receives {
        receive.join().expect("all has come");
    }
}

/// Connections that fail at first are made again, and their members meet.
#[test]
fn who_is_not_met_at_first_is_met_later() {
    let service = service();
    let road = Arc::<Road>::default();
    road.refuses.store(4, Ordering::SeqCst);
    let there = road.clone();
    build_road(&service, move |_, to| there.lay(to));
    let mut all: Vec<Group> = (0..4)
        .map(|at| join_on(at % 2, &service, Options::default()))
        .collect();
    for group in &mut all {
        await_members(group, 3);
    }
    assert_eq!(road.refuses.load(Ordering::SeqCst), 0);
    all[0].send(b"hello").expect("sent");
    for group in &mut all[1..] {
        assert_eq!(message(group).1, b"hello");
    }
}

/// Who is put out by the relay of its host gets everything from the sender itself.
#[test]
fn a_relay_that_has_put_us_out() {
    let service = service();
    let impatient = Options {
        patience: Some(Duration::from_millis(200)),
        ..small(4096)
    };
    let mut sender = join_on(0, &service, small(4096));
    // The first that comes is the relay.
    let mut relay = join_on(1, &service, impatient);
    await_members(&mut relay, 1);
    await_members(&mut sender, 1);
    let mut other = join_on(1, &service, small(4096));
    await_members(&mut other, 2);
    await_members(&mut relay, 1);
    await_members(&mut sender, 1);
    for count in 0..4 {
        relay.send(&[count; 1000]).expect("sent");
        assert_eq!(message(&mut sender).1, [count; 1000]);
    }
    relay.send(&[4; 1000]).expect("sent");
    match soon(&mut relay, &mut []) {
        Event::Failed(member) => assert_eq!(member.number, other.number()),
        event => panic!("{event:?}"),
    }
    let number = relay.number();
    loop {
        match soon(&mut other, &mut [0; 1000]) {
            Event::Failed(member) if member.number == number => break,
            Event::Message { from, .. } if from.number == number => {}
            event => panic!("{event:?}"),
        }
    }
    for count in 0..20 {
        sender.send(&[count; 1000]).expect("sent");
        let mut room = [0; 1000];
        match soon(&mut other, &mut room) {
            Event::Message { len: 1000, .. } => assert_eq!(room, [count; 1000]),
            event => panic!("{event:?}"),
        }
        match soon(&mut relay, &mut room) {
            Event::Message { len: 1000, .. } => assert_eq!(room, [count; 1000]),
            event => panic!("{event:?}"),
        }
    }
}

/// Joins as one whose number is of this part of all: the lower of two connects to the higher.
fn join_numbered(host: usize, service: &str, part: std::ops::Range<u32>) -> Group {
    loop {
        let group = join_on(host, service, Options::default());
        if part.contains(&(group.number() >> 24)) {
            return group;
        }
    }
}

/// A sender that leaves while it cannot reach the relay of another host: all there hear of its end, though not all has come.
#[test]
fn a_relay_that_has_not_got_all() {
    let service = service();
    let roads = Arc::<Mutex<HashMap<u32, Arc<Road>>>>::default();
    let laid = roads.clone();
    build_road(&service, move |number, to| {
        let road = Arc::<Road>::default();
        laid.lock().expect("roads").insert(number, road.clone());
        road.lay(to)
    });
    let mut relay = join_numbered(1, &service, 32..256);
    // It connects to both, and the first of them is its relay.
    let mut sender = join_numbered(0, &service, 0..32);
    let number = sender.number();
    await_end(&mut sender, relay.number(), false);
    let mut other = join_numbered(1, &service, 32..256);
    await_end(&mut sender, other.number(), false);
    await_end(&mut other, number, false);
    let road = roads.lock().expect("roads")[&relay.number()].clone();
    road.is_shut.store(true, Ordering::SeqCst);
    sender.send(&[1; 100]).expect("sent");
    drop(sender);
    thread::sleep(Duration::from_millis(100));
    road.cut();
    for group in [&mut relay, &mut other] {
        await_end(group, number, true);
    }
}

/// Others come and go; this one joins, or fails.
fn await_end(group: &mut Group, number: u32, fails: bool) {
    loop {
        match soon(group, &mut [0; 1000]) {
            Event::Joined(member) if member.number == number && !fails => return,
            Event::Failed(member) if member.number == number => {
                assert!(fails);
                return;
            }
            Event::Joined(_) | Event::Left(_) => {}
            event => panic!("{event:?}"),
        }
    }
}
