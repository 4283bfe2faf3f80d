//! socat and nc between two shells, by a path and by an abstract name; every byte is checked by its position.

use tests::ends::Side;
use tests::place::{Place, Rings};
use tests::program::{Running, built};

use super::{same_as_kernel, same_as_kernel_with};

const BYTES: u64 = 100_000_000;

/// A shell's line; PATH, EMIT and CHECK are replaced.
fn shell(place: &Place, side: Side, line: &str) -> Running {
    let own = built("pattern").display().to_string();
    let path = place.folder().join("pipe").display().to_string();
    let line = line
        .replace("PATH", &path)
        .replace("EMIT", &format!("{own} emit bytes={BYTES}"))
        .replace("CHECK", &format!("{own} check bytes={BYTES}"));
    let shell = place.program(side, "bash").args("-c");
    shell.arg(format!("set -o pipefail; {line}")).start()
}

/// What both print, the listener first, which listens at the path unless `name` gives another.
fn both(place: &Place, server: &str, client: &str, name: Option<&str>) -> String {
    let path = place.folder().join("pipe").display().to_string();
    let name = name.map_or(path.clone(), |name| name.replace("PATH", &path));
    let server = shell(place, Side::Server, server).listening_at(name);
    let client = shell(place, Side::Client, client).succeed();
    server.succeed() + &client
}

#[test]
fn one_way_by_nc() {
    same_as_kernel_with(Rings::Most, Rings::Most, |place| {
        both(place, "nc -lU PATH | CHECK", "EMIT | nc -NU PATH", None)
    });
}

#[test]
fn from_the_server_by_socat() {
    same_as_kernel(Rings::Most, |place| {
        both(
            place,
            "EMIT | socat -u STDIN UNIX-LISTEN:PATH",
            "socat -u UNIX-CONNECT:PATH STDOUT | CHECK",
            None,
        )
    });
}

/// socat's pipe has one page: see the same test over TCP.
#[test]
fn there_and_back_by_an_abstract_name() {
    same_as_kernel(Rings::Most, |place| {
        both(
            place,
            "socat -b 4096 ABSTRACT-LISTEN:PATH PIPE",
            "EMIT | socat -t 30 STDIO ABSTRACT-CONNECT:PATH | CHECK",
            Some("@PATH"),
        )
    });
}

/// A socketpair to cat, and the connection inherited by it.
#[test]
fn other_programs_behind() {
    same_as_kernel(Rings::Any, |place| {
        let client = "EMIT | socat -t 30 STDIO UNIX-CONNECT:PATH | CHECK";
        let text = both(
            place,
            "socat UNIX-LISTEN:PATH,unlink-early EXEC:cat",
            client,
            None,
        );
        text + &both(
            place,
            "socat UNIX-LISTEN:PATH,unlink-early EXEC:cat,nofork",
            client,
            None,
        )
    });
}
