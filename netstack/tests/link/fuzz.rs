//! A link under attack while it carries bytes. In `cargo test` for a few seconds; for hours:
//! `BOLERO_RANDOM_TEST_TIME_MS=3600000 cargo test --release -p netstack fuzz`. A failure names the seed
//! (`BOLERO_RANDOM_SEED`) that repeats it. Inputs worth keeping go to `__fuzz__`.

#[path = "fuzz/attack.rs"]
mod attack;
#[path = "fuzz/script.rs"]
mod script;
#[path = "fuzz/victim.rs"]
mod victim;

use std::time::Duration;

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
            let mut script = Script::new(input);
            let mut victims = Victims::new(&mut script);
            while !script.is_over() {
                victims.go_on(script.byte() % 8);
                victims.strike(&Attack::draw(&mut script));
            }
            victims.finish();
        });
}
