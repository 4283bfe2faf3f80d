//! Connections: how they open, end, and what nobody may count on.

use netstack::link::{Terms, reason};

use super::super::host::Outcome;
use super::*;

// [C1]
#[test]
fn open_and_accept_are_repeated() {
    let mut pair = pair();
    lose(&mut pair.to_b, Kind::Open, 2);
    lose(&mut pair.to_a, Kind::Accept, 2);
    let (a, b) = pair.connect(1, 1000);
    pair.a.write(pair.now, a, 500);
    run(&mut pair, MS * 200);
    assert_eq!(pair.b.rings.get(b).read, 1500);
}

// [C1]
#[test]
fn a_name_that_nobody_expects_is_refused() {
    let mut pair = pair();
    let (a, b) = pair.connect(1, 1000);
    pair.b.reset(pair.now, b, 16);
    lose(&mut pair.to_a, Kind::Reset, 2);
    run(&mut pair, MS * 200);
    assert_eq!(
        pair.a.rings.get(a).outcome,
        Some(Outcome::ByPeer(reason::UNEXPECTED))
    );
    assert_eq!(
        (pair.a.link.connections(), pair.a.link.deadline()),
        (0, None)
    );
    assert_eq!(death(&pair.a), None);
}

// [C3] Both hosts hear of it.
#[test]
fn ends_that_do_not_agree_are_reset() {
    let mut pair = pair();
    let terms = Terms {
        name: 1,
        send_from: 10,
        receive_from: 20,
        ring: 1000,
    };
    let b = pair.b.link.expect(&terms).expect("room");
    pair.b.adopt(b, &terms);
    let a = pair.a.link.open(pair.now, &terms).expect("room");
    pair.a.adopt(a, &terms);
    run(&mut pair, MS * 50);
    let outcome = Some(Outcome::ByPeer(reason::DISAGREEMENT));
    assert_eq!(pair.a.rings.get(a).outcome, outcome);
    assert_eq!(pair.b.rings.get(b).outcome, outcome);
    assert_eq!(
        (pair.a.link.connections(), pair.b.link.connections()),
        (0, 0)
    );
}

// [C5] [R7] A ring that is taken away holds up its own connection, and nothing else.
#[test]
fn a_frozen_ring_is_neither_written_nor_acknowledged() {
    let mut pair = pair();
    let (a, b) = pair.connect(1, 1000);
    let (a2, b2) = pair.connect(2, 1000);
    pair.a.write(pair.now, a, 500);
    run(&mut pair, MS * 10);
    pair.b.rings.get(b).frozen = true;
    lose(&mut pair.to_a, Kind::Reset, 12);
    pair.a.write(pair.now, a, 400);
    run(&mut pair, MS * 1);
    assert!(pair.b.events.contains(&Event::Frozen(b)));
    pair.a.write(pair.now, a2, 300);
    run(&mut pair, MS * 9000);
    assert_eq!(pair.b.rings.get(b2).read, 1300);
    // The score is checked where the event is heard.
    assert_eq!(
        pair.a.rings.get(a).outcome,
        Some(Outcome::ByPeer(reason::FROZEN))
    );
    assert_eq!(
        (pair.b.rings.get(b).tail, pair.a.rings.get(a).released),
        (1500, 1500)
    );
    assert_eq!((death(&pair.a), death(&pair.b)), (None, None));
}

// [C7]
#[test]
fn the_end_is_told_when_all_bytes_are_there() {
    let mut pair = pair();
    let (a, b) = pair.connect(1, 10_000);
    run(&mut pair, MS * 10);
    lose(&mut pair.to_b, Kind::Data, 1);
    pair.a.write(pair.now, a, 3000);
    pair.a.link.close(pair.now, a);
    let mut ended_at = None;
    pair.run(MS * 100, |pair| {
        if pair.b.rings.get(b).ended && ended_at.is_none() {
            ended_at = Some(pair.b.rings.get(b).tail);
        }
    });
    assert_eq!(ended_at, Some(4000));
}

// [C7] [C9]
#[test]
fn close_is_repeated_and_then_all_is_forgotten() {
    let mut pair = pair();
    let (a, b) = pair.connect(1, 10_000);
    run(&mut pair, MS * 10);
    lose(&mut pair.to_b, Kind::Close, 2);
    lose(&mut pair.to_a, Kind::Close, 2);
    pair.a.link.close(pair.now, a);
    pair.b.link.close(pair.now, b);
    run(&mut pair, MS * 100);
    assert_eq!(pair.a.rings.get(a).outcome, Some(Outcome::Closed));
    assert_eq!(pair.b.rings.get(b).outcome, Some(Outcome::Closed));
    assert_eq!(
        (pair.a.link.connections(), pair.b.link.connections()),
        (0, 0)
    );
    assert_eq!(
        (pair.a.link.deadline(), pair.b.link.deadline()),
        (None, None)
    );
    // [C2]
    let (again, _) = pair.connect(1, 10_000);
    assert!(again.index() == a.index() && again.token() != a.token());
}

