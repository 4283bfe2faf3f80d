//! Finding each other, and parting.

use netstack::link::Dropped;
use netstack::link::Terms;

use super::super::host::Outcome;
use super::*;

const TERMS: Terms = Terms {
    name: 5,
    send_from: 77,
    receive_from: 1000,
    ring: 1000,
};

// [H1]
#[test]
fn hello_is_repeated_and_then_given_up() {
    let mut pair = pair();
    let begin = pair.now;
    let log = log(&mut pair.to_b);
    pair.to_b.cut = true;
    let (a, _) = pair.connect(1, 1000);
    run(&mut pair, MS * 7000);
    let times: Vec<u64> = log
        .borrow()
        .iter()
        .map(|(at, _)| (*at - begin).as_millis() as u64)
        .collect();
    assert_eq!(times, [0, 20, 60, 140, 300, 620, 1260, 2260, 3260, 4260]);
    assert_eq!(death(&pair.a), Some(Why::Silence));
    assert_eq!(pair.a.rings.get(a).outcome, Some(Outcome::WithLink));
    assert_eq!(pair.a.link.deadline(), None);
}

// [H2] [X3]
#[test]
fn hello_changes_nothing_and_its_answer_is_shorter() {
    let mut pair = pair();
    let (hellos, welcomes) = (log(&mut pair.to_b), log(&mut pair.to_a));
    pair.to_a.cut = true;
    pair.connect(1, 1000);
    run(&mut pair, MS * 4000);
    assert!(!pair.b.link.is_up() && pair.b.link.deadline().is_none());
    let (hellos, welcomes) = (hellos.borrow(), welcomes.borrow());
    assert_eq!(hellos.len(), welcomes.len());
    assert!(welcomes[0].1.len() < hellos[0].1.len());
}

// [H3]
#[test]
fn confirm_is_repeated() {
    let mut pair = pair();
    lose(&mut pair.to_b, Kind::Confirm, 3);
    let (a, b) = pair.connect(1, 1000);
    pair.a.write(pair.now, a, 500);
    run(&mut pair, MS * 100);
    assert_eq!(pair.b.rings.get(b).read, 1500);
}

// [H3]
#[test]
fn welcome_is_asked_for_again() {
    let mut pair = pair();
    lose(&mut pair.to_a, Kind::Welcome, 2);
    let (a, b) = pair.connect(1, 1000);
    pair.a.write(pair.now, a, 500);
    run(&mut pair, MS * 100);
    assert_eq!(pair.b.rings.get(b).read, 1500);
}

/// The packet that another host at the address of `a` would send first.
fn impostor(pair: &mut Pair<Fixed>) -> super::super::net::Datagram {
    let mut impostor = Host::new(1, 2, 99, Fixed::new(1 << 18), |_| {});
    let mut cable = Cable::new(Conditions::default(), 1);
    let id = impostor.link.open(pair.now, &TERMS).expect("room");
    impostor.adopt(id, &TERMS);
    impostor.transmit(pair.now, &mut cable);
    cable.take(pair.now + MS).expect("HELLO")
}

// [H4]
#[test]
fn a_forged_hello_ends_nothing() {
    let mut pair = pair();
    let (a, b) = pair.connect(1, 1000);
    run(&mut pair, MS * 10);
    let forged = impostor(&mut pair);
    assert_eq!(kind(&forged.payload), Kind::Hello);
    pair.b.receive(pair.now, &forged);
    pair.a.write(pair.now, a, 5000);
    run(&mut pair, MS * 10);
    assert_eq!(pair.b.rings.get(b).read, 6000);
    assert_eq!((ups(&pair.a), ups(&pair.b)), (1, 1));
}

fn restart(pair: &mut Pair<Fixed>) {
    let fresh = Host::new(1, 2, 77, Fixed::new(1 << 18), |_| {});
    pair.a = fresh;
}

