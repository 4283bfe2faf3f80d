//! Ends that are compared, and those that are not.

use super::*;
use std::net::SocketAddr;

fn at(millis: u64) -> Instant {
    Instant::from_nanos(millis * 1_000_000)
}

fn end(guest: u32, connected: bool) -> UnpairedEnd {
    let end = |last: u8| SocketAddr::new([10, 0, 0, last].into(), last.into());
    let tuple = Tuple::new(end(1), end(2));
    let tuple = if connected { tuple } else { tuple.mirrored() };
    UnpairedEnd {
        guest,
        uid: 1000 + guest,
        cookie: guest.into(),
        connected,
        tuple,
        seen: tuple,
        translated: false,
        space: Space::OWN,
        since: at(1),
    }
}

fn guests(pairing: &Pairing, all: &[Match]) -> Vec<[u32; 2]> {
    let guest = |id| pairing.get(id).map_or(0, |unpaired| unpaired.guest);
    all.iter()
        .map(|it| [guest(it.connected), guest(it.accepted)])
        .collect()
}

#[test]
fn mirrored_ends_of_two_programs_are_compared() {
    let mut pairing = Pairing::default();
    for unpaired in [end(1, true), end(2, true), end(3, false)] {
        pairing.insert(unpaired);
    }
    let due = pairing.due(at(1));
    assert_eq!(guests(&pairing, &due), [[1, 3], [2, 3]]);
    // Not with itself, not two that have both connected, not the same way round.
    pairing.insert(end(3, true));
    pairing.insert(UnpairedEnd {
        connected: false,
        ..end(4, true)
    });
    assert_eq!(guests(&pairing, &pairing.matches.clone()).len(), 2);
}

#[test]
fn they_are_compared_less_and_less_often_until_one_is_gone() {
    let mut pairing = Pairing::default();
    pairing.insert(end(1, true));
    assert_eq!(pairing.next(), None);
    pairing.insert(end(2, false));
    let mut times = 0;
    while let Some(next) = pairing.next().filter(|next| *next < at(10_000)) {
        assert!(pairing.due(next).len() == 1 && pairing.due(next).is_empty());
        times += 1;
    }
    assert!((40..60).contains(&times), "{times} times in 10 s");
    pairing.remove_all_of(1);
    assert_eq!((pairing.next(), pairing.count_of(2)), (None, 1));
    let tired = pairing.tired(at(61_000));
    assert_eq!(tired.len(), 1);
    pairing.remove(tired[0]);
    assert!(pairing.is_empty() && pairing.by_tuple.is_empty());
}

#[test]
fn what_is_shown_again_takes_the_place_of_the_old() {
    let mut pairing = Pairing::default();
    pairing.insert(end(1, true));
    pairing.insert(UnpairedEnd {
        cookie: 77,
        ..end(1, true)
    });
    pairing.insert(end(2, false));
    let due = pairing.due(at(1));
    let cookies = |id| pairing.get(id).map(|unpaired| unpaired.cookie);
    assert_eq!(due.len(), 1);
    assert_eq!(cookies(due[0].connected), Some(77));
}

#[test]
fn liars_are_looked_at_a_few_at_a_time() {
    let mut pairing = Pairing::default();
    for guest in 1..100 {
        pairing.insert(end(guest, true));
    }
    pairing.insert(end(100, false));
    let due = pairing.due(at(1));
    assert_eq!(due.len(), MOST_RIVALS);
    due.iter().for_each(|it| pairing.part(it));
    assert_eq!(pairing.next(), None);
    for guest in 101..1000 {
        pairing.insert(end(guest, false));
    }
    assert_eq!(pairing.matches.len(), MOST_MATCHES);
    assert_eq!(pairing.due(at(1)).len(), MOST_AT_ONCE);
}

/// Two ends that are never still are compared again and again; others have their turn.
#[test]
fn one_user_does_not_keep_others_from_being_compared() {
    let mut pairing = Pairing::default();
    let of_liar = |guest, connected| UnpairedEnd {
        uid: 1002,
        ..end(guest, connected)
    };
    for guest in 1..10 {
        pairing.insert(of_liar(guest, true));
    }
    for guest in 10..2000 {
        pairing.insert(of_liar(guest, false));
    }
    assert_eq!(pairing.matches.len(), MOST_MATCHES / 2);
    let honest = |connected| {
        let UnpairedEnd { tuple, .. } = end(1, connected);
        let far = SocketAddr::new([10, 0, 0, 9].into(), 9);
        let (near, far) = match connected {
            true => (tuple.local, far),
            false => (far, tuple.remote),
        };
        UnpairedEnd {
            tuple: Tuple::new(near, far),
            seen: Tuple::new(near, far),
            ..end(3000 + u32::from(connected), connected)
        }
    };
    pairing.insert(honest(true));
    pairing.insert(honest(false));
    let gos = (1..1000).find(|go| {
        let due = pairing.due(at(*go));
        guests(&pairing, &due).contains(&[3001, 3000])
    });
    assert!(gos.is_some_and(|gos| gos <= (MOST_MATCHES / MOST_AT_ONCE) as u64));
}

