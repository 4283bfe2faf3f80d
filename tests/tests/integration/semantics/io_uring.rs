//! Programs that use a connection through an io_uring: before the ring is made the connection may be
//! accelerated, with the ring it is not, and no byte is lost on the way. And through an epoll set that passes our hooks.

use tests::compile::compile;
use tests::ends::{Ends, Side};
use tests::place::Place;
use tests::ports;

const ROUNDS: u32 = 300;

/// Both ends use the ring after `plain` rounds without.
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

/// The same with an epoll set: what is registered there nobody sees, and rings would never wake it.
#[test]
fn an_epoll_set_made_past_libc() {
    for after in [0, 8] {
        let place = Place::new(Ends::both()).with("ULSOCK_UPGRADE_AFTER", after);
        let program = compile("cc", "raw_set.c", "-pthread", place.folder(), "raw_set");
        let program = program.to_str().expect("a path");
        place.client(program).args("2000").run();
        place.check_quiet();
        let (report, _) = place.report(Side::Client);
        assert_eq!(report.upgraded, 0, "{report:?}");
    }
}
