//! Random programs of socket calls behave on ulsock as on kernel TCP, call by call; and so do those
//! that once did not, which `tests/differ` keeps. See `tests::differ`.

use std::fs;
use std::path::{Path, PathBuf};
use std::thread;
use std::time::Duration;

use tests::differ::campaign::{self, Case, Plan, Summary};
use tests::differ::compare::{Judge, Verdict};
use tests::differ::generate::Family;
use tests::differ::mode::Mode;
use tests::differ::program::Program;
use tests::program::built;

/// Each run of the tests takes the same programs; `differ run` takes others.
const SEED: u64 = 1;

fn plan(family: Family, modes: Vec<Mode>, programs: u64, seconds: u64) -> Plan {
    Plan {
        seed: SEED,
        families: vec![family],
        programs,
        time: Duration::from_secs(seconds),
        modes,
        hand_over: false,
        without: Vec::new(),
        jobs: 2,
        shrink: Duration::from_secs(30),
        go_on: false,
        actor: built("differ"),
    }
}

fn check(summary: &Summary) {
    let texts: Vec<String> = summary.cases.iter().map(Case::text).collect();
    assert!(texts.is_empty(), "{}", texts.join("\n"));
}

fn kernel_against_kernel(family: Family) {
    let plan = plan(family, vec![Mode::kernel()], 300, 15);
    let summary = campaign::run(&plan, &|_, _| {});
    check(&summary);
    assert!(
        summary.undetermined * 50 <= summary.programs,
        "{:?}",
        summary.odd_seeds
    );
}

/// `share`: of a hundred accelerated programs, in so many some bytes must go by rings.
fn accelerated_against_kernel(family: Family, programs: u64, seconds: u64, share: u64) {
    let plan = plan(family, Mode::all(0), programs, seconds);
    let summary = campaign::run(&plan, &|_, _| {});
    check(&summary);
    assert!(summary.programs >= 100, "{} programs", summary.programs);
    assert!(
        summary.on_rings * 100 >= summary.accelerated * share,
        "rings in {} of {} programs",
        summary.on_rings,
        summary.accelerated
    );
}

#[test]
fn kernel_against_kernel_tcp() {
    kernel_against_kernel(Family::Tcp);
}

#[test]
fn kernel_against_kernel_unix() {
    kernel_against_kernel(Family::Unix);
}

#[test]
fn accelerated_against_kernel_tcp() {
    // An exit right after a connection was made can come before its first ring byte.
    accelerated_against_kernel(Family::Tcp, u64::MAX, 75, 95);
}

#[test]
fn accelerated_against_kernel_unix() {
    // Packets stay on the kernel, and so do pairs within a process.
    accelerated_against_kernel(Family::Unix, 150, 60, 50);
}

fn kept() -> Vec<PathBuf> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("differ");
    let entries = fs::read_dir(folder).expect("tests/differ").flatten();
    let mut files: Vec<PathBuf> = entries.map(|entry| entry.path()).collect();
    files.sort();
    files
}

/// They wait more than they compute.
const JOBS: usize = 2;

#[test]
fn programs_that_once_differed() {
    let files = kept();
    thread::scope(|scope| {
        for job in 0..JOBS {
            let share = files.iter().skip(job).step_by(JOBS);
            scope.spawn(|| {
                let judge = Judge::new(built("differ"));
                share.for_each(|file| differs_no_more(&judge, file));
            });
        }
    });
}

fn differs_no_more(judge: &Judge, file: &Path) {
    let text = fs::read_to_string(file).expect("read a program");
    let program: Program = text
        .parse()
        .unwrap_or_else(|error| panic!("{file:?}: {error}"));
    for mode in [
        "both",
        "both,ring=16384,frugal",
        "both,chaos=200",
        "both,uring",
    ] {
        let verdict = judge.compare(&program, &mode.parse().expect("a mode"));
        if let Verdict::Differs(difference) = verdict {
            panic!("{} on {mode}: {difference:?}", file.display());
        }
    }
}
