//! `ulsock doctor`: it says that all is well where it is, and names what is not, with its cure.

use std::fs;
use std::os::unix::fs::{PermissionsExt, chown};

use tests::ends::{Ends, Side, kernel_only};
use tests::place::Place;
use tests::program::{Finished, Program};

const FOREIGNER: u32 = 65_534;

fn doctor(place: &Place) -> Program {
    let program = place.own(Side::Client, "ulsock").without("LD_PRELOAD");
    program.arg("doctor").env("TMPDIR", place.folder())
}

/// Ends so, and says all of this.
fn assert_says(finished: &Finished, status: i32, said: &[&str]) {
    assert_eq!(finished.status.code(), Some(status), "{}", finished.output);
    for text in said {
        assert!(
            finished.output.contains(text),
            "{text:?} in {}",
            finished.output
        );
    }
    let bad = finished.output.contains("  BAD  ");
    assert_eq!(bad, status != 0, "{}", finished.output);
}

#[test]
fn healthy() {
    if kernel_only() {
        return;
    }
    let place = Place::new(Ends::both());
    let finished = doctor(&place)
        .env("ULSOCK_PROFILE", "throughput")
        .env("ULSOCK_EXCLUDE", "22,127.0.0.0/8")
        .start()
        .wait();
    let run_dir = place.run_dir().display().to_string();
    assert_says(
        &finished,
        0,
        &[
            "from ULSOCK_PROFILE",
            "spin up to 20 us",
            "from the profile",
            "from ULSOCK_EXCLUDE",
            "automatic: after 8 calls",
            &format!("  ok   {run_dir}: owner root, mode 1777"),
            "both ends left kernel TCP",
            "times as fast",
            "All is well",
        ],
    );
    let left = fs::read_dir(place.folder()).expect("folder").flatten();
    let left: Vec<_> = left.map(|entry| entry.file_name()).collect();
    assert!(
        !left
            .iter()
            .any(|name| name.to_string_lossy().contains("doctor")),
        "{left:?}"
    );
}

#[test]
fn a_run_directory_of_a_stranger() {
    if kernel_only() {
        return;
    }
    let place = Place::new(Ends::both());
    let foreign = place.folder().join("foreign");
    fs::create_dir(&foreign).expect("foreign");
    chown(&foreign, Some(FOREIGNER), None).expect("chown");
    let finished = doctor(&place)
        .env("ULSOCK_RUN_DIR", &foreign)
        .start()
        .wait();
    let problem = format!(
        "{}: belongs to uid {FOREIGNER}: give it to root",
        foreign.display()
    );
    assert_says(&finished, 1, &[&problem, "BAD  on ulsock"]);
}

/// Somebody has taken the name of our table. Root would put it away if it were another user's.
#[test]
fn a_squatted_table() {
    if kernel_only() {
        return;
    }
    let place = Place::new(Ends::both());
    let squatted = place.run_dir().join("offers.0/full");
    fs::create_dir_all(squatted).expect("a folder in its place");
    fs::set_permissions(place.run_dir(), fs::Permissions::from_mode(0o1777)).expect("chmod");
    let finished = doctor(&place).start().wait();
    let cause = "`offers.0` in it is no plain file that uid 0 alone can write: remove it";
    assert_says(&finished, 1, &[cause, "BAD  on ulsock"]);
}

#[test]
fn settings_that_cannot_work() {
    if kernel_only() {
        return;
    }
    let place = Place::new(Ends::both());
    for (name, value, said) in [
        ("ULSOCK_RING", "5", "give a number of bytes"),
        ("ULSOCK_NONSENSE", "1", "no such variable"),
        ("ULSOCK", "0", "unset it"),
    ] {
        let finished = doctor(&place).env(name, value).start().wait();
        assert_says(&finished, 1, &[name, said, "not made", "One problem"]);
    }
    // A limit that the library cannot live with.
    let limited = place.program(Side::Client, "sh").without("LD_PRELOAD");
    let finished = limited
        .arg("-c")
        .arg("ulimit -v 4000000; exec \"$0\" doctor")
        .arg(tests::program::built("ulsock"))
        .start()
        .wait();
    assert_says(&finished, 1, &["BAD  limits", "ulimit -v"]);
}
