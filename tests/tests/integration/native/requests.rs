//! Requests between processes: a server with many peers, and either end killed.

use tests::ends::{Ends, Side, kernel_only};
use tests::hosts::{Hosts, Nic};
use tests::place::{Place, Rings};
use tests::ports;
use tests::program::{Program, Running};

fn requests(place: &Place, side: Side, role: &str, port: u16) -> Program {
    let program = place.own(side, "asker").without("LD_PRELOAD");
    let program = program.args(role).args(&format!("port={port}"));
    match place.ends().covers(side) {
        true => program,
        false => program.env("ULSOCK", "0"),
    }
}

fn server(place: &Place, port: u16) -> Running {
    requests(place, Side::Server, "serve", port)
        .start()
        .listening(port)
}

#[test]
fn a_server_with_five_thousand_peers() {
    for ends in [Ends::both(), Ends::Kernel] {
        let place = Place::new(ends).eager();
        let port = ports::free();
        let server = server(&place, port);
        let client = requests(&place, Side::Client, "call", port);
        client
            .args("conns=5000 at_once=200 rounds=50000 len=100")
            .run();
        requests(&place, Side::Client, "quit", port).run();
        server.succeed();
        place.check(Rings::Some);
    }
}

/// Calls end when their server is killed, all of them.
#[test]
fn a_server_is_killed() {
    for ends in [Ends::both(), Ends::Kernel] {
        let place = Place::new(ends).eager();
        let port = ports::free();
        let server = server(&place, port);
        let client = requests(&place, Side::Client, "wait", port);
        let mut client = client.args("conns=5 at_once=100").start();
        client.prints("waits");
        server.stop(libc::SIGKILL);
        assert_eq!(client.succeed(), "waits\ngone 100\n", "{ends:?}");
    }
}

/// Its handlers at the server are dropped, and only those.
#[test]
fn a_client_is_killed() {
    for ends in [Ends::both(), Ends::Kernel] {
        let place = Place::new(ends).eager();
        let port = ports::free();
        let server = server(&place, port);
        let wait = |at_once| {
            let client = requests(&place, Side::Client, "wait", port);
            let mut client = client.args(&format!("conns=5 at_once={at_once}")).start();
            client.prints("waits");
            client
        };
        let (killed, other) = (wait(100), wait(30));
        let count = |wanted: u32| {
            let client = requests(&place, Side::Client, "count", port);
            client.args(&format!("rounds={wanted}")).run();
        };
        count(130);
        killed.stop(libc::SIGKILL);
        count(30);
        let client = requests(&place, Side::Client, "call", port);
        client.args("conns=3 at_once=10 rounds=1000").run();
        server.stop(libc::SIGKILL);
        assert_eq!(other.succeed(), "waits\ngone 30\n", "{ends:?}");
    }
}

/// In two network namespaces, with a daemon each.
#[test]
fn between_hosts() {
    let hosts = Hosts::two().eager();
    let own = |host, role: &str| {
        let program = hosts.own(host, "asker").without("LD_PRELOAD");
        program.args(role).args("port=7000")
    };
    let server = own(0, "serve").args("host=::").start().listening(7000);
    let address = format!("host={}", hosts.host(0).address());
    let calls = "conns=4 at_once=8 rounds=20000 len=1000";
    own(1, "call").args(&address).args(calls).run();
    own(1, "quit").args(&address).run();
    server.succeed();
    if !kernel_only() {
        hosts.check(Nic::Some);
    }
}
