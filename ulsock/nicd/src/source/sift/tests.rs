use super::*;

fn key(number: u8) -> String {
    crate::key::PublicKey::new([number; 32]).to_string()
}

fn line(address: &str, number: u8) -> String {
    format!("{address} keys={}", key(number))
}

fn entries(list: &[(&str, &str)]) -> Vec<Entry> {
    let entry = |(origin, line): &(&str, &str)| Entry::new(origin.as_bytes(), line.as_bytes());
    list.iter().map(entry).collect()
}

fn refused(sifted: &Sifted) -> Vec<&str> {
    let origins = sifted.refused.iter().map(|it| it.origin.as_str());
    origins.collect()
}

fn used(sifted: &Sifted) -> Vec<&str> {
    sifted.lines.keys().map(String::as_str).collect()
}

#[test]
fn what_is_wrong_with_one_costs_that_one() {
    let (a, c) = (line("10.0.0.1", 1), line("10.0.0.3", 3));
    let list = entries(&[
        ("a", &a),
        ("b", "10.0.0.2"),
        ("c", &c),
        ("d", "nonsense keys=x"),
    ]);
    let sifted = sift(list, &Last::new()).unwrap();
    assert_eq!(used(&sifted), ["a", "c"]);
    assert_eq!(refused(&sifted), ["b", "d"]);
    assert_eq!(sifted.refused[0].why, "keys= is missing");
    assert_eq!(sifted.peers.len(), 2);
}

#[test]
fn what_was_good_stays_when_it_is_broken_and_goes_when_it_is_removed() {
    let (a, b) = (line("10.0.0.1", 1), line("10.0.0.2", 2));
    let last = sift(entries(&[("a", &a), ("b", &b)]), &Last::new()).unwrap();
    let broken = sift(entries(&[("a", "10.0.0.1"), ("b", &b)]), &last.lines).unwrap();
    assert_eq!(broken.lines, last.lines);
    assert_eq!(refused(&broken), ["a"]);
    let removed = sift(entries(&[("b", &b)]), &last.lines).unwrap();
    assert_eq!(used(&removed), ["b"]);
    assert!(removed.refused.is_empty());
    assert!(sift(Vec::new(), &last.lines).unwrap().peers.is_empty());
}

/// By its address, its key, a block and its name; also by a name of an entry that comes first.
#[test]
fn nobody_takes_what_another_one_has() {
    let owner = format!("10.0.0.5 nets=10.0.0.5,10.5.0.0/16 keys={} name=db", key(5));
    let last = sift(entries(&[("m", &owner)]), &Last::new()).unwrap();
    for theft in [
        line("10.0.0.5", 6),
        line("10.0.0.6", 5),
        format!("10.0.0.6 nets=10.5.1.0/24 keys={}", key(6)),
        format!("10.0.0.6 nets=10.0.0.0/8 keys={}", key(6)),
        format!("10.0.0.6 keys={} name=db", key(6)),
        line("fd00::6", 6),
    ] {
        for thief in ["a", "z"] {
            let sifted = sift(entries(&[(thief, &theft), ("m", &owner)]), &last.lines).unwrap();
            assert_eq!(used(&sifted), ["m"], "{theft}");
            assert_eq!(refused(&sifted), [thief]);
            let why = &sifted.refused[0].why;
            assert!(why.contains('m') && !why.contains("line 1"), "{why}");
        }
    }
}

#[test]
fn of_two_new_ones_the_first_by_name_is_used() {
    let (a, b) = (line("10.0.0.1", 1), line("10.0.0.1", 2));
    let sifted = sift(entries(&[("b", &b), ("a", &a)]), &Last::new()).unwrap();
    assert_eq!(used(&sifted), ["a"]);
    let why = &sifted.refused[0].why;
    assert!(
        why.contains("the address 10.0.0.1 stands in a already"),
        "{why}"
    );
}

