//! The `ulsock` command: `run` puts a program under ulsock, `top` lists its connections.

use tests::ends::{Ends, Side, kernel_only};
use tests::place::{Place, Rings};
use tests::program::{Program, built};
use tests::{ports, top};

use crate::script;

/// The program of `words` under `ulsock run`, reporting to the place's files as all others do.
fn run(place: &Place, side: Side, words: &str) -> Program {
    let (name, arguments) = words.split_once(' ').expect("program and arguments");
    if kernel_only() {
        return place.own(side, name).args(arguments);
    }
    let program = place.own(side, "ulsock").without("LD_PRELOAD");
    program.args("run --").arg(built(name)).args(arguments)
}

#[test]
fn run_and_top() {
    let place = Place::new(Ends::both());
    let port = ports::free();
    let server = run(&place, Side::Server, &format!("echo_epoll port={port}"));
    let mut server = server.piped().start().listening(port);
    let arguments = format!("idle port={port} conns=7 rounds=30 wait=epoll");
    let mut client = run(&place, Side::Client, &arguments).start();
    client.prints("idle");
    if !kernel_only() {
        let rows = top::rows(place.run_dir());
        let of = |program: &str| {
            let own = rows.iter().filter(|row| row.program.ends_with(program));
            own.filter(|row| row.is_accelerated() && row.tx_bytes > 0 && row.rx_bytes > 0)
                .count()
        };
        assert_eq!([of("echo_epoll"), of("idle")], [7, 7], "{rows:?}");
    }
    server.tell("poke\n");
    client.succeed();
    server.succeed();
    place.check(Rings::Most);
}

/// Nobody counts at the calls of a connection that stays on the kernel; what it has moved is known all the same, while
/// it lives and after.
#[test]
fn top_of_the_kernels() {
    const ROUNDS: u64 = 1000;
    let port = ports::free();
    let place = Place::new(Ends::both()).with("ULSOCK_EXCLUDE", port);
    let server = place.own(Side::Server, "echo_epoll");
    let server = server.args(&format!("port={port}")).piped().start();
    let mut server = server.listening(port);
    let client = place.own(Side::Client, "idle");
    let arguments = format!("port={port} conns=3 rounds={ROUNDS} wait=epoll");
    let mut client = client.args(&arguments).start();
    client.prints("idle");
    if !kernel_only() {
        let rows = top::rows(place.run_dir());
        assert_eq!(rows.len(), 6, "{rows:?}");
        for row in &rows {
            assert_eq!(row.reason, "excluded", "{row:?}");
            // As large as the messages of `idle`.
            assert_eq!([row.tx_bytes, row.rx_bytes], [32 * ROUNDS; 2], "{row:?}");
        }
    }
    server.tell("poke\n");
    client.succeed();
    server.succeed();
    if !kernel_only() {
        let (sent, received) = (3 * 32 * ROUNDS, 3 * (32 * ROUNDS + 1));
        let (report, _) = place.report(Side::Client);
        let carried = [report.kernel_tx_bytes, report.kernel_rx_bytes];
        assert_eq!(carried, [sent, received], "{report:?}");
        let (report, _) = place.report(Side::Server);
        let carried = [report.kernel_tx_bytes, report.kernel_rx_bytes];
        assert_eq!(carried, [received, sent], "{report:?}");
    }
}

#[test]
fn run_passes_the_exit_status_on() {
    let place = Place::new(Ends::both());
    let wrapped = if kernel_only() {
        place.client("sh").args("-c")
    } else {
        let program = place.own(Side::Client, "ulsock").without("LD_PRELOAD");
        program.args("run -- sh -c")
    };
    let finished = wrapped.arg("exit 7").start().wait();
    assert_eq!(finished.status.code(), Some(7));
}

/// Whatever a program calls itself, the terminal of whoever looks gets text, and the program is listed.
#[test]
fn top_of_programs_with_hostile_names() {
    if kernel_only() {
        return;
    }
    let names: [(&[u8], &str); 3] = [
        (b"\x1b[2J\x1b[H# \x07", "\\u{1b}[2J\\u{1b}[H# \\u{7}"),
        ("\u{202e}a\u{9b}".as_bytes(), "\\u{202e}a\\u{9b}"),
        (b"\xff\x9b", "\\xff\\x9b"),
    ];
    for (name, shown) in names {
        let place = Place::new(Ends::both()).eager();
        let hex: String = name.iter().map(|byte| format!("{byte:02x}")).collect();
        let program = place.client("/usr/bin/python3").arg(script("named.py"));
        let mut program = program.arg(hex).piped().start();
        program.prints("named");
        let table = top::table(place.run_dir());
        let is_text = |it: char| it == '\n' || it.is_ascii() && !it.is_ascii_control();
        assert!(
            table.contains(shown) && table.chars().all(is_text),
            "{table:?}"
        );
        let rows = top::rows(place.run_dir());
        assert!(rows.iter().any(|row| row.program == shown), "{rows:?}");
        program.succeed();
        place.report(Side::Client);
    }
}
