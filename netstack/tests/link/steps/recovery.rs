//! Losses, probes and the window.

use super::*;

// [R2] [R3]
#[test]
fn three_later_ones_prove_a_loss() {
    let (mut duo, a, b) = Duo::connected();
    for _ in 0..5 {
        duo.a.write(duo.now, a, 100);
    }
    let mut seen = Vec::new();
    duo.a.write(duo.now, a, 5000);
    duo.exchange(|to_b, packet| {
        let data = to_b && header(packet).kind == Kind::Data;
        if data {
            seen.push(header(packet).offset);
        }
        !data || seen.len() != 1
    });
    let counters = duo.a.link.counters();
    assert_eq!((counters.packets_lost, counters.probes), (1, 0));
    // The bytes of the first, under another number.
    assert_eq!(seen.iter().filter(|&&offset| offset == 0).count(), 2);
    assert_eq!(duo.b.rings.get(b).tail, 5500);
}

// [R4]
#[test]
fn silence_is_answered_by_a_probe() {
    let (mut duo, a, _) = Duo::connected();
    duo.a.write(duo.now, a, 100);
    let sent = duo.now;
    assert!(!header(&say(&mut duo.a, sent).unwrap()).ask);
    let rtt = *duo.a.link.path(0).unwrap().rtt;
    let time = rtt.smoothed() + 4 * rtt.variation() + 25 * US;
    let at = duo.a.link.deadline().unwrap();
    assert_eq!(at - sent, time.max(100 * US));
    let probe = header(&say(&mut duo.a, at).unwrap());
    assert_eq!((probe.kind, probe.ask), (Kind::Data, true));
    let next = duo.a.link.deadline().unwrap();
    assert_eq!(next - at, 2 * time.max(100 * US));
}

// [G6] [G1]
#[test]
fn no_more_is_in_flight_than_the_window() {
    let (mut duo, a, _) = Duo::connected();
    let mut small = Duo::new();
    let host = |me, peer| Host::new(me, peer, me.into(), Fixed::new(3000), |_| {});
    (small.a, small.b, small.now) = (host(1, 2), host(2, 1), duo.now);
    small.expect(&TERMS);
    let id = small.open(&TERMS);
    small.all();
    for (duo, id, most) in [(&mut duo, a, RING + 1000), (&mut small, id, 3000)] {
        duo.a.write(duo.now, id, RING);
        while say(&mut duo.a, duo.now).is_some() {}
        let in_flight = duo.a.link.path(0).unwrap().in_flight;
        assert!(in_flight <= most && in_flight + 1500 > most.min(RING));
    }
}