/// It wants what another one has, and so keeps what it has.
#[test]
fn who_moves_to_a_place_that_is_taken_stays() {
    let (a, b) = (line("10.0.0.1", 1), line("10.0.0.2", 2));
    let last = sift(entries(&[("a", &a), ("b", &b)]), &Last::new()).unwrap();
    let moved = line("10.0.0.2", 1);
    let sifted = sift(entries(&[("a", &moved), ("b", &b)]), &last.lines).unwrap();
    assert_eq!(sifted.lines, last.lines);
    // And if somebody new has taken what it had: both are as they were, but for the new one.
    let new = line("10.0.0.1", 3);
    let sifted = sift(
        entries(&[("a", &moved), ("b", &b), ("c", &new)]),
        &last.lines,
    )
    .unwrap();
    assert!(sifted.lines.contains_key("b"));
    assert_eq!(sifted.peers.len(), 2);
}

#[test]
fn places_can_be_exchanged_in_one_answer() {
    let (a, b) = (line("10.0.0.1", 1), line("10.0.0.2", 2));
    let last = sift(entries(&[("a", &a), ("b", &b)]), &Last::new()).unwrap();
    let (a, b) = (line("10.0.0.2", 1), line("10.0.0.1", 2));
    let sifted = sift(entries(&[("a", &a), ("b", &b)]), &last.lines).unwrap();
    assert!(sifted.refused.is_empty());
    assert_eq!(sifted.lines["a"], a);
}

#[test]
fn too_many_are_none() {
    let flood = (0..=MOST_ENTRIES).map(|number| Entry::new(number.to_string().as_bytes(), b"x"));
    assert!(sift(flood.collect(), &Last::new()).is_err());
}

/// Each excludes the next, and had another place before.
#[test]
fn any_order_of_changes_ends() {
    let count = 40_u8;
    let address = |number: u8| format!("10.0.0.{number}");
    let set = |shift: u8| -> Vec<Entry> {
        (1..=count)
            .map(|number| {
                let line = line(&address(number + shift), number);
                Entry::new(format!("{number:03}").as_bytes(), line.as_bytes())
            })
            .collect()
    };
    let last = sift(set(0), &Last::new()).unwrap();
    assert_eq!(
        sift(set(1), &last.lines).unwrap().peers.len(),
        usize::from(count)
    );
    let mut chain = set(1);
    chain.push(Entry::new(
        b"thief",
        line(&address(count + 1), 99).as_bytes(),
    ));
    assert!(!sift(chain, &last.lines).unwrap().peers.is_empty());
}

#[test]
fn who_was_there_first_by_the_count_of_the_source_stays() {
    let (a, b) = (line("10.0.0.1", 1), line("10.0.0.1", 2));
    let mut list = entries(&[("thief", &a), ("victim", &b)]);
    (list[0].since, list[1].since) = (20, 10);
    let sifted = sift(list, &Last::new()).unwrap();
    assert_eq!(used(&sifted), ["victim"]);
}

/// It has the address of one that is there, and so its key keeps out nobody.
#[test]
fn one_that_is_not_used_keeps_nobody_out() {
    let a = line("10.0.0.1", 1);
    let (decoy, b) = (line("10.0.0.1", 2), line("10.0.0.2", 2));
    let last = sift(entries(&[("a", &a)]), &Last::new()).unwrap();
    let list = entries(&[("a", &a), ("b", &decoy), ("c", &b)]);
    assert_eq!(used(&sift(list, &last.lines).unwrap()), ["a", "c"]);
}

/// Each does not fit to the one before it.
#[test]
fn a_long_chain_costs_those_who_are_in_it() {
    let a = line("10.0.0.1", 1);
    let last = sift(entries(&[("a", &a)]), &Last::new()).unwrap();
    let mut list = entries(&[("a", &a)]);
    for number in 1..200_u8 {
        let nets = format!("10.9.{number}.0/24,10.9.{}.0/24", number + 1);
        let line = format!("10.1.0.{number} nets={nets} keys={}", key(number + 1));
        list.push(Entry::new(
            format!("b{number:03}").as_bytes(),
            line.as_bytes(),
        ));
    }
    let sifted = sift(list, &last.lines).unwrap();
    assert!(sifted.lines.contains_key("a") && sifted.peers.len() > 10);
}