// [H4]
#[test]
fn a_restarted_peer_ends_what_there_was_and_gets_what_is_new() {
    let mut pair = pair();
    let (a, old) = pair.connect(1, 1000);
    pair.a.write(pair.now, a, 300);
    run(&mut pair, MS * 10);
    restart(&mut pair);
    let (a, b) = pair.connect(2, 1000);
    pair.a.write(pair.now, a, 400);
    run(&mut pair, MS * 100);
    assert_eq!(death(&pair.b), Some(Why::Restarted));
    assert_eq!(pair.b.rings.get(old).outcome, Some(Outcome::WithLink));
    assert_eq!(pair.b.rings.get(b).read, 1400);
}

// [H4] [H2]
#[test]
fn a_late_confirm_of_an_earlier_incarnation_ends_nothing() {
    let mut pair = pair();
    let log = log(&mut pair.to_b);
    pair.connect(1, 1000);
    run(&mut pair, MS * 10);
    restart(&mut pair);
    let (a, b) = pair.connect(2, 1000);
    run(&mut pair, MS * 100);
    let late = log
        .borrow()
        .iter()
        .find(|(_, payload)| kind(payload) == Kind::Confirm)
        .expect("CONFIRM")
        .1
        .clone();
    let addresses = pair.a.ways[0].outgoing;
    let mut cable = Cable::new(Conditions::default(), 1);
    cable.send(pair.now, addresses, Default::default(), &late);
    let late = cable.take(pair.now + MS).expect("it");
    let before = pair.b.link.counters().dropped(Dropped::Handshake);
    pair.b.receive(pair.now, &late);
    assert_eq!(
        pair.b.link.counters().dropped(Dropped::Handshake),
        before + 1
    );
    pair.a.write(pair.now, a, 400);
    run(&mut pair, MS * 100);
    assert_eq!(pair.b.rings.get(b).read, 1400);
}

// [H5]
#[test]
fn both_may_begin() {
    let mut pair = pair();
    let (a, b) = pair.connect(1, 1000);
    let (b2, a2) = super::super::host::connect_on(&mut pair.b, &mut pair.a, pair.now, &TERMS);
    pair.a.write(pair.now, a, 500);
    pair.b.write(pair.now, b2, 600);
    run(&mut pair, MS * 10);
    assert_eq!(pair.b.rings.get(b).read, 1500);
    assert_eq!(pair.a.rings.get(a2).read, 677);
    assert_eq!((ups(&pair.a), ups(&pair.b)), (1, 1));
}

// [H6] [H7]
#[test]
fn bye_ends_a_link_and_the_next_one_is_another() {
    let mut pair = pair();
    let sent = log(&mut pair.to_b);
    let (a, b) = pair.connect(1, 1000);
    pair.a.write(pair.now, a, 500);
    run(&mut pair, MS * 10);
    pair.a.link.bye();
    run(&mut pair, MS * 10);
    assert_eq!(
        (death(&pair.a), death(&pair.b)),
        (Some(Why::Bye), Some(Why::Bye))
    );
    assert_eq!(pair.b.rings.get(b).tail, 1500);
    let (a, b) = pair.connect(2, 1000);
    pair.a.write(pair.now, a, 500);
    run(&mut pair, MS * 10);
    assert_eq!(pair.b.rings.get(b).read, 1500);
    // Late packets of the first link.
    let addresses = pair.a.ways[0].outgoing;
    let mut cable = Cable::new(Conditions::default(), 1);
    for (_, payload) in sent
        .borrow()
        .iter()
        .filter(|(_, payload)| kind(payload) == Kind::Data)
        .take(1)
    {
        cable.send(pair.now, addresses, Default::default(), payload);
    }
    let late = cable.take(pair.now + MS).expect("it");
    pair.b.receive(pair.now, &late);
    assert_eq!(pair.b.link.counters().dropped(Dropped::Crc), 1);
}

// [H6] A link that is not up yet ends too.
#[test]
fn bye_before_anybody_has_answered() {
    let mut pair = pair();
    pair.to_b.cut = true;
    let (a, _) = pair.connect(1, 1000);
    run(&mut pair, MS);
    pair.a.link.bye();
    run(&mut pair, MS);
    assert_eq!(pair.a.rings.get(a).outcome, Some(Outcome::WithLink));
    assert_eq!(
        (pair.a.link.deadline(), pair.a.link.connections()),
        (None, 0)
    );
}
