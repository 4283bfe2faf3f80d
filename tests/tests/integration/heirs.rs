//! A connection changes hands in the middle of its stream, with bytes unread, while the other end
//! is alive, busy, stopped or gone: the heir gets exactly the rest.

use tests::ends::{Ends, Side};
use tests::place::{Place, Rings};
use tests::ports;

const HOWS: [&str; 3] = ["exec", "stdin", "pass"];

/// The rest of `unread` bytes after `read` of them goes to the heir, while the speaker does `then`.
fn run(ends: Ends, how: &str, kin: bool, then: &str, unread: usize, read: usize) {
    let place = Place::new(ends);
    let (port, done) = (ports::free(), place.folder().join("done"));
    let more = if matches!(then, "alive" | "busy" | "stopped") {
        50
    } else {
        0
    };
    let common = format!(
        "port={port} rounds=40 unread={unread} done={} more={more}",
        done.display()
    );
    let giver = place.own(Side::Server, "heir").args("giver").args(&common);
    let giver = giver.args(&format!("how={how} kin={kin} read={read}"));
    let mut giver = giver.start().listening(port);
    let speaker = place
        .own(Side::Client, "heir")
        .args("speaker")
        .args(&common);
    let speaker = speaker.args(&format!("then={then}")).start();
    giver.prints("taken");
    match then {
        "stopped" => speaker.signal(libc::SIGCONT),
        "killed" => return drop((speaker.wait(), giver.succeed())),
        _ => {}
    }
    speaker.succeed();
    giver.succeed();
}

fn run_all(then: &str) {
    for how in HOWS {
        for kin in [false, true] {
            for (unread, read) in [(0, 0), (5, 2), (100_000, 99_999), (1_500_000, 700_000)] {
                run(Ends::both(), how, kin, then, unread, read);
            }
        }
    }
}

/// An heir that loads ulsock gets rings too, whether the connection had some before or not.
#[test]
fn that_know_ulsock_have_rings_again() {
    for rounds in [2, 200] {
        let place = Place::new(Ends::both());
        let (port, done) = (ports::free(), place.folder().join("done"));
        let common = format!(
            "port={port} rounds={rounds} unread=10 done={} more=3000",
            done.display()
        );
        let giver = place.own(Side::Server, "heir").args("giver").args(&common);
        let giver = giver.args("how=exec kin=true read=10").start();
        let giver = giver.listening(port);
        let speaker = place.own(Side::Client, "heir");
        let speaker = speaker.args("speaker").args(&common).args("then=alive");
        speaker.start().succeed();
        giver.succeed();
        place.check(Rings::Most);
    }
}

#[test]
fn of_one_that_waits() {
    run_all("alive");
}

#[test]
fn of_one_that_computes() {
    run_all("busy");
}

#[test]
fn of_one_that_is_stopped() {
    run_all("stopped");
}

#[test]
fn of_one_that_has_half_closed() {
    run_all("shut");
}

#[test]
fn of_one_that_has_closed() {
    run_all("closed");
}

#[test]
fn of_one_that_was_killed() {
    run_all("killed");
}