/// The thief is older by the count of the source, or the first by name, and has wanted it for long.
#[test]
fn a_claim_that_stands_neither_hinders_nor_outlives_a_change_of_the_owner() {
    let (victim, own) = (line("10.0.0.1", 1), line("10.0.0.9", 9));
    let owner = format!("{victim} name=db");
    let last = sift(entries(&[("v", &owner), ("a", &own)]), &Last::new()).unwrap();
    let changed = format!(
        "10.0.0.1 nets=10.0.0.1,10.7.0.0/16 keys={},{}",
        key(1),
        key(2)
    );
    for claim in [
        format!("10.0.0.9 nets=10.0.0.9,10.0.0.1 keys={}", key(9)),
        format!("10.0.0.9 nets=10.0.0.0/8 keys={}", key(9)),
        format!("10.0.0.9 keys={},{}", key(9), key(1)),
        line("10.0.0.1", 9),
    ] {
        let mut list = entries(&[("a", &claim), ("v", &changed)]);
        (list[0].since, list[1].since) = (10, 20);
        let sifted = sift(list, &last.lines).unwrap();
        assert_eq!(sifted.lines["v"], changed, "{claim}");
        assert_eq!(sifted.lines["a"], own, "{claim}");
        assert_eq!(refused(&sifted), ["a"]);
    }
    // A thief that has nothing else does not stay, either.
    let list = entries(&[("a", &victim), ("v", &changed)]);
    let last = sift(entries(&[("v", &owner)]), &Last::new()).unwrap();
    assert_eq!(used(&sift(list, &last.lines).unwrap()), ["v"]);
}

/// Whatever is written: what was in use and is still there is as it was, or as it is.
#[test]
fn whoever_is_in_use_stays() {
    let mut state = 1_u64;
    let mut random = |below: u64| {
        state = state
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1);
        (state >> 33) % below
    };
    let mut last = Last::new();
    for _ in 0..100 {
        let mut list = Vec::new();
        for origin in 0..30 {
            let (address, number) = (random(24), random(24) as u8);
            let net = match random(3) {
                0 => format!("10.0.0.{address}/{}", 28 + random(5)),
                _ => format!("10.0.0.{address}"),
            };
            let line = match random(12) {
                0 => "broken".to_owned(),
                1 => format!("fd00::{address} keys={}", key(number)),
                _ => format!("10.1.0.{address} nets={net} keys={}", key(number)),
            };
            if random(8) != 0 {
                list.push(Entry::new(origin.to_string().as_bytes(), line.as_bytes()));
            }
        }
        let sifted = sift(list.clone(), &last).unwrap();
        for entry in &list {
            let line = sifted.lines.get(&entry.origin);
            let fits = match last.get(&entry.origin) {
                Some(before) => line == Some(before) || line == entry.line.as_ref().ok(),
                None => line.is_none() || line == entry.line.as_ref().ok(),
            };
            assert!(fits, "{entry:?} {line:?}");
        }
        last = sifted.lines;
    }
}

/// Nothing is known yet, and the first of all wants everything.
#[test]
fn one_does_not_keep_out_all_others_at_the_start() {
    let honest: Vec<String> = (1..=20)
        .map(|it| line(&format!("10.0.0.{it}"), it))
        .collect();
    let keys: Vec<String> = (1..=20).map(key).collect();
    for greedy in [
        format!("10.9.0.1 nets=0.0.0.0/0 keys={}", key(99)),
        format!("10.9.0.1 nets=10.0.0.0/30 keys={}", key(99)),
        format!("10.9.0.1 keys={}", keys[..2].join(",")),
        line("fd00::1", 99),
    ] {
        for count in [1, 2] {
            let mut list: Vec<Entry> = (0..count)
                .map(|it| Entry::new(format!("a{it}").as_bytes(), greedy.as_bytes()))
                .collect();
            for (number, line) in honest.iter().enumerate() {
                let mut entry = Entry::new(format!("h{number}").as_bytes(), line.as_bytes());
                entry.since = 10;
                list.push(entry);
            }
            let sifted = sift(list, &Last::new()).unwrap();
            assert_eq!(sifted.peers.len(), 20, "{greedy}");
            assert_eq!(sifted.refused.len(), count);
        }
    }
}

/// All want the same, and each of them much.
#[test]
fn many_that_exclude_each_other_take_no_long_time() {
    let line = format!("10.0.0.1 nets=0.0.0.0/0 keys={}", key(1));
    let flood = (0..MOST_ENTRIES).map(|it| Entry::new(it.to_string().as_bytes(), line.as_bytes()));
    assert_eq!(sift(flood.collect(), &Last::new()).unwrap().peers.len(), 1);
}
