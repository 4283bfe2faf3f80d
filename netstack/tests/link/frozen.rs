//! A ring that the receiver's library has frozen, for it goes back to the kernel.

use std::time::Duration;

use netstack::link::Event;
use netstack::link::window::Fixed;
use netstack::wire::{Kind, Packet};

use super::net::Conditions;
use super::pair::Pair;

/// [C5], [C7] (and [F13]) The end of a stream is not acknowledged if it could not be published: its sender
/// would go away, and the reader would never hear of the end.
#[test]
fn the_end_is_not_acknowledged() {
    for bytes in [0, 1, 100_000] {
        let mut pair = Pair::new(Conditions::default(), 1, Fixed::new(1 << 18));
        let (a, b) = pair.connect(7, 1 << 20);
        pair.a.write(pair.now, a, bytes);
        pair.run(Duration::from_secs(1), |_| {});
        pair.b.link.close(pair.now, b);
        pair.b.rings.get(b).frozen = true;
        pair.a.link.close(pair.now, a);
        pair.run(Duration::from_secs(1), |_| {});
        assert_eq!(pair.b.rings.get(b).tail, 1000 + bytes);
        assert!(!pair.b.rings.get(b).ended);
        assert!(pair.a.rings.get(a).ended);
        assert!(pair.b.events.contains(&Event::Frozen(b)));
        assert!(!pair.a.events.contains(&Event::EndAcked(a)));
        // It would be, with all acknowledged in both directions.
        assert!(!pair.a.events.contains(&Event::Closed(a)));
    }
}

/// [C8], [C11] Nor if the reader's host has reset the connection, as it does when it goes back to the kernel,
/// and the sender has not heard of it yet.
#[test]
fn the_end_is_not_acknowledged_after_a_reset() {
    let mut pair = Pair::new(Conditions::default(), 1, Fixed::new(1 << 18));
    let (a, b) = pair.connect(7, 1 << 20);
    pair.a.write(pair.now, a, 5000);
    pair.b.link.close(pair.now, b);
    pair.run(Duration::from_secs(1), |_| {});
    assert_eq!(pair.a.rings.get(a).released, 6000);
    pair.to_a.filter.0 = Some(Box::new(|_, payload| {
        Packet::parse(payload).is_ok_and(|packet| packet.header.kind == Kind::Reset)
    }));
    pair.b.reset(pair.now, b, 16);
    pair.a.link.close(pair.now, a);
    pair.run(Duration::from_secs(10), |_| {});
    let ended = |event: &Event| matches!(event, Event::EndAcked(_) | Event::Closed(_));
    assert!(!pair.a.events.iter().any(ended), "{:?}", pair.a.events);
}
