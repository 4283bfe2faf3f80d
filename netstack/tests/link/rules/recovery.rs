//! Numbers, acknowledgements, losses, probes, and the end of paths and links.

use std::cell::Cell;

use super::super::host::{Outcome, ways};
use super::*;

// [P4] Acknowledgements are not acknowledged.
#[test]
fn one_acknowledgement_for_two_packets() {
    let mut pair = pair();
    let (a, b) = pair.connect(1, 1 << 20);
    run(&mut pair, MS * 10);
    let (there, back) = (log(&mut pair.to_b), log(&mut pair.to_a));
    pair.a.write(pair.now, a, 1_000_000);
    run(&mut pair, MS * 10);
    assert_eq!(pair.b.rings.get(b).read, 1_001_000);
    let (data, acks) = (count(&there, Kind::Data), count(&back, Kind::Ack));
    assert!(
        acks <= data / 2 + 2 && acks >= data / 3,
        "{acks} for {data}"
    );
    assert_eq!(count(&there, Kind::Ack), 0);
}

// [R2] [R3]
#[test]
fn one_loss_costs_a_round_trip() {
    let mut pair = pair();
    let (a, b) = pair.connect(1, 1 << 20);
    run(&mut pair, MS * 10);
    lose(&mut pair.to_b, Kind::Data, 1);
    pair.a.write(pair.now, a, 100_000);
    run(&mut pair, Duration::from_micros(400));
    assert_eq!(pair.b.rings.get(b).read, 101_000);
    assert_eq!(pair.a.link.counters().probes, 0);
}

// [R4]
#[test]
fn the_loss_of_the_last_packet_is_found_by_a_probe() {
    assert!(found_by_a_probe(false) < Duration::from_micros(500));
    let sleepy = found_by_a_probe(true);
    assert!((MS * 3..MS * 4).contains(&sleepy), "{sleepy:?}");
}

/// How long it takes, in a host that sleeps between packets or not.
fn found_by_a_probe(sleepy: bool) -> Duration {
    let mut pair = pair();
    pair.a.link.set_sleepy(sleepy);
    let (a, b) = pair.connect(1, 1 << 20);
    for _ in 0..20 {
        pair.a.write(pair.now, a, 100);
        run(&mut pair, MS);
    }
    lose(&mut pair.to_b, Kind::Data, 1);
    let sent = pair.now;
    pair.a.write(pair.now, a, 100);
    let mut came = None;
    pair.run(MS * 100, |pair| {
        if pair.b.rings.get(b).tail == 3100 {
            came.get_or_insert(pair.now - sent);
        }
    });
    came.expect("all bytes")
}

// [R3] [R4] Of what goes again the bytes are counted, not the packets around them; of probes, too.
#[test]
fn bytes_that_go_again_are_counted() {
    for (written, by_probe) in [(100_000, false), (100, true)] {
        let mut pair = pair();
        let (a, b) = pair.connect(1, 1 << 20);
        run(&mut pair, MS * 10);
        let carried = Rc::new(Cell::new(0));
        let sum = carried.clone();
        pair.to_b.filter.0 = Some(Box::new(move |_, payload| {
            let packet = Packet::parse(payload).expect("a packet of ours");
            let is_first = packet.header.kind == Kind::Data && sum.get() == 0;
            if packet.header.kind == Kind::Data {
                sum.set(sum.get() + packet.body.len() as u64);
            }
            is_first
        }));
        pair.a.write(pair.now, a, written);
        run(&mut pair, MS * 10);
        assert_eq!(pair.b.rings.get(b).read, 1000 + written);
        let counters = pair.a.link.counters();
        assert_eq!(counters.bytes_again, carried.get() - written);
        assert!(counters.bytes_again > 0);
        assert_eq!(counters.probes > 0, by_probe);
    }
}

// [R5] And the network is back within a probe's time.
#[test]
fn a_cut_is_survived() {
    for cut in [5, 50, 500, 2000] {
        let mut pair = pair();
        let (a, b) = pair.connect(1, 1 << 16);
        pair.a.write(pair.now, a, 1 << 20);
        run(&mut pair, MS / 4);
        (pair.to_a.cut, pair.to_b.cut) = (true, true);
        run(&mut pair, MS * cut);
        (pair.to_a.cut, pair.to_b.cut) = (false, false);
        // The next probe comes after at most as long again, and 750 ms.
        run(&mut pair, (MS * cut * 2).min(MS * 750) + MS * 10);
        assert_eq!(pair.b.rings.get(b).read, 1000 + (1 << 20), "{cut}");
        assert_eq!(death(&pair.a), None);
    }
}

