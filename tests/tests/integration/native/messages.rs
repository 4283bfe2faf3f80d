//! Messages between processes: every byte comes back, on every carrier and while carriers change; whoever is killed is
//! missed, and others go on.

use std::thread;
use std::time::Duration;

use tests::ends::{Ends, Side, kernel_only};
use tests::hosts::{Hosts, Nic};
use tests::place::{Place, Rings};
use tests::ports;
use tests::program::Program;

/// Many messages under way at once, some longer than all credit.
const TALK: &str = "tasks=8 rounds=60 max=600000";

fn messenger(place: &Place, side: Side, role: &str) -> Program {
    let program = place.own(side, "messenger").without("LD_PRELOAD");
    let program = program.args(role);
    match place.ends().covers(side) {
        true => program,
        false => program.env("ULSOCK", "0"),
    }
}

fn talk(place: &Place, words: &str) {
    let port = ports::free();
    let server = messenger(place, Side::Server, "serve").args(&format!("port={port}"));
    let server = server.start().listening(port);
    let client = messenger(place, Side::Client, "call");
    client.args(&format!("port={port} {words}")).run();
    server.succeed();
}

#[test]
fn on_every_carrier() {
    for ends in [Ends::both(), Ends::Kernel] {
        let place = Place::new(ends).eager();
        talk(&place, TALK);
        place.check(Rings::Most);
    }
}

#[test]
fn with_changing_carriers() {
    let place = Place::new(Ends::both()).eager().with("ULSOCK_CHAOS", 20);
    talk(&place, "tasks=8 rounds=200 max=50000");
    place.check(Rings::Some);
}

/// In two network namespaces, with a daemon each.
#[test]
fn between_hosts() {
    let hosts = Hosts::two().eager();
    let own = |host, role: &str| {
        let program = hosts.own(host, "messenger").without("LD_PRELOAD");
        program.args(role).args(&format!("port=7000 {TALK}"))
    };
    let server = own(0, "serve").args("host=::").start().listening(7000);
    let address = format!("host={}", hosts.host(0).address());
    let client = own(1, "call").args(&address).args("told=1");
    let client = client.piped().start();
    hosts.wait_until_served(1);
    client.succeed();
    server.succeed();
    if !kernel_only() {
        hosts.check(Nic::Some);
    }
}

/// A client is killed at some moment, again and again. The server misses it at once, and another client goes on.
#[test]
fn a_client_is_killed() {
    let place = Place::new(Ends::both()).eager();
    let port = ports::free();
    let server = messenger(&place, Side::Server, "serve").args(&format!("port={port} conns=11"));
    let mut server = server.start().listening(port);
    let words = format!("port={port} {TALK} told=1");
    let other = messenger(&place, Side::Client, "call").args(&words);
    let other = other.piped().start();
    for number in 0..10 {
        let client = messenger(&place, Side::Client, "call").args(&words);
        let client = client.piped().start();
        thread::sleep(Duration::from_millis(20 + number * 13));
        client.stop(libc::SIGKILL);
        server.prints(&"the peer is gone\n".repeat(number as usize + 1));
    }
    other.succeed();
    server.succeed();
}

#[test]
fn a_server_is_killed() {
    let place = Place::new(Ends::both()).eager();
    let port = ports::free();
    let server = messenger(&place, Side::Server, "serve").args(&format!("port={port}"));
    let server = server.start().listening(port);
    let client = messenger(&place, Side::Client, "wait");
    let mut client = client.args(&format!("port={port} rounds=50")).start();
    client.prints("waits");
    server.stop(libc::SIGKILL);
    let said = client.succeed();
    assert_eq!(said.trim_start_matches("waits\n"), "the peer is gone\n");
}
