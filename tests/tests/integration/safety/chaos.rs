//! kill -9 of either end at any time: the survivor reads what had been sent, then EOF or ECONNRESET; a
//! survivor that sends gets EPIPE or ECONNRESET; all of it within two seconds, also after a half-close.

use std::fs;
use std::path::Path;
use std::time::Duration;

use serde::Deserialize;
use tests::ends::{Ends, Side};
use tests::place::Place;
use tests::ports;
use tests::program::Running;
use tests::rng::Rng;
use tests::sock;

const DELAYS_MS: [u64; 7] = [0, 1, 2, 5, 10, 20, 50];
const TIME_TO_NOTICE: Duration = Duration::from_secs(2);

/// What the victim and the survivor do; see `src/bin/killer.rs`.
struct Case {
    victim: &'static str,
    survivor: &'static str,
    /// Kernel TCP delivers all that was sent: the victim had nothing unread.
    all_arrives: bool,
}

/// How a direction of the survivor ended.
#[derive(Debug, Deserialize)]
struct End {
    how: String,
    bytes: u64,
    at_ms: u64,
}

#[derive(Debug, Deserialize)]
struct Ending {
    received: Option<End>,
    sent: Option<End>,
}

fn run(case: &Case) {
    for victim_side in [Side::Server, Side::Client] {
        let place = Place::new(Ends::both());
        for (number, delay) in DELAYS_MS.into_iter().enumerate() {
            let mut rng = Rng::new(delay, victim_side as u64);
            let jitter = Duration::from_micros(rng.below(1000) as u64);
            let delay = Duration::from_millis(delay) + jitter;
            trial(&place, case, victim_side, delay, number as u64);
        }
        check_rings(&place, victim_side);
        place.check_quiet();
    }
}

/// The victims write no reports; in most trials the survivor has left the kernel before the kill.
fn check_rings(place: &Place, victim: Side) {
    let survivor = match victim {
        Side::Server => Side::Client,
        Side::Client => Side::Server,
    };
    if place.ends() == Ends::Both {
        let (report, _) = place.report(survivor);
        assert!(report.upgraded > 0 && report.ring_bytes() > 0, "{report:?}");
    }
}

fn trial(place: &Place, case: &Case, victim_side: Side, delay: Duration, seed: u64) {
    let port = ports::free();
    let logs =
        [Side::Server, Side::Client].map(|side| place.folder().join(format!("{side:?}.log")));
    let start = |side: Side| -> Running {
        let role = if side == Side::Server {
            "listen"
        } else {
            "connect"
        };
        let log = &logs[side as usize];
        let _ = fs::remove_file(log);
        let plan = if side == victim_side {
            case.victim
        } else {
            case.survivor
        };
        let arguments = format!(
            "{role} port={port} seed={seed} {plan} log={}",
            log.display()
        );
        place.own(side, "killer").args(&arguments).start()
    };
    let server = start(Side::Server).listening(port);
    let client = start(Side::Client);
    let (mut victim, survivor) = match victim_side {
        Side::Server => (server, client),
        Side::Client => (client, server),
    };
    let log = &logs[victim_side as usize];
    victim.until("it is connected", |_| logged(log).is_some());
    std::thread::sleep(delay);
    victim.signal(libc::SIGKILL);
    let killed_at = sock::now();
    victim.wait();
    let output = survivor.succeed();
    let ending: Ending = serde_json::from_str(&output).expect("the survivor's JSON");
    check(
        case,
        &ending,
        killed_at,
        logged(log).expect("the victim's log"),
    );
}

/// How many bytes the owner of `log` had handed over.
fn logged(log: &Path) -> Option<u64> {
    let bytes = fs::read(log).ok()?;
    bytes.try_into().ok().map(u64::from_le_bytes)
}

fn check(case: &Case, ending: &Ending, killed_at: Duration, handed_over: u64) {
    let deadline = (killed_at + TIME_TO_NOTICE).as_millis() as u64;
    if let Some(end) = &ending.received {
        assert!(["eof", "reset"].contains(&end.how.as_str()), "{ending:?}");
        assert!(
            end.at_ms <= deadline,
            "too late by {} ms: {ending:?}",
            end.at_ms - deadline
        );
        assert!(
            !case.all_arrives || end.bytes >= handed_over,
            "{handed_over} bytes were sent: {ending:?}"
        );
    }
    if let Some(end) = &ending.sent {
        // "eof" is a kill during the warm-up, before the survivor has sent anything.
        let how = end.how.as_str();
        assert!(
            ["pipe", "reset"].contains(&how) || (how, end.bytes) == ("eof", 0),
            "{ending:?}"
        );
        assert!(
            end.at_ms <= deadline,
            "too late by {} ms: {ending:?}",
            end.at_ms - deadline
        );
    }
}

#[test]
fn sender_dies() {
    for wait in [
        "receive=1 wait=recv",
        "receive=1 wait=poll",
        "receive=1 wait=epoll",
    ] {
        run(&Case {
            victim: "send=1",
            survivor: wait,
            all_arrives: true,
        });
    }
}

#[test]
fn sender_dies_before_anything_is_read() {
    run(&Case {
        victim: "send=1",
        survivor: "receive=1 pause_ms=300",
        all_arrives: true,
    });
}

#[test]
fn sender_dies_after_the_receivers_half_close() {
    run(&Case {
        victim: "send=1",
        survivor: "receive=1 half=1",
        all_arrives: true,
    });
}

#[test]
fn receiver_dies() {
    run(&Case {
        victim: "receive=1",
        survivor: "send=1",
        all_arrives: false,
    });
}

#[test]
fn receiver_dies_without_reading() {
    run(&Case {
        victim: "receive=1 pause_ms=60000",
        survivor: "send=1",
        all_arrives: false,
    });
}

#[test]
fn receiver_dies_after_its_half_close() {
    run(&Case {
        victim: "receive=1 half=1",
        survivor: "send=1 receive=1",
        all_arrives: false,
    });
}

#[test]
fn one_dies_while_both_send() {
    run(&Case {
        victim: "send=1 receive=1",
        survivor: "send=1 receive=1",
        all_arrives: false,
    });
}

#[test]
fn one_dies_while_both_wait() {
    for survivor in [
        "receive=1 wait=recv",
        "receive=1 wait=poll",
        "receive=1 wait=epoll",
    ] {
        run(&Case {
            victim: "receive=1",
            survivor,
            all_arrives: true,
        });
    }
}