// [R6]
#[test]
fn reordering_is_learned() {
    let conditions = Conditions {
        detour: (0.05, Duration::from_micros(8)),
        ..Conditions::default()
    };
    let mut pair = Pair::new(conditions, 3, Fixed::new(1 << 17));
    let (a, b) = pair.connect(1, 1 << 18);
    let mut lost = Vec::new();
    for _ in 0..2 {
        pair.a.write(pair.now, a, 5_000_000);
        run(&mut pair, MS * 50);
        lost.push(pair.a.link.counters().packets_lost);
    }
    assert_eq!(pair.b.rings.get(b).read, 10_001_000);
    let (first, second) = (lost[0], lost[1] - lost[0]);
    assert!(first > 0 && second <= first / 10, "{first}, then {second}");
    assert!(pair.a.link.counters().packets_late > 0);
}

// [R7]
#[test]
fn silence_ends_a_link_with_exact_counts() {
    let mut pair = pair();
    let (a, b) = pair.connect(1, 1 << 16);
    pair.a.write(pair.now, a, 1 << 20);
    run(&mut pair, MS / 2);
    (pair.to_a.cut, pair.to_b.cut) = (true, true);
    let cut = pair.now;
    pair.run(MS * 9000, |_| {});
    assert_eq!(death(&pair.a), Some(Why::Silence));
    let died = pair.now - cut;
    assert!(died > MS * 2999 && died < MS * 3001, "{died:?}");
    let (released, tail) = (pair.a.rings.get(a).released, pair.b.rings.get(b).tail);
    assert!(released <= tail && tail - released <= 1 << 16);
    assert_eq!(pair.a.rings.get(a).outcome, Some(Outcome::WithLink));
    assert_eq!(
        (pair.a.link.deadline(), pair.a.link.connections()),
        (None, 0)
    );
}

// [R10]
#[test]
fn a_host_that_doubts_hears_of_a_peer_that_is_gone() {
    let mut pair = pair();
    let (a, _) = pair.connect(1, 1 << 16);
    pair.a.link.ask();
    pair.run(MS * 9000, |_| {});
    assert_eq!(death(&pair.a), None);
    (pair.to_a.cut, pair.to_b.cut) = (true, true);
    pair.run(MS * 9000, |_| {});
    assert_eq!(death(&pair.a), None, "nobody has asked");
    pair.a.link.ask();
    pair.run(MS * 9000, |_| {});
    assert_eq!(death(&pair.a), Some(Why::Silence));
    assert_eq!(pair.a.rings.get(a).outcome, Some(Outcome::WithLink));
}

fn with_ways(count: u16) -> Pair<Fixed> {
    let conditions = Conditions::default();
    let mut pair = Pair::new(conditions, 1, Fixed::new(1 << 18));
    for (me, peer) in [(1, 2), (2, 1)] {
        let tuned = Host::new(me, peer, me.into(), Fixed::new(1 << 18), |config| {
            config.ways = ways(me, peer, count);
        });
        match me {
            1 => pair.a = tuned,
            _ => pair.b = tuned,
        }
    }
    pair
}

// [P1] One path to eight, each with numbers of its own; all of them carry connections.
#[test]
fn one_path_to_eight() {
    for count in 1..=8 {
        let mut pair = with_ways(count);
        let used = Rc::new(Cell::new(0u8));
        let bits = used.clone();
        pair.to_b.filter.0 = Some(Box::new(move |_, payload| {
            let header = Packet::parse(payload).expect("a packet of ours").header;
            if header.kind == Kind::Data {
                bits.set(bits.get() | 1 << header.path);
            }
            false
        }));
        let ids: Vec<_> = (0..16).map(|name| pair.connect(name, 1 << 16)).collect();
        for (a, b) in &ids {
            pair.a.write(pair.now, *a, 50_000);
            pair.b.write(pair.now, *b, 50_000);
        }
        run(&mut pair, MS * 100);
        for (a, b) in &ids {
            assert_eq!(pair.b.rings.get(*b).read, 51_000);
            assert_eq!(pair.a.rings.get(*a).read, 50_077);
        }
        assert_eq!(u32::from(used.get()), (1 << count) - 1);
        let counters = pair.a.link.counters();
        assert_eq!((counters.packets_lost, counters.all_dropped()), (0, 0));
    }
}

// [R9] Also with connections that are open, and a sender that has been told to wait.
#[test]
fn an_idle_link_costs_nothing() {
    for count in [1, 8] {
        let mut pair = with_ways(count);
        for name in 0..10 {
            let (a, b) = pair.connect(name, 1 << 16);
            pair.a.write(pair.now, a, 100_000);
            pair.b.write(pair.now, b, 1000);
            if name % 2 == 0 {
                pair.a.link.close(pair.now, a);
            }
        }
        run(&mut pair, MS * 1000);
        let sent = pair.packets;
        run(&mut pair, MS * 86_400_000);
        let deadlines = (pair.a.link.deadline(), pair.b.link.deadline());
        assert_eq!((deadlines, pair.packets), ((None, None), sent));
        assert_eq!((pair.a.link.connections(), death(&pair.a)), (10, None));
    }
}

