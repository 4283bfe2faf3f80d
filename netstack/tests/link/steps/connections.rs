//! Tokens, terms and ends of connections.

use super::*;

// [C2]
#[test]
fn a_token_is_never_used_twice() {
    let (mut duo, first, _) = Duo::connected();
    duo.a.reset(duo.now, first, 16);
    duo.all();
    let mut tokens = vec![first.token()];
    for name in 10..20 {
        let id = duo.open(&Terms { name, ..TERMS });
        assert_eq!(id.index(), first.index());
        tokens.push(id.token());
        duo.a.reset(duo.now, id, 16);
        duo.all();
    }
    tokens.dedup();
    assert_eq!(tokens.len(), 11);
    let mut sorted = tokens.clone();
    sorted.sort_unstable();
    assert_eq!(sorted, tokens);
}

// [C3]
#[test]
fn ends_that_disagree_are_reset() {
    for wrong in [
        Terms {
            send_from: 1,
            ..TERMS
        },
        Terms {
            receive_from: 1,
            ..TERMS
        },
    ] {
        let mut duo = Duo::new();
        duo.expect(&wrong);
        let a = duo.open(&TERMS);
        duo.all();
        let is_reset = |event: &Event| {
            matches!(event, Event::Reset { id, reason, .. }
                if *id == a && *reason == reason::DISAGREEMENT)
        };
        assert!(duo.a.events.iter().any(is_reset), "{:?}", duo.a.events);
        let opened = |event: &Event| matches!(event, Event::Open(_));
        assert!(!duo.b.events.iter().any(opened), "{:?}", duo.b.events);
    }
}

// [C10] [S2]
#[test]
fn one_that_is_stuck_holds_up_nobody() {
    let (mut duo, stuck, _) = Duo::connected();
    let terms = Terms { name: 8, ..TERMS };
    let b = duo.expect(&terms);
    let a = duo.open(&terms);
    duo.all();
    // Nobody reads the one, and of the other the first packet is lost.
    duo.a.write(duo.now, stuck, 10 * RING);
    duo.all();
    duo.a.write(duo.now, a, 3000);
    duo.a.write(duo.now, stuck, 100);
    let mut first = true;
    for _ in 0..10 {
        duo.exchange(|to_b, packet| {
            let data = to_b && header(packet).kind == Kind::Data;
            !data || !std::mem::take(&mut first)
        });
        duo.b.read(duo.now, b, u64::MAX);
    }
    assert_eq!(duo.b.rings.get(b).read, 3000);
}

// [C7]
#[test]
fn the_end_may_overtake_bytes() {
    let (mut duo, a, b) = Duo::connected();
    duo.a.write(duo.now, a, 100);
    duo.a.link.close(duo.now, a);
    let data = say(&mut duo.a, duo.now).unwrap();
    let close = say(&mut duo.a, duo.now).unwrap();
    assert_eq!(header(&close).kind, Kind::Close);
    assert_eq!(header(&close).offset, 100);
    hear(&mut duo.b, duo.now, &close).unwrap();
    assert!(!duo.b.events.contains(&Event::Ended(b)));
    hear(&mut duo.b, duo.now, &data).unwrap();
    assert_eq!(duo.b.events.last(), Some(&Event::Ended(b)));
    assert_eq!(duo.b.rings.get(b).tail, 100);
}
