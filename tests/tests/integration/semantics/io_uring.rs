//! Programs that have an io_uring: a connection that it works on returns to the kernel, and no byte is lost on the way;
//! others stay accelerated. And programs with an epoll set that passes our hooks.

use tests::compile::compile;
use tests::ends::{Ends, Side, kernel_only};
use tests::place::Place;
use tests::ports;
use tests::report::Report;

const ROUNDS: u32 = 300;

/// Both ends use the io_uring after `plain` rounds without.
fn run(how: &str, plain: u32) {
    for &ends in Ends::all() {
        let place = Place::new(ends).eager();
        let program = compile("cc", "uring.c", "-luring", place.folder(), "uring");
        let program = program.to_str().expect("a path");
        let port = ports::free();
        let arguments = |role| format!("{role} {port} {how} {plain} {ROUNDS}");
        let server = place.server(program).args(&arguments("listen")).start();
        let server = server.listening(port);
        place.client(program).args(&arguments("connect")).run();
        server.succeed();
        place.check_quiet();
        for side in [Side::Server, Side::Client] {
            let (report, _) = place.report(side);
            let accelerated = ends == Ends::Both && plain > 0 && how != "inline";
            assert_eq!(
                report.upgraded > 0,
                accelerated,
                "{how} {plain}: {report:?}"
            );
            let most = 2 * 64 * u64::from(plain);
            assert!(report.ring_bytes() <= most, "{how} {plain}: {report:?}");
        }
    }
}

#[test]
fn liburing_from_the_beginning() {
    run("liburing", 0);
}

#[test]
fn liburing_later() {
    run("liburing", 50);
}

#[test]
fn by_syscall_from_the_beginning() {
    run("syscall", 0);
}

#[test]
fn by_syscall_later() {
    run("syscall", 50);
}

/// Nobody sees the ring being made, but it is found when a connection could be accelerated.
#[test]
fn past_libc_from_the_beginning() {
    run("inline", 50);
}

fn raw_set(after: u32, args: &str) -> Report {
    let place = Place::new(Ends::both()).with("ULSOCK_UPGRADE_AFTER", after);
    let program = compile("cc", "raw_set.c", "-pthread", place.folder(), "raw_set");
    let program = program.to_str().expect("a path");
    place.client(program).args(args).run();
    place.check_quiet();
    place.report(Side::Client).0
}

/// The same with an epoll set: what is registered there nobody sees, and rings would never wake it.
#[test]
fn an_epoll_set_made_past_libc() {
    for after in [0, 8] {
        let report = raw_set(after, "20000");
        assert_eq!(report.upgraded, 0, "{report:?}");
    }
}

/// What looks like one may be a set that another thread is about to tell us of: only what stays so is held against the
/// process. It is looked at several times before it is gone.
#[test]
fn an_epoll_set_that_soon_turns_out_to_be_none() {
    let report = raw_set(0, "20000 60");
    assert!(kernel_only() || report.upgraded > 0, "{report:?}");
}

/// Steps of `beside_uring`, and how many ends each returns because of the io_uring; all others stay accelerated.
const BESIDE: &[(&str, u64)] = &[
    ("files", 0),
    ("sets", 0),
    ("chains", 2),
    ("operations", 8),
    ("endings", 3),
    ("shots", 1),
    ("closed", 2),
    ("number", 1),
];

fn beside(how: &str, step: &str) -> (Report, usize) {
    let place = Place::new(Ends::both()).eager();
    let program = compile(
        "cc",
        "beside_uring.c",
        "-luring -pthread",
        place.folder(),
        "beside",
    );
    let program = program.to_str().expect("a path");
    place.client(program).args(&format!("{how} {step}")).run();
    place.check_quiet();
    place.report(Side::Client)
}

fn returned(report: &Report) -> u64 {
    report.reasons.get("io-uring").copied().unwrap_or(0)
}

fn all_beside(how: &str) {
    for (step, ends) in BESIDE {
        let (report, _) = beside(how, step);
        if !kernel_only() {
            assert_eq!(report.upgraded, report.connections, "{step}: {report:?}");
            assert_eq!(returned(&report), *ends, "{step}: {report:?}");
            assert_eq!(report.reasons.values().sum::<u64>(), *ends, "{report:?}");
        }
    }
}

#[test]
fn connections_beside_liburing() {
    all_beside("liburing");
}

#[test]
fn connections_beside_syscall() {
    all_beside("syscall");
}

/// Steps of `served_uring` in which every connection stays accelerated.
const SERVED: &[&str] = &[
    "echo",
    "mixed",
    "cancelled",
    "ended",
    "others",
    "two",
    "several",
    "several-beside",
    "interrupted",
    "often",
    "masked",
    "jumped",
    "nonblocking",
    "forked",
    "timed",
    "timed-submit",
    "made",
    "made-many",
    "unfilled",
    "polled",
    "poll-removed",
    "left",
    "nop",
    "overflown",
    "in-handler",
    "jumped-with-one",
];

/// Those in which the kernel is given what is kept.
const GIVEN_BACK: &[&str] = &[
    "closed",
    "linked",
    "number",
    "poll-ring",
    "select-ring",
    "epoll-ring",
    "eventfd",
    "cancel-fd",
    "cancel-now",
    "drained",
    "unregistered",
    "in-order",
    "behind-one",
    "mixed-batch",
    "closed-meanwhile",
];