fn of_tuple(guest: u32, connected: bool, local: &str, remote: &str) -> UnpairedEnd {
    let address = |text: &str| text.parse().expect("an address");
    let tuple = Tuple::new(address(local), address(remote));
    UnpairedEnd {
        tuple,
        ..end(guest, connected).through_rules(tuple)
    }
}

const CLIENT: &str = "10.0.0.1:1000";
const SERVICE: &str = "10.96.0.1:80";
const SERVER: &str = "10.0.0.2:8080";
const GATEWAY: &str = "10.0.0.100:1000";

#[test]
fn translated_ends_are_compared_whichever_comes_first_and_whoever_knows() {
    let client = of_tuple(1, true, CLIENT, SERVICE);
    let server = of_tuple(2, false, SERVER, GATEWAY);
    for (server_first, server_knows) in [(false, false), (false, true), (true, false), (true, true)]
    {
        let mut pairing = Pairing::default();
        let (first, second) = if server_first {
            (server, client)
        } else {
            (client, server)
        };
        let ids = [first, second].map(|end| pairing.insert(end));
        assert_eq!(pairing.next(), None);
        let (knowing, far) = if server_knows {
            (server, client.tuple)
        } else {
            (client, server.tuple)
        };
        let known = usize::from(knowing.guest != first.guest);
        pairing.expect(ids[known], far, at(2));
        let due = pairing.due(at(2));
        assert_eq!(guests(&pairing, &due), [[1, 2]]);
        // The other one learns the same, or the same again.
        let other = if server_knows {
            server.tuple
        } else {
            client.tuple
        };
        pairing.expect(ids[1 - known], other, at(2));
        pairing.expect(ids[known], far, at(2));
        assert_eq!(pairing.matches.len(), 1);
        ids.into_iter().for_each(|id| pairing.remove(id));
        assert!(pairing.by_far.is_empty() && pairing.translated.is_empty());
    }
}

#[test]
fn one_that_was_known_to_be_translated_before_the_other_came() {
    let mut pairing = Pairing::default();
    let client = of_tuple(1, true, CLIENT, SERVICE);
    let server = of_tuple(2, false, SERVER, GATEWAY);
    let id = pairing.insert(client);
    pairing.expect(id, server.tuple, at(1));
    pairing.insert(server);
    let due = pairing.due(at(1));
    assert_eq!(guests(&pairing, &due), [[1, 2]]);
}

/// Its socket knows by which address it was called.
#[test]
fn one_that_rules_of_its_own_namespace_have_led_there() {
    let client = of_tuple(1, true, CLIENT, SERVICE);
    let server = of_tuple(2, false, SERVER, CLIENT).through_rules(client.tuple.mirrored());
    for order in [[client, server], [server, client]] {
        let mut pairing = Pairing::default();
        for end in order {
            pairing.insert(end);
        }
        let due = pairing.due(at(1));
        assert_eq!(guests(&pairing, &due), [[1, 2]]);
    }
}

#[test]
fn both_must_agree_to_be_found_by_translated_addresses() {
    let client = of_tuple(1, true, CLIENT, SERVICE);
    let server = of_tuple(2, false, SERVER, GATEWAY);
    let kept = UnpairedEnd {
        translated: false,
        ..server
    };
    let mut pairing = Pairing::default();
    let id = pairing.insert(client);
    pairing.insert(kept);
    pairing.expect(id, server.tuple, at(1));
    assert_eq!(pairing.next(), None);
    // Without rules on the way it is found as ever, though connection tracking tells of others.
    let mut pairing = Pairing::default();
    let id = pairing.insert(of_tuple(1, true, CLIENT, SERVER));
    pairing.expect(id, of_tuple(3, false, GATEWAY, CLIENT).tuple, at(1));
    pairing.insert(UnpairedEnd {
        translated: false,
        ..of_tuple(2, false, SERVER, CLIENT)
    });
    assert_eq!(pairing.due(at(1)).len(), 1);
}

/// Whatever liars are told of, or say themselves: so many are compared with one end, and no more.
#[test]
fn liars_with_translated_addresses_are_looked_at_a_few_at_a_time() {
    let mut pairing = Pairing::default();
    let client = of_tuple(1, true, CLIENT, SERVICE);
    for guest in 10..100 {
        let liar = of_tuple(guest, false, SERVER, GATEWAY);
        pairing.insert(liar.through_rules(client.tuple.mirrored()));
    }
    let id = pairing.insert(client);
    assert_eq!(pairing.matches.len(), MOST_RIVALS);
    pairing.expect(id, of_tuple(2, false, SERVER, GATEWAY).tuple, at(1));
    assert!(pairing.matches.len() <= 2 * MOST_RIVALS);
}
