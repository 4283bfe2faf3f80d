//! Python's ways to hand a connection to another process; see `tests/scripts/handing.py`.

use tests::ends::{Ends, Side};
use tests::place::{Place, Rings};
use tests::ports;

use crate::script;

/// Serves and calls; `check` looks at the reports.
fn run(kind: &str, check: impl Fn(&Place)) {
    for &ends in Ends::all() {
        let place = Place::new(ends);
        let port = ports::free();
        let words = format!("{kind} {port}");
        let server = place.server("/usr/bin/python3").arg(script("handing.py"));
        let server = server.args("serve").args(&words).start().listening(port);
        let client = place.client("/usr/bin/python3").arg(script("handing.py"));
        assert_eq!(client.args("call").args(&words).run(), "ok\n", "{kind}");
        server.stop(libc::SIGTERM);
        check(&place);
    }
}

fn with_rings(kind: &str, rings: Rings) {
    run(kind, |place| place.check(rings));
}

/// Processes that become other programs count nothing; the client's own count tells.
fn replaced(kind: &str) {
    run(kind, |place| {
        place.check_quiet();
        let (report, _) = place.report(Side::Client);
        assert_eq!(
            report.ring_bytes() > 0,
            place.ends() == Ends::Both,
            "{report:?}"
        );
    });
}

#[test]
fn child_per_connection() {
    with_rings("forking", Rings::Most);
}

#[test]
fn children_that_accept() {
    with_rings("prefork", Rings::Most);
}

#[test]
fn handles_to_children() {
    with_rings("handles", Rings::Some);
}

/// The pool's own reference is closed at some time.
#[test]
fn sockets_as_arguments_of_tasks() {
    with_rings("pool", Rings::Any);
}

#[test]
fn threads_of_a_pool() {
    with_rings("threads", Rings::Most);
}

#[test]
fn rights_to_other_programs() {
    with_rings("strangers", Rings::Some);
}

/// The parent has begun to move the connection when it forks, after the exchange of keys.
#[test]
fn listener_and_client() {
    with_rings("listener", Rings::Any);
}

#[test]
fn manager() {
    with_rings("manager", Rings::Some);
}

#[test]
fn as_stdio_of_another_program() {
    replaced("inetd");
}

#[test]
fn as_stdio_of_a_subprocess() {
    replaced("spawned");
}