/// Those in which it depends on the moment, or nothing is told of it.
const EITHER: &[&str] = &["much", "numbers"];

/// Runs the program's steps one by one.
fn served(steps: &[&str], settings: &[(&str, &str)], check: impl Fn(&str, &Place)) {
    let folder = Place::new(Ends::both());
    let flags = "-luring -Wno-unused-function";
    let program = compile("cc", "served_uring.c", flags, folder.folder(), "served");
    let program = program.to_str().expect("a path");
    for step in steps {
        let mut place = Place::new(Ends::both()).at_once();
        for (name, value) in settings {
            place = place.with(name, value);
        }
        place.client(program).args(step).run();
        place.check_quiet();
        if !kernel_only() {
            check(step, &place);
        }
    }
}

fn told(place: &Place) -> Report {
    place.report(Side::Client).0
}

/// An io_uring whose receives, sends and polls are served from rings.
#[test]
fn served_from_rings() {
    served(SERVED, &[], |step, place| {
        let report = told(place);
        assert_eq!(report.upgraded, report.connections, "{step}: {report:?}");
        assert_eq!(returned(&report), 0, "{step}: {report:?}");
    });
    served(GIVEN_BACK, &[], |step, place| {
        let report = told(place);
        assert_eq!(report.upgraded, report.connections, "{step}: {report:?}");
        assert!(returned(&report) > 0, "{step}: {report:?}");
    });
    served(EITHER, &[], |_, _| {});
}

/// The same in a random mixture, also while connections go to the kernel and back.
#[test]
fn served_from_rings_at_random() {
    let seeds: Vec<String> = (1..=10).map(|seed| format!("soak {seed}")).collect();
    let steps: Vec<&str> = seeds.iter().map(String::as_str).collect();
    served(&steps, &[], |step, place| {
        let report = told(place);
        assert_eq!(report.upgraded, report.connections, "{step}: {report:?}");
        assert_eq!(returned(&report), 0, "{step}: {report:?}");
    });
    let small = ("ULSOCK_RING", "16384");
    let eager = ("ULSOCK_GUARD", "eager");
    for settings in [&[("ULSOCK_CHAOS", "200"), small], &[eager, small]] {
        served(&steps, settings, |step, place| {
            let report = told(place);
            assert!(report.ring_tx_bytes > 0, "{step}: {report:?}");
            assert!(report.kernel_tx_bytes > 0, "{step}: {report:?}");
        });
    }
}

/// Several threads submit to one io_uring at the same time.
#[test]
fn threads_that_submit() {
    let (report, _) = beside("syscall", "threads");
    if !kernel_only() {
        assert_eq!((report.upgraded, returned(&report)), (8, 4), "{report:?}");
    }
}

/// An epoll set that an io_uring waits for is the kernel's, with its members.
#[test]
fn a_set_that_is_polled() {
    for how in ["liburing", "syscall"] {
        let (report, _) = beside(how, "set");
        if !kernel_only() {
            assert_eq!(report.reasons.get("waiters"), Some(&1), "{report:?}");
        }
    }
}

/// What an io_uring connects or accepts, and drives alone, is never looked at.
#[test]
fn connections_of_an_io_uring_alone() {
    for how in ["liburing", "syscall"] {
        let (report, _) = beside(how, "alone");
        assert_eq!(report.connections, 0, "{report:?}");
    }
}

/// A socket that an io_uring has connected, or waited for while it was not, is never accelerated.
#[test]
fn sockets_that_are_not_connected_yet() {
    for how in ["liburing", "syscall"] {
        let (report, _) = beside(how, "unconnected");
        assert_eq!(report.upgraded, 0, "{report:?}");
    }
}

/// A child can be seen submitting to what it has inherited if liburing says where the queue is; else it keeps its
/// connections on the kernel.
#[test]
fn an_inherited_io_uring() {
    for how in ["liburing", "syscall"] {
        let (report, lines) = beside(how, "child");
        if !kernel_only() {
            assert_eq!(lines, 2, "{report:?}");
            assert!(returned(&report) > 0, "{report:?}");
        }
    }
}

/// Nobody says what another program has asked of it, or its parent.
#[test]
fn an_io_uring_that_another_program_has_inherited() {
    for how in ["liburing", "syscall"] {
        let (report, _) = beside(how, "exec");
        assert_eq!(report.upgraded, 0, "{report:?}");
    }
}

/// A stand-in takes the place of a socket whose unread bytes the peer does not send again.
#[test]
fn a_peer_that_is_stopped() {
    for how in ["liburing", "syscall"] {
        let (report, _) = beside(how, "stopped");
        if !kernel_only() {
            assert_eq!(report.upgraded, 1, "{report:?}");
        }
    }
}

/// The kernel's own thread takes the entries, whenever it likes.
#[test]
fn an_io_uring_that_is_polled_by_the_kernel() {
    for step in ["files", "sets", "operations"] {
        let (report, _) = beside("polled", step);
        assert_eq!(report.upgraded, 0, "{step}: {report:?}");
    }
}
