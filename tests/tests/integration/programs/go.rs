//! Programs of Go, unmodified, which make their system calls without libc: our own of the standard library, by several
//! toolchains, and Debian's. What they print on the kernel they must print on ulsock.

mod caddy;
mod etcd;
mod foreign;
mod life;
mod matrix;
mod off;
mod prometheus;
mod stress;
mod talk;
mod web;

use std::path::Path;
use std::time::Instant;

use tests::ends::{Ends, Side, kernel_only};
use tests::place::{Place, Rings};
use tests::ports;
use tests::program::{Program, Running};

/// A name, which ends are under ulsock, and how that is set up.
type Way = (&'static str, Ends, fn(Place) -> Place);

/// Default settings, every connection moved at once, carriers that change at random, and one end alone.
const WAYS: &[Way] = &[
    ("default", Ends::Both, |place| place),
    ("at once", Ends::Both, Place::at_once),
    (CHAOS, Ends::Both, |place| {
        place.at_once().with("ULSOCK_CHAOS", 50)
    }),
    ("the server alone", Ends::Server, Place::at_once),
    ("the client alone", Ends::Client, Place::at_once),
];
const CHAOS: &str = "chaos";

/// Runs `scene` on kernel TCP and in all ways under ulsock: it must give the same text. `rings` is how much rings carry of
/// it when both ends are under ulsock.
fn same_as_kernel(rings: Rings, scene: impl Fn(&Place) -> String) {
    same_in(WAYS, scene, |name, place| {
        place.check(if name == CHAOS { Rings::Some } else { rings });
    });
}

/// The same for programs that take long: with the ways that have these names. `check` looks at a place whose programs have
/// ended.
fn same_as_kernel_in(names: &[&str], scene: impl Fn(&Place) -> String, check: fn(&Place)) {
    let ways: Vec<Way> = WAYS
        .iter()
        .filter(|way| names.contains(&way.0))
        .copied()
        .collect();
    same_in(&ways, scene, |_, place| check(place));
}

fn same_in(ways: &[Way], scene: impl Fn(&Place) -> String, check: impl Fn(&str, &Place)) {
    let kernel = scene(&Place::new(Ends::Kernel));
    assert!(!kernel.is_empty(), "a scene says what came of it");
    if kernel_only() {
        return;
    }
    for (name, ends, settings) in ways {
        let place = settings(Place::new(*ends));
        let start = Instant::now();
        assert_eq!(scene(&place), kernel, "{name}");
        println!("{name}: {:.1} s", start.elapsed().as_secs_f64());
        check(name, &place);
    }
}

/// The server of `talk`; it ends when its standard input does.
fn talk_server(place: &Place, talk: &Path) -> (u16, Running) {
    let port = ports::free();
    let server = place.program(Side::Server, talk).arg("serve");
    let server = server.arg(port.to_string()).piped().start();
    (port, server.listening(port))
}

fn talk_client(place: &Place, talk: &Path, port: u16) -> Program {
    let client = place.program(Side::Client, talk);
    client.args(&format!("call {port} 1"))
}

/// Both ends of these subjects, of all if there are none; what the client prints.
fn talk(place: &Place, talk: &Path, subjects: &str) -> String {
    let (port, server) = talk_server(place, talk);
    let text = talk_client(place, talk, port).args(subjects).run();
    server.succeed();
    text
}
