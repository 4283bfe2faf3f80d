//! Engines inside the programs, on queues that the daemons lease to them, and over UDP sockets.

use tests::ends::kernel_only;
use tests::hosts::{Hosts, Nic};
use tests::program::Program;
use tests::wait;

use super::transfer::Transfer;

/// How the engines' frames get to the network.
#[derive(Clone, Copy, Debug)]
enum Engine {
    Queue,
    Sockets,
}

macro_rules! with_either_engine {
    ($($test:ident),* $(,)?) => {
        mod queue {
            $(#[test]
            fn $test() {
                super::$test(super::Engine::Queue);
            })*
        }
        mod sockets {
            $(#[test]
            fn $test() {
                super::$test(super::Engine::Sockets);
            })*
        }
    };
}

with_either_engine!(leaving, killed, daemons_killed, redis, forks);

impl Engine {
    fn hosts(self) -> Hosts {
        let hosts = match self {
            Engine::Queue => Hosts::two(),
            Engine::Sockets => Hosts::two_without_queues(),
        };
        hosts.with("ULSOCK_NIC", "inline")
    }

    /// Both hosts had such engines, and no others.
    fn check(self, hosts: &Hosts) {
        for host in 0..2 {
            let said = hosts.nicd_says(host);
            let [queue, sockets] = ["(Queue)", "(Sockets)"].map(|kind| said.contains(kind));
            let expected = match self {
                Engine::Queue => queue && !sockets,
                Engine::Sockets => sockets && !queue,
            };
            assert!(expected || kernel_only(), "host {host}: {said}");
        }
    }
}

/// Sends `bytes` and is gone; the reader has them all, and then their end.
fn leave(engine: Engine, how: &str, bytes: usize) {
    let hosts = engine.hosts();
    // The daemon takes up to some ten milliseconds to open a queue, beside others.
    let arguments = format!("port=7000 bytes={bytes} rounds=30000");
    let reader = hosts
        .own(0, "leave")
        .args("listen host=::")
        .args(&arguments);
    let reader = reader.start().listening(7000);
    let writer = hosts.own(1, "leave").args("connect").args(&arguments);
    let address = hosts.host(0).address();
    let writer = writer.args(&format!("how={how} host={address}"));
    writer.start().wait();
    reader.succeed();
    engine.check(&hosts);
}

fn leaving(engine: Engine) {
    for how in ["exit", "_exit", "exec", "exec-keeping"] {
        leave(engine, how, 40_000);
        leave(engine, how, 3_000_000);
    }
}

/// What it had written is in the rings of an engine that died with it: the daemon says it.
fn killed(engine: Engine) {
    leave(engine, "kill", 10);
    leave(engine, "kill", 60_000);
}

fn daemons_killed(engine: Engine) {
    for (style, connections) in [("style=stream", 2), ("style=echo", 4)] {
        let hosts = engine.hosts();
        let mut transfer = Transfer::start(&hosts, &format!("{style} conns={connections}"));
        // Kernel TCP may have carried all that until now.
        hosts.wait_until_served(connections);
        engine.check(&hosts);
        hosts.kill_nicd(0);
        transfer.moves(500_000);
        hosts.kill_nicd(1);
        hosts.start_nicd(0);
        hosts.start_nicd(1);
        transfer.moves(500_000);
        transfer.finish();
        hosts.check(Nic::Some);
    }
}

fn ping_pong(hosts: &Hosts, prepare: fn(Program) -> Program) {
    let server = prepare(hosts.program(0, "redis-server"));
    let server = server.args("--port 6379 --protected-mode no --appendonly no --save");
    let server = server.arg("").directory(hosts.folder()).start();
    let server = server.listening(6379);
    let address = hosts.host(0).address();
    for options in ["-c 1 -n 20000", "-c 20 -n 20000"] {
        let client = prepare(hosts.program(1, "redis-benchmark"));
        client
            .args(&format!("-h {address} -q -t incr {options}"))
            .run();
    }
    let client = hosts
        .plain(1, "redis-cli")
        .args(&format!("-h {address} get counter:__rand_int__"));
    assert_eq!(client.run().trim_end(), "40000");
    server.stop(libc::SIGTERM);
}

fn redis(engine: Engine) {
    let hosts = engine.hosts();
    ping_pong(&hosts, |program| program);
    engine.check(&hosts);
    hosts.check(Nic::Most);
}

/// Whoever may not have a queue goes by sockets, without any privilege.
#[test]
fn users_that_are_not_trusted() {
    let hosts = Engine::Queue.hosts();
    ping_pong(&hosts, |program| program.user("nobody"));
    Engine::Sockets.check(&hosts);
    hosts.check(Nic::Most);
}

/// A server forks, to save its data, while its engine is busy: the child has no part in that.
fn forks(engine: Engine) {
    let hosts = engine.hosts();
    let server = hosts.program(0, "redis-server");
    let server = server.args("--port 6379 --protected-mode no --appendonly no");
    let server = server.directory(hosts.folder()).start().listening(6379);
    let address = hosts.host(0).address();
    let client = hosts.program(1, "redis-benchmark");
    let client = client.args(&format!("-h {address} -q -t incr -c 4 -n 60000"));
    let client = client.start();
    let ask = |words: &str| hosts.plain(0, "redis-cli").args(words).run();
    let counter = || {
        ask("get counter:__rand_int__")
            .trim_end()
            .parse()
            .unwrap_or(0)
    };
    for save in 1..=5 {
        wait::until("it has counted on", || counter() >= save * 8000);
        ask("bgsave");
    }
    client.succeed();
    assert_eq!(counter(), 60_000);
    server.stop(libc::SIGTERM);
    engine.check(&hosts);
    hosts.check(Nic::Some);
}
