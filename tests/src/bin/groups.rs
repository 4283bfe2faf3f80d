//! A member of a group: `groups service=S [host=A] [ring=N] [len=N] [pause=US]`.
//!
//! It sends numbered messages until something comes on stdin, then a last one, and receives those of all others, which must come in order and
//! without gaps. When it has the last one of each that is still there, it leaves and prints `done`, how many have joined, left and
//! failed, and how many messages have come. It prints `+` with the pid of each that joins, `-` of each that leaves and `!` of
//! each that fails.

use std::collections::HashMap;
use std::io::{self, Read};
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use native::group::{Event, Group, GroupError, Options, Sender};
use native::names::Names;
use tests::args::Args;

/// Instead of the number of a message: the last one.
const LAST: u64 = u64::MAX;

fn main() {
    let args = Args::from_env();
    let host = args.get_or("host", IpAddr::from(Ipv4Addr::LOCALHOST));
    let options = Options {
        address: SocketAddr::new(host, 0),
        ring: args.get_or("ring", 64 << 10),
        ..Options::default()
    };
    let names = Names::open().expect("names");
    let service: String = args.get("service");
    let group = Group::join(&names, &service, options).expect("a group");
    let (mut sender, mut receiver) = group.split();
    let is_over = Arc::new(AtomicBool::new(false));
    let told = is_over.clone();
    thread::spawn(move || {
        let _ = io::stdin().read(&mut [0]).expect("stdin");
        told.store(true, Ordering::Relaxed);
    });
    let (most, pause) = (args.get_or("len", 200), args.get_or("pause", 50));
    let sends = thread::spawn(move || {
        send(&mut sender, most, Duration::from_micros(pause), &is_over).expect("sent");
        sender
    });
    let mut seen = Seen::default();
    let mut room = vec![0; 1 << 20];
    while !(sends.is_finished() && seen.is_complete()) {
        let event = receiver.recv_within(Duration::from_millis(20), &mut room);
        if let Some(event) = event.expect("an event") {
            seen.note(event, &room);
        }
    }
    let mut sender = sends.join().expect("the sender");
    sender.flush().expect("all is taken");
    let Seen {
        joined,
        left,
        failed,
        messages,
        ..
    } = seen;
    println!("done {joined} {left} {failed} {messages}");
}

/// Its bytes, by its number.
fn message(number: u64, most: u64) -> Vec<u8> {
    let len = if most == 0 { 0 } else { number * 97 % most };
    let mut bytes = number.to_le_bytes().to_vec();
    bytes.extend((0..len).map(|at| (at ^ number) as u8));
    bytes
}

fn send(
    sender: &mut Sender,
    most: u64,
    pause: Duration,
    is_over: &AtomicBool,
) -> Result<(), GroupError> {
    let mut number = 0;
    while !is_over.load(Ordering::Relaxed) {
        sender.send(&message(number, most))?;
        number += 1;
        if !pause.is_zero() {
            thread::sleep(pause);
        }
    }
    sender.send(&LAST.to_le_bytes())?;
    sender.flush()
}

/// What has come.
#[derive(Default)]
struct Seen {
    /// The number of the next message of each that is there; `LAST`: there is none.
    next: HashMap<u32, Option<u64>>,
    joined: u32,
    left: u32,
    failed: u32,
    messages: u64,
}

impl Seen {
    fn note(&mut self, event: Event, room: &[u8]) {
        match event {
            Event::Joined(member) => {
                println!("+ {}", member.pid);
                let before = self.next.insert(member.number, None);
                assert_eq!(before, None, "it joins twice");
                self.joined += 1;
            }
            Event::Left(member) => {
                println!("- {}", member.pid);
                assert_eq!(self.next.remove(&member.number), Some(Some(LAST)));
                self.left += 1;
            }
            Event::Failed(member) => {
                println!("! {}", member.pid);
                assert!(self.next.remove(&member.number).is_some());
                self.failed += 1;
            }
            Event::Message { from, len } => {
                self.messages += 1;
                let next = self.next.get_mut(&from.number).expect("a member");
                let number = room.first_chunk().copied().map(u64::from_le_bytes);
                let number = number.expect("a number");
                assert_ne!(*next, Some(LAST), "a message after the last");
                if number == LAST {
                    *next = Some(LAST);
                    return;
                }
                assert_eq!(next.unwrap_or(number), number, "of {}", from.pid);
                check(&room[8..len], number);
                *next = Some(number + 1);
            }
        }
    }

    /// Nobody is there whose last message has not come.
    fn is_complete(&self) -> bool {
        self.next.values().all(|next| *next == Some(LAST))
    }
}

fn check(bytes: &[u8], number: u64) {
    for (at, byte) in bytes.iter().enumerate() {
        assert_eq!(*byte, (at as u64 ^ number) as u8, "byte {at} of {number}");
    }
}
