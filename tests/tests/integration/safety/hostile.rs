//! Peers that do everything wrong, beside honest clients of the same victim; see `tests::hostile`. Each run makes the
//! same attacks; `hostile run --seed N` makes others.

use tests::ends::kernel_only;
use tests::hostile::campaign::{self, Plan};
use tests::hostile::cases::CASES;

/// Of the first attack of each group.
const SEED: u64 = 1;

/// Every attack of a group, so many times: who attacks, and how the victim waits, is another each time.
fn withstand(group: &str, times: usize) {
    if kernel_only() {
        return;
    }
    let count = CASES.iter().filter(|case| case.name.starts_with(group));
    let plan = Plan {
        seed: SEED,
        cases: times * count.count(),
        only: group.to_owned(),
        go_on: true,
    };
    let mut found = Vec::new();
    campaign::run(&plan, &mut |attack, verdict| {
        if let Err(why) = verdict {
            found.push(format!("{attack}: {why}"));
        }
    });
    assert!(found.is_empty(), "{}", found.join("\n"));
}

/// Peers that are silent, stopped or dead after each step of the handshake.
#[test]
fn steps() {
    withstand("steps::", 1);
}

#[test]
fn handshakes() {
    withstand("handshake::", 1);
}

/// Segments and pages that are not what they should be, or do not stay so.
#[test]
fn memory() {
    withstand("memory::", 1);
}

#[test]
fn claims() {
    withstand("claims::", 1);
}

#[test]
fn bells() {
    withstand("bells::", 1);
}

#[test]
fn offers() {
    withstand("offers::", 1);
}

/// Any value in any shared word, while bytes flow and while the peer is stopped.
#[test]
fn shared_words() {
    withstand("scribble::", 1);
}
