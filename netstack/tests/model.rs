//! Promotion, fail-over and close between two hosts (docs/failover.md), as a model that is gone through
//! completely: two programs with their libraries, two engines, kernel TCP and the link. Packets are lost,
//! doubled and late as they like; at every step a program, an engine or a host may die, an engine may
//! stop and wake much later, a program too, and the link may be cut.
//!
//! `ULSOCK_MODEL=large` goes on to larger runs (ten minutes, 2 GB). With `--nocapture` the number of
//! states of each run is shown. What is wrong is shown as the shortest way there.

#[path = "model/engine.rs"]
mod engine;
#[path = "model/explore.rs"]
mod explore;
#[path = "model/fault.rs"]
mod fault;
#[path = "model/kernel.rs"]
mod kernel;
#[path = "model/landmark.rs"]
mod landmark;
#[path = "model/library.rs"]
mod library;
#[path = "model/program.rs"]
mod program;
#[path = "model/promote.rs"]
mod promote;
#[path = "model/property.rs"]
mod property;
#[path = "model/rules.rs"]
mod rules;
#[path = "model/show.rs"]
mod show;
#[path = "model/state.rs"]
mod state;
#[path = "model/step.rs"]
mod step;
#[path = "model/table.rs"]
mod table;
#[path = "model/weak.rs"]
mod weak;

use explore::explore;
use landmark::Landmark::{self, *};
use rules::Scenario;
use state::Side::{A, B};

/// Bytes that a ring holds.
const RING: u8 = 2;

fn scenario(bytes: [u8; 2], epochs: u8, faults: u8) -> Scenario {
    Scenario {
        bytes,
        epochs,
        faults,
        ring: RING,
        hasty: None,
        first: None,
        stops: false,
        weakness: None,
    }
}

/// Goes through runs, which must be right and come by these landmarks.
fn run(usual: &[Scenario], large: &[Scenario], landmarks: &[Landmark]) {
    let is_large = std::env::var("ULSOCK_MODEL").is_ok_and(|size| size == "large");
    let large = if is_large { large } else { &[] };
    let mut passed = landmark::Landmarks::new();
    for scenario in usual.iter().chain(large) {
        let seen = explore(scenario).unwrap_or_else(|found| panic!("{scenario:?}: {found:?}"));
        let explore::Seen {
            states,
            steps,
            rests,
            depth,
            ..
        } = seen;
        println!(
            "{states:8} states, {steps:8} steps, {rests:6} ends, {depth:2} deep: {scenario:?}"
        );
        passed.extend(seen.landmarks);
    }
    let missed: Vec<_> = landmarks
        .iter()
        .filter(|mark| !passed.contains(mark))
        .collect();
    assert!(missed.is_empty(), "never seen: {missed:?}");
}

/// [F1] to [F28]: one promotion, one fault.
#[test]
fn one_promotion() {
    run(
        &[
            scenario([1, 1], 1, 1),
            scenario([2, 0], 1, 1),
            scenario([0, 2], 1, 1),
            scenario([3, 0], 1, 0),
            scenario([0, 3], 1, 0),
            scenario([2, 2], 1, 0),
        ],
        &[
            scenario([2, 1], 1, 1),
            scenario([1, 2], 1, 1),
            scenario([3, 2], 1, 0),
            scenario([3, 0], 1, 1),
            scenario([0, 4], 1, 1),
        ],
        &[
            Promoted,
            EofAfterResume,
            LateEngine,
            ResumeAfterAbort,
            FinAsks,
            BrokenPromise,
            FullRing,
            BothResend,
        ],
    );
}

/// [F4], [F10], [F17], [F29] A second promotion, with what is left of the first about.
#[test]
fn two_promotions() {
    run(
        &[
            scenario([1, 0], 2, 1),
            scenario([0, 1], 2, 1),
            scenario([1, 1], 2, 0),
            scenario([2, 0], 2, 0),
            scenario([0, 2], 2, 0),
        ],
        &[
            scenario([2, 0], 2, 1),
            scenario([0, 2], 2, 1),
            scenario([1, 1], 2, 1),
            scenario([2, 1], 2, 0),
            scenario([1, 2], 2, 0),
        ],
        &[PromotedAgain, StaleResume, LateEngine, LateFrames],
    );
}

/// Two faults, of any kind, at any two steps.
#[test]
fn two_faults() {
    run(
        &[scenario([1, 0], 1, 2), scenario([0, 1], 1, 2)],
        &[
            scenario([1, 1], 1, 2),
            scenario([2, 0], 1, 2),
            scenario([1, 0], 1, 3),
        ],
        &[LateEngine, NicdResends, FinAsks],
    );
}

/// [F24] A program that closes as soon as it has written, and leaves the rest to nicd.
#[test]
fn close_in_haste() {
    let hasty = |side, bytes, faults| Scenario {
        hasty: Some(side),
        ..scenario(bytes, 1, faults)
    };
    run(
        &[hasty(A, [2, 0], 1), hasty(B, [0, 1], 1)],
        &[
            hasty(A, [1, 1], 1),
            hasty(B, [1, 1], 1),
            hasty(A, [1, 0], 2),
        ],
        &[NicdResends, FinAsks],
    );
}

/// [F15] Question and answer: nobody goes on, or closes, before it has heard the other.
#[test]
fn conversation() {
    let talk = |first, epochs, faults| Scenario {
        first: Some(first),
        ..scenario([1, 1], epochs, faults)
    };
    run(
        &[talk(A, 1, 1), talk(B, 1, 1)],
        &[talk(A, 2, 1), talk(B, 2, 1), talk(A, 1, 2), talk(B, 1, 2)],
        &[EofAfterResume, LateEngine],
    );
}

/// [F30] A program that makes no calls for long keeps nobody from leaving.
#[test]
fn a_program_that_sleeps() {
    let sleepy = |bytes, faults| Scenario {
        stops: true,
        ..scenario(bytes, 1, faults)
    };
    let hasty = |side, bytes, faults| Scenario {
        hasty: Some(side),
        ..sleepy(bytes, faults)
    };
    run(
        &[
            hasty(A, [1, 0], 1),
            hasty(B, [0, 1], 1),
            sleepy([1, 0], 1),
            sleepy([0, 1], 1),
        ],
        &[
            hasty(A, [2, 1], 1),
            hasty(B, [1, 2], 1),
            sleepy([1, 1], 1),
            hasty(A, [1, 0], 2),
            hasty(B, [0, 1], 2),
        ],
        &[LeftAsleep, WokeUp],
    );
}
