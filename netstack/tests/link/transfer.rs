//! Bytes arrive once, in order, unchanged.

use std::fmt::Debug;
use std::time::Duration;

use netstack::link::Event;
use netstack::link::window::{Adaptive, Fixed, Window};

use super::net::Conditions;
use super::pair::Pair;

fn transfer<W: Window + Clone + Debug>(
    window: W,
    conditions: Conditions,
    seed: u64,
    bytes: u64,
) -> Pair<W> {
    let mut pair = Pair::new(conditions, seed, window);
    let (a, b) = pair.connect(seed, 1 << 16);
    pair.a.write(pair.now, a, bytes);
    pair.b.write(pair.now, b, bytes / 3);
    pair.a.link.close(pair.now, a);
    pair.b.link.close(pair.now, b);
    pair.run(Duration::from_secs(60), |pair| {
        pair.a.read(pair.now, a, u64::MAX);
        pair.b.read(pair.now, b, u64::MAX);
    });
    assert_eq!(pair.b.rings.get(b).read, 1000 + bytes, "{:?}", pair.a.link);
    assert_eq!(pair.a.rings.get(a).read, 77 + bytes / 3);
    assert!(
        pair.a.events.contains(&Event::Closed(a)),
        "{:?}",
        pair.a.events
    );
    assert!(
        pair.b.events.contains(&Event::Closed(b)),
        "{:?}",
        pair.b.events
    );
    // [R9]
    assert_eq!(
        (pair.a.link.deadline(), pair.b.link.deadline()),
        (None, None)
    );
    pair
}

#[test]
fn without_loss() {
    let pair = transfer(Fixed::new(1 << 18), Conditions::default(), 1, 3_000_000);
    assert_eq!(pair.a.link.counters().packets_lost, 0);
    assert_eq!(pair.a.link.counters().probes, 0);
}

#[test]
fn with_everything() {
    for seed in 0..50 {
        let conditions = Conditions {
            jitter: Duration::from_micros(20),
            loss: 0.03,
            burst: 0.3,
            duplication: 0.02,
            corruption: 0.01,
            detour: (0.01, Duration::from_millis(1)),
            ..Conditions::default()
        };
        transfer(Fixed::new(1 << 18), conditions.clone(), seed, 300_000);
        transfer(Adaptive::new(), conditions, seed, 300_000);
    }
}

// [M1] [S1]
#[test]
fn bytes_to_send_do_not_hold_up_the_search_for_the_size() {
    let mut pair = Pair::new(Conditions::default(), 1, Fixed::new(1 << 24));
    let (a, b) = pair.connect(1, 1 << 24);
    pair.a.write(pair.now, a, 1 << 24);
    pair.run(Duration::from_millis(1), |pair| {
        pair.b.read(pair.now, b, u64::MAX);
    });
    assert!(pair.b.rings.get(b).read < 1 << 22);
    assert_eq!(pair.a.link.path(0).map(|path| path.packet), Some(1472));
}