// [R8] Whichever path is cut, and whenever: bytes arrive, and the link lives.
#[test]
fn a_dead_path_gives_its_connections_away() {
    for (count, dead, early) in [
        (2, 0, true),
        (2, 0, false),
        (2, 1, false),
        (8, 3, true),
        (8, 3, false),
    ] {
        let mut pair = with_ways(count);
        let cut = |pair: &mut Pair<Fixed>, ways: u8| {
            (pair.to_a.cut_ways, pair.to_b.cut_ways) = (ways, ways);
        };
        let ids: Vec<_> = (0..8).map(|name| pair.connect(name, 1 << 16)).collect();
        if !early {
            run(&mut pair, MS * 10);
        }
        cut(&mut pair, 1 << dead);
        for (a, _) in &ids {
            pair.a.write(pair.now, *a, 100_000);
        }
        // Half of the patience and the probe after it, at one end and then at the other.
        run(&mut pair, MS * 4600);
        for (_, b) in &ids {
            assert_eq!(pair.b.rings.get(*b).read, 101_000, "{count} {dead} {early}");
        }
        assert!(pair.a.link.path(dead).is_some_and(|path| path.is_left));
        // A new connection does not go there.
        let (a, b) = pair.connect(8 + dead as u64, 1 << 16);
        pair.a.write(pair.now, a, 1000);
        run(&mut pair, MS * 10);
        assert_eq!(pair.b.rings.get(b).read, 2000);
        // It is found again, once it works and there is traffic.
        cut(&mut pair, 0);
        run(&mut pair, MS * 11_000);
        pair.a.write(pair.now, a, 1000);
        run(&mut pair, MS * 10);
        assert!(pair.a.link.path(dead).is_some_and(|path| !path.is_left));
        assert_eq!((death(&pair.a), death(&pair.b)), (None, None));
    }
}

// [R8] A path that works in one direction only: packets of the peer come on it, and ours would be lost there.
#[test]
fn nobody_follows_to_a_path_that_was_left() {
    let mut pair = with_ways(2);
    let (a, b) = pair.connect(1, 1 << 16);
    run(&mut pair, MS * 10);
    pair.to_b.cut_ways = 0b10;
    pair.a.write(pair.now, a, 1000);
    run(&mut pair, MS * 2000);
    assert_eq!(pair.b.rings.get(b).read, 2000);
    assert!(pair.a.link.path(1).is_some_and(|path| path.is_left));
    // For a moment nothing answers on the other one either.
    (pair.to_b.cut_ways, pair.to_a.cut_ways) = (0b11, 0b01);
    pair.a.write(pair.now, a, 1000);
    run(&mut pair, MS * 10);
    pair.b.write(pair.now, b, 1000);
    run(&mut pair, MS * 10);
    assert_eq!(pair.a.rings.get(a).read, 1077);
    (pair.to_b.cut_ways, pair.to_a.cut_ways) = (0b10, 0);
    pair.a.write(pair.now, a, 1000);
    run(&mut pair, MS * 1000);
    assert_eq!(pair.b.rings.get(b).read, 4000);
    assert_eq!((death(&pair.a), death(&pair.b)), (None, None));
}

// [R8] The same for a connection that is opened on such a path.
#[test]
fn nobody_accepts_on_a_path_that_was_left() {
    let mut pair = with_ways(2);
    let (_, b) = pair.connect(1, 1 << 16);
    run(&mut pair, MS * 10);
    pair.to_a.cut_ways = 0b10;
    pair.b.write(pair.now, b, 1000);
    run(&mut pair, MS * 2000);
    assert!(pair.b.link.path(1).is_some_and(|path| path.is_left));
    let (a, b) = pair.connect(3, 1 << 16);
    pair.a.write(pair.now, a, 1000);
    run(&mut pair, MS * 4000);
    assert_eq!(pair.b.rings.get(b).read, 2000);
}

// [R8] [C1] Nor is anybody refused there, again and again.
#[test]
fn nobody_is_refused_on_a_path_that_does_not_work() {
    let mut pair = with_ways(2);
    let (_, b) = pair.connect(1, 1 << 16);
    run(&mut pair, MS * 10);
    (pair.to_a.cut_ways, pair.to_b.cut_ways) = (0b10, 0b10);
    for name in 0..200 {
        // Now and then the other path has its turn.
        pair.b.write(pair.now, b, name % 3);
        let (a, unexpected) = pair.connect(2 + 2 * name, 1000);
        pair.b.reset(pair.now, unexpected, 16);
        run(&mut pair, MS * 20);
        let refused = Some(Outcome::ByPeer(netstack::link::reason::UNEXPECTED));
        assert_eq!(pair.a.rings.get(a).outcome, refused, "{name}");
    }
    assert_eq!((death(&pair.a), death(&pair.b)), (None, None));
}
