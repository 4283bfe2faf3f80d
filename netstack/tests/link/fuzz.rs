//! A link under attack while it carries bytes. In `cargo test` for a few seconds, where a failure names the seed
//! (`BOLERO_RANDOM_SEED`) that repeats it; for hours, guided by coverage: `tests/fuzz 3600`. Inputs worth keeping go
//! to `__fuzz__`.

#[path = "fuzz/attack.rs"]
mod attack;
#[path = "fuzz/script.rs"]
mod script;
#[path = "fuzz/victim.rs"]
mod victim;

use std::collections::BTreeSet;
use std::fs;
use std::time::Duration;

use netstack::link::Dropped;
use netstack::wire::Kind;

use super::net::Random;
use attack::Attack;
use script::Script;
use victim::Victims;

/// What a run of the tests spends here, unless told otherwise.
const TIME: Duration = Duration::from_secs(3);

/// [X1] [X2] [X4] [W7] [H4] [C4] [K2] [P6] Whatever comes: no panic, no byte outside the rings, no
/// state without bound; and packets that do not pass the checks change nothing.
#[test]
fn a_link_under_attack() {
    bolero::check!()
        .with_test_time(TIME)
        .with_max_len(1500)
        .for_each(|input: &[u8]| {
            play(input);
        });
}

/// How far the attacks of an input have come.
fn play(input: &[u8]) -> BTreeSet<String> {
    let mut script = Script::new(input);
    let mut victims = Victims::new(&mut script);
    while !script.is_over() {
        victims.go_on(script.byte() % 8);
        victims.strike(&Attack::draw(&mut script));
    }
    victims.finish();
    victims.reached
}

/// Every check that there is turns an attack away, and behind all of them every kind is taken: else the rest of the
/// inputs would prove little. With BLESS inputs that do so are looked for and kept.
#[test]
fn the_corpus_reaches_deep() {
    let kinds = Kind::ALL.iter().filter(|kind| **kind != Kind::Welcome);
    let mut wanted: BTreeSet<String> = kinds.map(|kind| format!("{kind:?}")).collect();
    // Nobody freezes a ring or resets a connection here, and 64 islands are more than an input can say.
    let never = [Dropped::Frozen, Dropped::Ended, Dropped::Full];
    let reasons = Dropped::ALL.iter().filter(|why| !never.contains(why));
    wanted.extend(reasons.map(|why| format!("{:?}", Some(why))));
    let folder = concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/tests/link/__fuzz__/fuzz__a_link_under_attack/corpus"
    );
    let mut reached = BTreeSet::new();
    for file in fs::read_dir(folder).expect("a corpus") {
        reached.append(&mut play(
            &fs::read(file.expect("a file").path()).expect("an input"),
        ));
    }
    let mut dice = Random::new(1);
    for number in 0..20_000 {
        if wanted.is_subset(&reached) || std::env::var_os("BLESS").is_none() {
            break;
        }
        let input: Vec<u8> = (0..300).map(|_| dice.next() as u8).collect();
        let more = play(&input);
        if more
            .iter()
            .any(|one| wanted.contains(one) && !reached.contains(one))
        {
            let file = format!("{folder}/deep-{number}");
            fs::write(file, &input).expect("the corpus");
            reached.extend(more);
        }
    }
    let missing: Vec<_> = wanted.difference(&reached).collect();
    assert!(missing.is_empty(), "not reached: {missing:?}");
}
