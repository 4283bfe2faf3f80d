//! `ulsock trace`: what it records is what the program did, and the program notices nothing of it.

mod timeline;

use std::ffi::OsStr;
use std::os::unix::process::ExitStatusExt;
use std::path::PathBuf;

use tests::compile::compile;
use tests::ends::{Ends, Side, kernel_only};
use tests::place::Place;
use tests::program::{Program, Running, built};
use tests::{ports, procfs, wait};

use timeline::Timeline;

const CONNECTIONS: u64 = 3;
const ROUNDS: u64 = 200;
/// Of a round trip of `idle`.
const MESSAGE: u64 = 32;

/// A program under `ulsock trace`, and where its timeline will be.
fn traced(place: &Place, side: Side, name: &str, program: impl AsRef<OsStr>) -> (Program, PathBuf) {
    let path = place.folder().join(format!("{name}.json"));
    let command = place.own(side, "ulsock").without("LD_PRELOAD");
    let command = command.env("TMPDIR", place.folder());
    let command = command.args("trace -o").arg(&path).arg("--").arg(program);
    (command, path)
}

/// The program itself.
fn traced_pid(command: &Running) -> u32 {
    wait::until_some("the program is started", || {
        procfs::children(command.pid()).first().copied()
    })
}

/// A server under trace, with `idle` under trace as well; both timelines and the client's summary.
fn with_idle(place: &Place) -> (Timeline, Timeline, String) {
    let port = ports::free();
    let (server, of_server) = traced(place, Side::Server, "server", built("echo_epoll"));
    let server = server.args(&format!("port={port}")).piped().start();
    let mut server = server.listening(port);
    let (client, of_client) = traced(place, Side::Client, "client", built("idle"));
    let words = format!("port={port} conns={CONNECTIONS} rounds={ROUNDS} wait=epoll");
    let mut client = client.args(&words).start();
    client.prints("idle");
    server.tell("poke\n");
    let finished = client.wait();
    assert!(finished.status.success(), "{}", finished.errors);
    assert_eq!(finished.output, "idle\n");
    server.succeed();
    let read = |path: &PathBuf| Timeline::read(path);
    (read(&of_server), read(&of_client), finished.errors)
}

#[test]
fn calls_bytes_and_carriers() {
    if kernel_only() {
        return;
    }
    let place = Place::new(Ends::both());
    let (server, client, summary) = with_idle(&place);
    let sent = CONNECTIONS * ROUNDS * MESSAGE;
    assert_eq!(
        (client.sent(), client.received()),
        (sent, sent + CONNECTIONS)
    );
    assert_eq!(
        (server.received(), server.sent()),
        (sent, sent + CONNECTIONS)
    );
    let (report, _) = place.report(Side::Client);
    assert_eq!(report.ring_tx_bytes + report.kernel_tx_bytes, sent);
    // Both directions of each connection went to rings.
    assert_eq!(client.check_carriers() as u64, 2 * CONNECTIONS);
    let promoted = server.of_kind("i").filter(|it| it["args"]["to"] == "shm");
    assert_eq!(promoted.count() as u64, 2 * CONNECTIONS);
    assert!(
        client
            .of_kind("C")
            .any(|it| it["args"]["shm"] == CONNECTIONS)
    );
    let connects = client.calls().filter(|it| it["name"] == "connect");
    assert_eq!(connects.count() as u64, CONNECTIONS);
    for part in ["Where the time", "shm      3 connections", "epoll_wait"] {
        assert!(summary.contains(part), "{part} in {summary}");
    }
    place.check_quiet();
}

