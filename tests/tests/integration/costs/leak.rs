//! 100,000 connections, one after the other: neither end may keep fds, memory or mappings.

use tests::ends::{Ends, Side};
use tests::place::{Place, Rings};
use tests::ports;

const SHORT: usize = 50_000;
const LONG: usize = 50_000;
/// Of each kind, before the first look.
const WARM_UP: usize = 2000;

/// What a program may have more at the end than after the warm-up.
const MAY_GROW: [(&str, u64); 3] = [("fds", 8), ("rss_kib", 8 * 1024), ("mappings", 32)];

#[test]
fn a_hundred_thousand_connections() {
    let place = Place::new(Ends::both());
    let port = ports::free();
    let warm = 2 * WARM_UP;
    let server = place
        .own(Side::Server, "echo_epoll")
        .args(&format!("host=0.0.0.0 port={port} warm={warm}"))
        .piped()
        .start()
        .listening(port);
    let client = place
        .own(Side::Client, "churn")
        .args(&format!(
            "port={port} short={SHORT} long={LONG} warm={WARM_UP}"
        ))
        .limit(300)
        .run();
    let server = server.succeed();
    let connections = format!("connections {}", SHORT + LONG + warm);
    assert!(server.contains(&connections), "{server}");
    for output in [&server, &client] {
        for (what, limit) in MAY_GROW {
            let [before, after] = ["start", "end"].map(|when| usage(output, when, what));
            assert!(
                after <= before + limit,
                "{what} grew by more than {limit}: {output}"
            );
        }
    }
    place.check(Rings::Some);
}

/// The number after `what` in the line that begins with `when`.
fn usage(output: &str, when: &str, what: &str) -> u64 {
    let line = output.lines().find(|line| line.starts_with(when));
    let mut words = line.expect("a usage line").split(' ');
    words.find(|&word| word == what).expect("the word");
    words
        .next()
        .and_then(|number| number.parse().ok())
        .expect("a number")
}
