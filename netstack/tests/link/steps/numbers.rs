//! Packet numbers and acknowledgements.

use super::*;

// [P1]
#[test]
fn numbers_are_never_used_again() {
    let (mut duo, a, b) = Duo::connected();
    duo.a.write(duo.now, a, 5000);
    let (mut count, mut numbers) = (0, Vec::new());
    for _ in 0..20 {
        duo.exchange(|to_b, packet| {
            let header = header(packet);
            if !header.kind.is_asking() {
                assert_eq!(header.number, 0);
            } else if to_b {
                numbers.push(header.number);
            }
            count += 1;
            count % 3 != 0
        });
        duo.b.read(duo.now, b, u64::MAX);
    }
    assert_eq!(duo.b.rings.get(b).read, 5000);
    assert!(duo.a.link.counters().bytes_again > 0);
    assert!(numbers.windows(2).all(|pair| pair[1] == pair[0] + 1));
}

// [P5] [P4]
#[test]
fn the_delay_is_the_time_in_the_host() {
    let (mut duo, a, _) = Duo::connected();
    duo.a.write(duo.now, a, 100);
    let data = say(&mut duo.a, duo.now).unwrap();
    hear(&mut duo.b, duo.now, &data).unwrap();
    assert_eq!(say(&mut duo.b, duo.now + 24 * US), None);
    let ack = say(&mut duo.b, duo.now + 25 * US).unwrap();
    let ack = Packet::parse(&ack).unwrap().ack.unwrap();
    assert_eq!(ack.delay_nanos(), 25_000);
    assert_eq!(ack.largest(), header(&data).number);
}

// [P7] [C5]
#[test]
fn what_is_not_in_the_ring_is_not_acknowledged() {
    let (mut duo, a, b) = Duo::connected();
    duo.b.rings.get(b).frozen = true;
    duo.a.write(duo.now, a, 100);
    for _ in 0..5 {
        duo.all();
    }
    assert_eq!(duo.a.rings.get(a).released, 0);
    assert_eq!(duo.b.rings.get(b).tail, 0);
}