/// Waits are told apart, and each is within its call.
#[test]
fn waits() {
    if kernel_only() {
        return;
    }
    // Who never spins sleeps on the ring, and is woken.
    let place = Place::new(Ends::both()).at_once().with("ULSOCK_SPIN_US", 0);
    let (server, client, _) = with_idle(&place);
    let named = |timeline: &Timeline, name: &str| {
        let events = timeline.events.iter();
        events
            .filter(|it| it["cat"] == "wait" && it["name"] == name)
            .count()
    };
    assert!(named(&client, "asleep") > 0, "the client sleeps");
    assert!(named(&client, "woke") + named(&server, "woke") > 0);
    assert_eq!(named(&client, "awake in vain"), 0);
    // Who spins for ever does not sleep in a round trip.
    let place = Place::new(Ends::both())
        .at_once()
        .with("ULSOCK_SPIN_US", -1);
    let (_, client, _) = with_idle(&place);
    assert!(named(&client, "awake") > 0, "the client spins");
}

#[test]
fn redis() {
    const REQUESTS: usize = 20_000;
    if kernel_only() {
        return;
    }
    let place = Place::new(Ends::both());
    let port = ports::free();
    let (server, of_server) = traced(&place, Side::Server, "server", "redis-server");
    let server = server.args(&format!("--port {port} --appendonly no --dir"));
    let server = server.arg(place.folder()).args("--save").arg("");
    let server = server.start().listening(port);
    let (client, of_client) = traced(&place, Side::Client, "client", "redis-benchmark");
    let words = format!("-p {port} -q -n {REQUESTS} -c 20 -t get");
    let client = client.args(&words).start().wait();
    assert!(client.status.success(), "{}", client.errors);
    assert!(client.output.contains("GET"), "{}", client.output);
    let pid = traced_pid(&server);
    // SAFETY: plain numbers; the child is not reaped before the command ends.
    unsafe { libc::kill(pid as i32, libc::SIGTERM) };
    server.succeed();
    let [server, client] = [of_server, of_client].map(|path| Timeline::read(&path));
    assert_eq!(
        (client.sent(), client.received()),
        (server.received(), server.sent())
    );
    let (report, _) = place.report(Side::Server);
    assert_eq!(server.sent(), report.ring_tx_bytes + report.kernel_tx_bytes);
    assert_eq!(
        server.received(),
        report.ring_rx_bytes + report.kernel_rx_bytes
    );
    // `*2\r\n$3\r\nGET\r\n$16\r\nkey:__rand_int__\r\n`
    assert!(client.sent() as usize >= REQUESTS * 36, "{}", client.sent());
    assert!(client.check_carriers() > 0);
    place.check_quiet();
}

/// A server of four connections under trace, and nobody else.
fn of_server(name: &str) -> Timeline {
    let place = Place::new(Ends::both());
    let port = ports::free();
    let (server, timeline) = traced(&place, Side::Server, "server", built(name));
    let server = server
        .args(&format!("port={port} conns=4"))
        .start()
        .listening(port);
    let client = place.own(Side::Client, "echo_client");
    client.args(&format!("port={port} conns=4 rounds=40")).run();
    server.succeed();
    Timeline::read(&timeline)
}

#[test]
fn threads() {
    if kernel_only() {
        return;
    }
    let timeline = of_server("echo_threads");
    assert_eq!((timeline.threads().len(), timeline.pids().len()), (4, 1));
}

/// Each child has calls of its own, in the one recording.
#[test]
fn forks() {
    if kernel_only() {
        return;
    }
    let timeline = of_server("fork_echo");
    assert_eq!(timeline.pids().len(), 5);
    assert_eq!(timeline.sent(), timeline.received());
}

