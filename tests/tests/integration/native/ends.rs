//! Every way to make calls, against every kind of other end: each byte comes back, and goes by rings where both ends know
//! ulsock.

use std::fs;

use tests::ends::{Ends, Side, kernel_only};
use tests::hosts::{Hosts, Nic};
use tests::place::{Place, Rings};
use tests::ports;

use super::{HOWS, native};

/// Enough round trips for a connection to be upgraded and its ring to grow.
const TALK: &str = "conns=4 rounds=300 max=200000";

/// Microseconds: with the time that the kernel adds, about as long as the other host takes to begin to read.
const LATE: [u32; 2] = [10, 30];

fn all_ends() -> Vec<Ends> {
    let mut all = Ends::all().to_vec();
    all.push(Ends::Kernel);
    all
}

#[test]
fn with_each_other() {
    for ends in [Ends::both(), Ends::Kernel] {
        for how in HOWS {
            let place = Place::new(ends).eager();
            let port = ports::free();
            let talk = format!("{TALK} port={port}");
            let server = native(&place, Side::Server, "serve", how).args(&talk);
            let server = server.start().listening(port);
            native(&place, Side::Client, "call", how).args(&talk).run();
            server.succeed();
            place.check(Rings::Most);
        }
    }
}

/// The other one is an ordinary program, preloaded or not.
#[test]
fn as_a_server() {
    for ends in all_ends() {
        for how in HOWS {
            let place = Place::new(ends).eager();
            let port = ports::free();
            let talk = format!("{TALK} port={port}");
            let server = native(&place, Side::Server, "serve", how).args(&talk);
            let server = server.start().listening(port);
            place.own(Side::Client, "echo_client").args(&talk).run();
            server.succeed();
            place.check(Rings::Most);
        }
    }
}

#[test]
fn as_a_client() {
    for ends in all_ends() {
        for how in HOWS {
            let place = Place::new(ends).eager();
            let port = ports::free();
            let talk = format!("{TALK} port={port}");
            let server = place.own(Side::Server, "echo_threads").args(&talk);
            let server = server.start().listening(port);
            native(&place, Side::Client, "call", how).args(&talk).run();
            server.succeed();
            place.check(Rings::Most);
        }
    }
}

/// Both directions at once, more than any ring holds.
#[test]
fn much_both_ways() {
    for ends in [Ends::both(), Ends::Kernel] {
        for how in HOWS {
            let place = Place::new(ends).eager();
            let port = ports::free();
            let server = native(&place, Side::Server, "serve", how).args(&format!("port={port}"));
            let server = server.start().listening(port);
            let flood = native(&place, Side::Client, "flood", how);
            flood.args(&format!("port={port} rounds=50000000")).run();
            server.succeed();
            place.check(Rings::Some);
        }
    }
}

#[test]
fn many_tasks_in_one_thread() {
    let place = Place::new(Ends::both()).eager();
    let port = ports::free();
    let talk = format!("conns=300 rounds=40 max=2000 port={port}");
    let server = native(&place, Side::Server, "serve", "tasks").args(&talk);
    let mut server = server.start().listening(port);
    let mut client = native(&place, Side::Client, "call", "tasks")
        .args(&talk)
        .start();
    for program in [&mut server, &mut client] {
        let threads = fs::read_dir(format!("/proc/{}/task", program.pid()))
            .expect("it runs")
            .count();
        assert_eq!(
            threads, 1,
            "threads of a program whose tasks are all in one"
        );
    }
    client.succeed();
    server.succeed();
    place.check(Rings::Some);
}

/// The product changes its mind about carriers all the time.
#[test]
fn with_changing_carriers() {
    for how in HOWS {
        let place = Place::new(Ends::both()).eager().with("ULSOCK_CHAOS", 20);
        let port = ports::free();
        let talk = format!("conns=2 rounds=2000 max=50000 port={port}");
        let server = native(&place, Side::Server, "serve", how).args(&talk);
        let server = server.start().listening(port);
        native(&place, Side::Client, "call", how).args(&talk).run();
        server.succeed();
        place.check(Rings::Some);
    }
}

/// In two network namespaces, with a daemon each.
#[test]
fn between_hosts() {
    for how in HOWS {
        talk(&Hosts::two().eager(), how);
    }
}

/// Both ends put their wires up late: what comes just before, such as room in a ring that was full, is not missed.
#[test]
fn late_between_hosts() {
    for (late, how) in LATE
        .into_iter()
        .flat_map(|late| [(late, "tasks"), (late, "tasks_in_place")])
    {
        talk(&Hosts::two().eager().with("ULSOCK_LATE", late), how);
    }
}

fn talk(hosts: &Hosts, how: &str) {
    let own = |host, role: &str| {
        let program = hosts.own(host, "native").without("LD_PRELOAD");
        program
            .args(role)
            .args(&format!("how={how} port=7000 {TALK}"))
    };
    let server = own(0, "serve").args("host=::").start().listening(7000);
    let address = format!("host={}", hosts.host(0).address());
    let client = own(1, "call").args(&address).args("told=1");
    let client = client.piped().start();
    hosts.wait_until_served(4);
    client.succeed();
    server.succeed();
    if !kernel_only() {
        hosts.check(Nic::Some);
    }
}
