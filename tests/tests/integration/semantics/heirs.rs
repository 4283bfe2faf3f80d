//! A connection changes hands in the middle of its stream, with bytes unread, while the other end
//! is alive, busy, stopped or gone: the heir gets exactly the rest.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::thread::sleep;
use std::time::Duration;

use tests::compile::compile;
use tests::ends::{Ends, Side};
use tests::place::{Place, Rings};
use tests::program::{Finished, built};
use tests::{ports, procfs};

/// Not root: processes of its own can be limited.
const USER: &str = "daemon";
const HOWS: [&str; 3] = ["exec", "stdin", "pass"];

/// Who gets the connection, and how.
#[derive(Clone, Copy)]
struct Heir<'a> {
    how: &'a str,
    /// With the giver's environment.
    kin: bool,
    /// More for the giver's command line.
    more: &'a str,
    /// The giver is this user's.
    user: Option<&'a str>,
}

/// The rest of `unread` bytes after `read` of them goes to the heir, while the speaker does `then`.
/// What the giver and the heir printed.
fn run(place: &Place, heir: Heir, then: &str, unread: usize, read: usize) -> Finished {
    let port = ports::free();
    let done = place.folder().join(format!("done-{port}"));
    let more = if matches!(then, "alive" | "polls" | "busy" | "stopped") {
        50
    } else {
        0
    };
    let common = format!(
        "port={port} rounds=40 unread={unread} done={} more={more}",
        done.display()
    );
    let mut giver = place.own(Side::Server, "heir");
    if let Some(user) = heir.user {
        giver = place.program(Side::Server, reachable(place)).user(user);
    }
    let Heir { how, kin, .. } = heir;
    let giver = giver.args("giver").args(&common).args(heir.more);
    let giver = giver.args(&format!("how={how} kin={kin} read={read}"));
    let mut giver = giver.start().listening(port);
    let speaker = place
        .own(Side::Client, "heir")
        .args("speaker")
        .args(&common);
    let mut speaker = speaker.args(&format!("then={then}")).start();
    if then == "stopped" && heir.more.contains("processes=") {
        // Nobody can stand in: the bytes come when it goes on.
        speaker.until("it stops", |speaker| procfs::is_stopped(speaker.pid()));
        sleep(Duration::from_millis(500));
        speaker.signal(libc::SIGCONT);
    }
    giver.prints("taken");
    match then {
        "stopped" => speaker.signal(libc::SIGCONT),
        "killed" => {
            speaker.wait();
            return giver.wait();
        }
        _ => {}
    }
    speaker.succeed();
    giver.wait()
}

/// Other users may be unable to reach our own programs.
fn reachable(place: &Place) -> PathBuf {
    let copy = place.folder().join("heir");
    if !copy.exists() {
        fs::copy(built("heir"), &copy).expect("copy the program");
    }
    allow(place.folder(), 0o777);
    copy
}

fn allow(path: &Path, mode: u32) {
    fs::set_permissions(path, fs::Permissions::from_mode(mode)).expect("chmod");
}

fn check(finished: Finished) -> String {
    assert!(finished.status.success(), "{}", finished.errors);
    finished.output
}

fn run_all(then: &str) {
    for how in HOWS {
        for kin in [false, true] {
            for (unread, read) in [(0, 0), (5, 2), (100_000, 99_999), (1_500_000, 700_000)] {
                let heir = Heir {
                    how,
                    kin,
                    more: "",
                    user: None,
                };
                let place = Place::new(Ends::both());
                check(run(&place, heir, then, unread, read));
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

/// Whoever sleeps on the connection, in whatever call, sends again at once what is unread: nobody has
/// to stand in. On a busy machine it may come too late, but not always.
#[test]
fn of_one_that_sleeps() {
    for then in ["alive", "polls"] {
        let heir = Heir {
            how: "exec",
            kin: false,
            more: "",
            user: None,
        };
        let served = (0..10).any(|_| {
            let place = Place::new(Ends::both());
            check(run(&place, heir, then, 100_000, 99_000)).contains("taken itself")
        });
        assert!(served, "{then}");
    }
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

/// Programs that ulsock is not loaded into, whatever the environment says.
fn to_strangers(compiler: &str, flags: &str, kin: bool, user: Option<&str>) {
    for then in ["alive", "busy", "stopped", "killed"] {
        let place = Place::new(Ends::both());
        let taker = compile(compiler, "taker.c", flags, place.folder(), "taker");
        allow(&taker, 0o4755);
        let more = format!("taker={}", taker.display());
        for (how, unread, read) in [("exec", 0, 0), ("exec", 100_000, 99_999), ("stdin", 5, 2)] {
            let heir = Heir {
                how,
                kin,
                more: &more,
                user,
            };
            let output = check(run(&place, heir, then, unread, read));
            assert!(output.contains("taken by 0"), "{output}");
        }
        let (report, _) = place.report(Side::Client);
        if place.ends() == Ends::Both && then != "killed" {
            assert!(report.ring_bytes() > 0, "{then}: {report:?}");
        }
    }
}

#[test]
fn that_are_static() {
    to_strangers("cc", "-static", true, None);
    to_strangers("cc", "-static-pie", true, None);
}

#[test]
fn that_have_another_libc() {
    to_strangers("musl-gcc", "", false, None);
    to_strangers("musl-gcc", "-static", true, None);
}

/// An unprivileged user starts a program that is root's: the loader preloads nothing into it.
#[test]
fn that_are_setuid() {
    to_strangers("cc", "", true, Some(USER));
}

/// Nobody can relay, but no byte is lost: a peer that lives sends them again, and those of one that is
/// gone are all there is.
#[test]
fn without_a_process_for_the_relay() {
    for (then, unread, said) in [
        ("killed", 5, "it ends after"),
        ("closed", 100_000, "it ends after"),
        ("stopped", 100_000, "next call"),
    ] {
        let place = Place::new(Ends::both());
        let heir = Heir {
            how: "exec",
            kin: false,
            more: "processes=0",
            user: Some(USER),
        };
        let finished = run(&place, heir, then, unread, 2);
        if place.ends() == Ends::Both {
            assert!(
                finished.errors.contains(said),
                "{then}: {}",
                finished.errors
            );
        }
        check(finished);
    }
}