/// Two processes of one recording that share no records: each has its own first connection.
#[test]
fn a_child_that_talks_to_its_parent() {
    const SCRIPT: &str = "import os, socket\n\
        listener = socket.create_server(('127.0.0.1', 0))\n\
        child = os.fork()\n\
        if child == 0:\n\
        \x20   s = socket.create_connection(listener.getsockname())\n\
        \x20   for i in range(300): s.sendall(b'x' * 10); s.recv(10, socket.MSG_WAITALL)\n\
        \x20   s.close(); os._exit(0)\n\
        s, _ = listener.accept()\n\
        while got := s.recv(100): s.sendall(got)\n\
        s.close(); os.waitpid(child, 0)\n";
    if kernel_only() {
        return;
    }
    let place = Place::new(Ends::both());
    let (command, path) = traced(&place, Side::Client, "python", "/usr/bin/python3");
    command.arg("-c").arg(SCRIPT).run();
    let timeline = Timeline::read(&path);
    assert_eq!((timeline.sent(), timeline.received()), (6000, 6000));
    assert_eq!(timeline.check_carriers(), 4, "two directions at two ends");
}

/// A program that another one becomes is recorded by itself; what is started beside it, too.
#[test]
fn exec() {
    if kernel_only() {
        return;
    }
    let place = Place::new(Ends::both());
    let port = ports::free();
    let server = place
        .own(Side::Server, "echo_epoll")
        .args(&format!("port={port}"));
    let server = server.piped().start().listening(port);
    let (client, of_client) = traced(&place, Side::Client, "client", "sh");
    let idle = built("idle").display().to_string();
    let words = format!("port={port} conns=1 rounds=9 wait=epoll");
    let script = format!("echo first; /bin/true; exec env A=b {idle} {words}");
    let mut client = client.arg("-c").arg(script).start();
    client.prints("idle");
    let mut server = server;
    server.tell("poke\n");
    assert_eq!(client.succeed(), "first\nidle\n");
    server.succeed();
    let timeline = Timeline::read(&of_client);
    assert!(
        timeline.programs().contains(&"idle"),
        "{:?}",
        timeline.programs()
    );
    assert_eq!(timeline.sent(), 9 * MESSAGE);
}

/// What it had written until then is there, and the command ends by the same signal.
#[test]
fn killed() {
    if kernel_only() {
        return;
    }
    let place = Place::new(Ends::both());
    let port = ports::free();
    let server = place
        .own(Side::Server, "echo_epoll")
        .args(&format!("port={port}"));
    let server = server.piped().start().listening(port);
    let (client, of_client) = traced(&place, Side::Client, "client", built("idle"));
    let words = format!("port={port} conns=2 rounds=50 wait=epoll");
    let mut client = client.args(&words).start();
    client.prints("idle");
    let pid = traced_pid(&client);
    wait::until("it waits", || procfs::waits_for_events(pid));
    // SAFETY: plain numbers; the child is not reaped before the command ends.
    unsafe { libc::kill(pid as i32, libc::SIGKILL) };
    let finished = client.wait();
    assert_eq!(
        finished.status.signal(),
        Some(libc::SIGKILL),
        "{}",
        finished.errors
    );
    let timeline = Timeline::read(&of_client);
    assert_eq!(timeline.sent(), 2 * 50 * MESSAGE);
    assert!(timeline.calls().any(|it| it["args"]["under_way"] == true));
    assert!(
        finished.errors.contains("was in epoll_wait at the end"),
        "{}",
        finished.errors
    );
    server.stop(libc::SIGTERM);
}