// [C11] Whatever comes last, bytes or the end; once; and the other direction goes on.
#[test]
fn the_host_hears_when_the_peer_has_all() {
    for lost in [Kind::Data, Kind::Close, Kind::Ack] {
        let mut pair = pair();
        let (a, b) = pair.connect(1, 10_000);
        run(&mut pair, MS * 10);
        match lost {
            Kind::Ack => lose(&mut pair.to_a, lost, 2),
            _ => lose(&mut pair.to_b, lost, 2),
        }
        pair.a.write(pair.now, a, 3000);
        pair.a.link.close(pair.now, a);
        let mut heard_at = None;
        pair.run(MS * 100, |pair| {
            if pair.a.rings.get(a).end_acked && heard_at.is_none() {
                heard_at = Some((pair.b.rings.get(b).tail, pair.b.rings.get(b).ended));
            }
        });
        assert_eq!(heard_at, Some((4000, true)), "{lost:?}");
        pair.b.write(pair.now, b, 500);
        run(&mut pair, MS * 100);
        assert_eq!(pair.a.rings.get(a).read, 577);
        assert_eq!(pair.a.rings.get(a).outcome, None);
        pair.b.link.close(pair.now, b);
        run(&mut pair, MS * 100);
        let ends = |event: &&Event| matches!(event, Event::EndAcked(_) | Event::Closed(_));
        let ends: Vec<_> = pair.a.events.iter().filter(ends).collect();
        assert_eq!(ends, [&Event::EndAcked(a), &Event::Closed(a)], "{lost:?}");
        let ends: Vec<_> = pair.b.events.iter().rev().take(2).collect();
        assert_eq!(ends, [&Event::Closed(b), &Event::EndAcked(b)], "{lost:?}");
    }
}

// [C8] What is on its way to a connection that was reset is not acknowledged.
#[test]
fn reset_is_repeated_and_acknowledges_nothing() {
    let mut pair = pair();
    let (a, b) = pair.connect(1, 10_000);
    run(&mut pair, MS * 10);
    lose(&mut pair.to_a, Kind::Reset, 3);
    pair.a.write(pair.now, a, 5000);
    pair.a.transmit(pair.now, &mut pair.to_b);
    pair.b.reset(pair.now, b, 16);
    run(&mut pair, MS * 500);
    let tail = pair.b.rings.get(b).tail;
    assert_eq!(tail, 1000);
    assert_eq!(pair.a.rings.get(a).outcome, Some(Outcome::ByPeer(16)));
    assert!(pair.a.rings.get(a).released <= tail);
    assert_eq!(
        (pair.a.link.connections(), pair.b.link.connections()),
        (0, 0)
    );
}

// [C8] Also if the peer's token is not known yet.
#[test]
fn a_connection_that_is_reset_while_it_opens_leaves_nothing_behind() {
    let mut pair = pair();
    pair.connect(9, 1000);
    run(&mut pair, MS * 10);
    let (a, b) = pair.connect(1, 10_000);
    pair.b.write(pair.now, b, 100);
    pair.a.transmit(pair.now, &mut pair.to_b);
    pair.a.reset(pair.now, a, 16);
    run(&mut pair, MS * 500);
    let ring = pair.b.rings.get(b);
    assert_eq!(
        (ring.outcome, ring.released),
        (Some(Outcome::ByPeer(16)), 77)
    );
    assert_eq!(
        (pair.a.link.connections(), pair.b.link.connections()),
        (1, 1)
    );
}

// [C1] An OPEN that comes when its connection is over harms nobody.
#[test]
fn a_late_open_does_not_reset() {
    for seed in 0..200 {
        let conditions = Conditions {
            detour: (0.3, MS * 8),
            ..Conditions::default()
        };
        let mut pair = Pair::new(conditions, seed, Fixed::new(1 << 18));
        let (a, b) = pair.connect(1, 1000);
        pair.a.write(pair.now, a, 50);
        pair.a.link.close(pair.now, a);
        pair.b.link.close(pair.now, b);
        run(&mut pair, MS * 500);
        assert_eq!(pair.a.rings.get(a).outcome, Some(Outcome::Closed), "{seed}");
        assert_eq!(pair.b.rings.get(b).outcome, Some(Outcome::Closed), "{seed}");
    }
}

// [C10]
#[test]
fn no_connection_waits_for_bytes_of_another() {
    let mut pair = pair();
    let (a, b) = pair.connect(1, 10_000);
    let (a2, b2) = pair.connect(2, 10_000);
    run(&mut pair, MS * 10);
    lose(&mut pair.to_b, Kind::Data, 1);
    pair.a.write(pair.now, a, 100);
    pair.a.write(pair.now, a2, 100);
    run(&mut pair, MS / 10);
    assert_eq!(
        (pair.b.rings.get(b).tail, pair.b.rings.get(b2).tail),
        (1000, 1100)
    );
    run(&mut pair, MS * 10);
    assert_eq!(pair.b.rings.get(b).tail, 1100);
}
