//! Whatever happens, every byte arrives once, in order, unchanged, or the failure is reported with exact
//! counts; and when all is over nothing is left (docs/link.md, "Proof").

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::{Duration, Instant};

use super::scenario::{Act, Scenario};
use super::world::World;

/// Seeds that every run plays.
const SEEDS: u64 = 1200;

fn plays(scenario: &Scenario) -> Result<u64, String> {
    let played = catch_unwind(AssertUnwindSafe(|| World::new(scenario).play()));
    played.map_err(|panic| match panic.downcast_ref::<String>() {
        Some(text) => text.chars().take(3000).collect(),
        None => panic.downcast_ref::<&str>().unwrap_or(&"?").to_string(),
    })
}

/// Leaves out all without which it still fails, as far as that takes no more than this.
const SHRINKING: Duration = Duration::from_secs(30);

fn shrink(mut scenario: Scenario) -> Scenario {
    let end = Instant::now() + SHRINKING;
    let mut at = scenario.acts.len();
    while at > 0 && Instant::now() < end {
        at -= 1;
        let mut smaller = scenario.clone();
        smaller.acts.remove(at);
        if opens_what_it_uses(&smaller) && plays(&smaller).is_err() {
            scenario = smaller;
        }
    }
    let calm: [fn(&mut Scenario); 6] = [
        |scenario| scenario.conditions.corruption = 0.0,
        |scenario| scenario.conditions.duplication = 0.0,
        |scenario| scenario.conditions.detour = (0.0, Duration::ZERO),
        |scenario| scenario.conditions.jitter = Duration::ZERO,
        |scenario| scenario.conditions.loss = 0.0,
        |scenario| scenario.first_number = 0,
    ];
    for change in calm {
        let mut smaller = scenario.clone();
        change(&mut smaller);
        if plays(&smaller).is_err() {
            scenario = smaller;
        }
    }
    scenario
}

fn opens_what_it_uses(scenario: &Scenario) -> bool {
    let mut open = Vec::new();
    scenario.acts.iter().all(|(_, act)| match act {
        Act::Open { name, .. } => {
            open.push(*name);
            true
        }
        Act::Write { name, .. }
        | Act::Close { name, .. }
        | Act::Reset { name, .. }
        | Act::Freeze { name, .. } => open.contains(name),
        _ => true,
    })
}

fn play(seed: u64) -> u64 {
    let scenario = Scenario::draw(seed);
    match plays(&scenario) {
        Ok(packets) => packets,
        Err(why) => {
            let smaller = shrink(scenario);
            let now = plays(&smaller).err();
            panic!("seed {seed}: {why}\nshrunk, it fails by {now:?}:\n{smaller:#?}");
        }
    }
}

#[test]
fn whatever_happens() {
    let packets: u64 = (0..SEEDS).map(play).sum();
    println!("{packets} packets");
}

/// LINK_MINUTES=60 cargo test -p netstack --release --test link -- --ignored --nocapture for_minutes
#[test]
#[ignore = "for as long as LINK_MINUTES says"]
fn for_minutes() {
    let number = |name| {
        std::env::var(name)
            .ok()
            .and_then(|text| text.parse::<u64>().ok())
    };
    if let Some(seed) = number("LINK_SEED") {
        println!("seed {seed}: {} packets", play(seed));
        return;
    }
    let end = Instant::now() + Duration::from_secs(60 * number("LINK_MINUTES").unwrap_or(1));
    let first = number("LINK_FROM").unwrap_or(SEEDS);
    let (mut seed, mut packets) = (first, 0);
    while Instant::now() < end {
        packets += play(seed);
        seed += 1;
    }
    println!(
        "{} scenarios from seed {first}, {packets} packets",
        seed - first
    );
}
