//! Credit: none is exceeded (the rings look), none is lost for good.

use super::*;

fn blocked() -> (Pair<Fixed>, netstack::link::Id, netstack::link::Id) {
    let mut pair = pair();
    let (a, b) = pair.connect(1, 4000);
    pair.a.write(pair.now, a, 100_000);
    pair.run(MS * 10, |_| {});
    assert_eq!(pair.b.rings.get(b).tail, 5000);
    (pair, a, b)
}

// [K4]
#[test]
fn a_lost_credit_is_sent_again() {
    let (mut pair, _, b) = blocked();
    lose(&mut pair.to_a, Kind::Credit, 3);
    run(&mut pair, MS * 100);
    assert_eq!(pair.b.rings.get(b).read, 101_000);
}

// [K5] Even if the peer does not tell by itself.
#[test]
fn a_blocked_sender_asks() {
    let (mut pair, _, b) = blocked();
    let log = log(&mut pair.to_b);
    run_without_reading(&mut pair, MS * 30_000);
    let questions = count(&log, Kind::Credit);
    assert!((10..25).contains(&questions), "{questions}");
    assert_eq!(death(&pair.a), None);
    run(&mut pair, MS * 100);
    assert_eq!(pair.b.rings.get(b).read, 101_000);
}

fn run_without_reading(pair: &mut Pair<Fixed>, time: Duration) {
    let end = pair.now + time;
    pair.run(time, |_| {});
    pair.now = end;
}

// [K4] No silly windows: a reader of single bytes gets packets of a fair size.
#[test]
fn a_slow_reader_makes_no_small_packets() {
    let (mut pair, a, b) = blocked();
    let log = log(&mut pair.to_b);
    while pair.b.rings.get(b).read < 101_000 {
        let now = pair.now;
        pair.b.read(now, b, 7);
        run_without_reading(&mut pair, Duration::from_micros(20));
    }
    let packets = count(&log, Kind::Data);
    // Of each packet's worth of room the headers leave a rest.
    assert!(packets < 140, "{packets}");
    assert_eq!(pair.a.rings.get(a).released, 101_000);
}
