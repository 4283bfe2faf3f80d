//! Everybody gets everything, of each sender in order.

use std::collections::HashMap;
use std::thread;

use ulsock_native::group::{Event, Group, GroupError, Options, Receiver, Sender};
use ulsock_native::run::spawn;

use super::common::run;
use super::help::{await_members, join, members, message, next, service, small};

#[test]
fn a_message_comes_to_all_others() {
    let mut all = members(&service(), 3, Options::default());
    all[0].send(b"hello").expect("sent");
    let number = all[0].number();
    for group in &mut all[1..] {
        assert_eq!(message(group), (number, b"hello".to_vec()));
    }
    all[1].send(b"").expect("sent");
    let number = all[1].number();
    assert_eq!(message(&mut all[0]), (number, Vec::new()));
    assert_eq!(message(&mut all[2]), (number, Vec::new()));
    // Nobody gets its own.
    let nothing = all[1].receiver().try_recv(&mut [0; 10]).expect("no error");
    assert_eq!(nothing, None);
    assert_eq!(all[2].members().len(), 2);
}

/// What a sender sends as its message of this number.
fn pattern(sender: u32, number: u64) -> Vec<u8> {
    let len = (number * 37 + u64::from(sender)) % 700;
    let mut bytes = number.to_le_bytes().to_vec();
    bytes.extend((0..len).map(|at| (at ^ number) as u8));
    bytes
}

fn send_all(mut sender: Sender, number: u32, count: u64) -> Sender {
    for at in 0..count {
        sender.send(&pattern(number, at)).expect("sent");
    }
    sender
}

fn receive_all(mut receiver: Receiver, senders: usize, count: u64) -> Receiver {
    let mut next: HashMap<u32, u64> = HashMap::new();
    let mut room = [0; 4096];
    for _ in 0..senders as u64 * count {
        match receiver.recv(&mut room).expect("an event") {
            Event::Message { from, len } => {
                let number = next.entry(from.number).or_default();
                assert_eq!(room[..len], pattern(from.number, *number));
                *number += 1;
            }
            other => panic!("{other:?}"),
        }
    }
    assert!(next.values().all(|number| *number == count));
    receiver
}

fn exchange(groups: Vec<Group>, count: u64) {
    let others = groups.len() - 1;
    let threads: Vec<_> = groups
        .into_iter()
        .map(|group| {
            let number = group.number();
            let (sender, receiver) = group.split();
            let sends = thread::spawn(move || send_all(sender, number, count));
            let receives = thread::spawn(move || receive_all(receiver, others, count));
            (sends, receives)
        })
        .collect();
    let halves: Vec<_> = threads
        .into_iter()
        .map(|(sends, receives)| (sends.join(), receives.join()))
        .collect();
    for (sends, receives) in halves {
        sends.expect("all is sent");
        receives.expect("all has come");
    }
}

/// Through rings that are full again and again.
#[test]
fn everybody_sends_to_everybody() {
    exchange(members(&service(), 4, small(4096)), 3000);
    exchange(members(&service(), 8, small(64 << 10)), 1000);
}

#[test]
fn as_tasks() {
    let service = service();
    let all = members(&service, 3, small(4096));
    let threads: Vec<_> = all
        .into_iter()
        .map(|group| {
            let number = group.number();
            let (mut sender, mut receiver) = group.split();
            thread::spawn(move || {
                let sends = async move {
                    for at in 0..500 {
                        sender.send_async(&pattern(number, at)).await?;
                    }
                    sender.flush_async().await?;
                    Ok::<Sender, GroupError>(sender)
                };
                let receives = async move {
                    let (mut room, mut count) = ([0; 4096], 0);
                    while count < 1000 {
                        match receiver.recv_async(&mut room).await? {
                            Event::Message { .. } => count += 1,
                            other => panic!("{other:?}"),
                        }
                    }
                    Ok::<Receiver, GroupError>(receiver)
                };
                run(async {
                    let sends = spawn(sends);
                    let received = receives.await;
                    (sends.await, received)
                })
            })
        })
        .collect();
    let ends: Vec<_> = threads.into_iter().map(|thread| thread.join()).collect();
    for end in ends {
        let (sent, received) = end.expect("no panic");
        sent.expect("all is sent");
        received.expect("all has come");
    }
}

/// Who joins in the middle gets a part without gaps, which begins there.
#[test]
fn join_in_the_middle() {
    let service = service();
    let (mut sender, mut first) = (join(&service), join(&service));
    await_members(&mut sender, 1);
    await_members(&mut first, 1);
    let sends = thread::spawn(move || {
        let mut number = 0_u64;
        while sender.members().len() < 2 {
            sender.send(&number.to_le_bytes()).expect("sent");
            number += 1;
        }
        for _ in 0..1000 {
            sender.send(&number.to_le_bytes()).expect("sent");
            number += 1;
        }
        sender.leave().expect("all is taken");
        number
    });
    let reads = |mut group: Group| {
        thread::spawn(move || {
            let mut numbers = Vec::new();
            let mut room = [0; 8];
            loop {
                match next(&mut group, &mut room) {
                    Event::Message { .. } => numbers.push(u64::from_le_bytes(room)),
                    Event::Left(_) => return numbers,
                    Event::Joined(_) => {}
                    other => panic!("{other:?}"),
                }
            }
        })
    };
    let first = reads(first);
    let second = reads(join(&service));
    let count = sends.join().expect("sent");
    assert_eq!(first.join().expect("read"), (0..count).collect::<Vec<_>>());
    let second = second.join().expect("read");
    assert!(second.len() >= 1000);
    let begin = count - second.len() as u64;
    assert_eq!(second, (begin..count).collect::<Vec<_>>());
}