/// Signals reach the program, its exit status is the command's, and its output is its own.
#[test]
fn status_signals_and_output() {
    let place = Place::new(Ends::both());
    let shell = |script: &str| {
        let (command, _) = traced(&place, Side::Client, "shell", "sh");
        command.arg("-c").arg(script)
    };
    let finished = shell("echo out; echo err >&2; exit 7").start().wait();
    assert_eq!(finished.status.code(), Some(7), "{}", finished.errors);
    assert_eq!(finished.output, "out\n");
    assert!(finished.errors.starts_with("err\n"), "{}", finished.errors);
    for signal in [libc::SIGTERM, libc::SIGHUP, libc::SIGUSR1, libc::SIGINT] {
        let name =
            format!("trap 'echo got; exit 9' {signal}; echo ready; while :; do sleep 0.01; done");
        let mut command = shell(&name).start();
        command.prints("ready");
        let finished = command.stop(signal);
        assert_eq!(
            finished.status.code(),
            Some(9),
            "{signal}: {}",
            finished.errors
        );
        assert_eq!(finished.output, "ready\ngot\n");
    }
    let finished = shell("kill -ABRT $$").start().wait();
    assert_eq!(
        finished.status.signal(),
        Some(libc::SIGABRT),
        "{}",
        finished.errors
    );
    let (missing, _) = traced(&place, Side::Client, "missing", "/no/such/program");
    assert_eq!(missing.start().wait().status.code(), Some(127));
    let left = std::fs::read_dir(place.folder())
        .expect("a folder")
        .flatten();
    let mut left = left.filter(|it| {
        it.file_name()
            .to_string_lossy()
            .starts_with("ulsock-trace-")
    });
    assert!(left.next().is_none(), "a folder is left");
}

/// A program that loads no library runs as ever, and the command says why there is nothing.
#[test]
fn a_static_program() {
    let place = Place::new(Ends::both());
    let source = place.folder().join("static.c");
    let text = "#include <stdio.h>\nint main(void) { puts(\"here\"); return 3; }\n";
    std::fs::write(&source, text).expect("written");
    let source = source.to_str().expect("a path");
    let program = compile("cc", source, "-static", place.folder(), "static");
    let (command, path) = traced(&place, Side::Client, "static", program);
    let finished = command.start().wait();
    assert_eq!(
        (finished.status.code(), finished.output.as_str()),
        (Some(3), "here\n")
    );
    for part in ["static", "nothing was recorded"] {
        assert!(
            finished.errors.contains(part),
            "{part} in {}",
            finished.errors
        );
    }
    assert!(!path.exists());
}

/// The end of what is recorded is said, and the program goes on.
#[test]
fn more_than_there_is_room_for() {
    const ROUNDS: usize = 40_000;
    if kernel_only() {
        return;
    }
    let place = Place::new(Ends::both());
    let port = ports::free();
    let server = place
        .own(Side::Server, "echo_epoll")
        .args(&format!("port={port}"));
    let mut server = server.piped().start().listening(port);
    let command = place.own(Side::Client, "ulsock").without("LD_PRELOAD");
    let command = command
        .args("trace --summary-only --size 1 --")
        .arg(built("idle"));
    let words = format!("port={port} conns=1 rounds={ROUNDS} wait=epoll");
    let mut client = command.args(&words).directory(place.folder()).start();
    client.prints("idle");
    server.tell("poke\n");
    let finished = client.wait();
    assert!(finished.status.success(), "{}", finished.errors);
    assert!(
        finished.errors.contains("The recording was full"),
        "{}",
        finished.errors
    );
    assert!(!finished.errors.contains("Timeline"), "{}", finished.errors);
    server.succeed();
    place.check_quiet();
}

/// Talks to itself, and then may make no system calls but read, write and exit.
const SANDBOXED: &str = "
import ctypes, socket
listener = socket.create_server(('127.0.0.1', 0))
near = socket.create_connection(listener.getsockname()); far = listener.accept()[0]
for _ in range(50): near.send(b'x'); far.recv(1)
libc = ctypes.CDLL(None)
assert libc.prctl(22, 1, 0, 0, 0) == 0
libc.write(1, b'alive', 5)
libc.syscall(60, 7)
";

/// A filter would kill it for a system call of the recorder's.
#[test]
fn a_sandbox() {
    if kernel_only() {
        return;
    }
    let place = Place::new(Ends::both());
    let (program, path) = traced(&place, Side::Client, "sandboxed", "/usr/bin/python3");
    let finished = program.arg("-c").arg(SANDBOXED).start().wait();
    assert_eq!(finished.status.code(), Some(7), "{}", finished.errors);
    assert_eq!(finished.output, "alive");
    assert_eq!(Timeline::read(&path).sent(), 50);
}
