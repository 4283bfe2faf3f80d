//! Bulk adds at most one packet's time to what another connection sends.

use super::*;

/// The longest that a small message takes, sent at that pace beside so many bulk connections.
fn longest(bulk: u64, pace: Duration) -> Duration {
    let conditions = Conditions {
        rate: 1_000_000_000,
        queue: 1 << 24,
        ..Conditions::default()
    };
    let mut pair = Pair::new(conditions, 1, Fixed::new(1 << 18));
    let (a, b) = pair.connect(1000, 1 << 16);
    for name in 0..bulk {
        let (id, _) = pair.connect(name, 1 << 14);
        pair.a.write(pair.now, id, 1 << 30);
    }
    run(&mut pair, MS * 30);
    let mut longest = Duration::ZERO;
    for message in 1..200 {
        let begin = pair.now;
        pair.a.write(begin, a, 64);
        while pair.b.rings.get(b).tail < 1000 + 64 * message {
            run_one(&mut pair);
        }
        longest = longest.max(pair.now - begin);
        let rest = (begin + pace).since(pair.now);
        run(&mut pair, rest + Duration::from_nanos(777));
    }
    longest
}

fn run_one(pair: &mut Pair<Fixed>) {
    let limit = pair.now + MS;
    pair.step(limit);
    let ids: Vec<_> = pair.b.rings.0.keys().copied().collect();
    for id in ids {
        pair.b.read(pair.now, id, u64::MAX);
    }
}

// [S2] The window is more than the cable holds: packets wait in the host for the port.
#[test]
fn a_hundred_bulk_connections_add_one_packets_time() {
    let packet = Duration::from_nanos((1472 + 66) * 8);
    for pace in [200, 1000, 5000].map(Duration::from_micros) {
        let alone = longest(0, pace);
        let beside = longest(100, pace);
        println!("{pace:?}: {alone:?} alone, {beside:?} beside a hundred");
        assert!(
            beside <= alone + packet + Duration::from_micros(1),
            "{alone:?} {beside:?}"
        );
    }
}

// [S2]
#[test]
fn bulk_connections_take_turns() {
    let mut pair = pair();
    let ids: Vec<_> = (0..20).map(|name| pair.connect(name, 1 << 16)).collect();
    for (a, _) in &ids {
        pair.a.write(pair.now, *a, 1 << 30);
    }
    run(&mut pair, MS * 20);
    let read: Vec<u64> = ids.iter().map(|(_, b)| pair.b.rings.get(*b).read).collect();
    let (least, most) = (read.iter().min(), read.iter().max());
    assert!(
        least > Some(&800_000) && most.unwrap() - least.unwrap() < 40_000,
        "{read:?}"
    );
}
