//! Sockets and epoll sets that change hands within and between processes: directed C programs print
//! what they saw, and it must be what the kernel alone gives.

use tests::ends::{Ends, Side};
use tests::place::{Place, Rings};
use tests::ports;

use crate::{same_as_kernel, script};

const SPINS: &[&str] = &["auto", "0"];

#[test]
fn numbers_that_change_their_meaning() {
    same_as_kernel("numbers", "", SPINS);
}

/// Also in epoll sets.
#[test]
fn stand_ins() {
    same_as_kernel("standin", "", SPINS);
}

/// The parent changes a set while its child begins to use it.
#[test]
fn sets_of_parent_and_child() {
    same_as_kernel("sets", "", SPINS);
}

/// What a set tells of a closed number ends with the last holder of the socket.
#[test]
fn numbers_that_their_registrations_outlive() {
    same_as_kernel("outlived", "", SPINS);
}

#[test]
fn senders_whose_peer_is_killed() {
    same_as_kernel("killed", "", SPINS);
}

/// The connecting end is offered, then held by a child too; what the accepting end has claimed by then comes to nothing.
fn held_back(rounds: u32) -> Place {
    let place = Place::new(Ends::both()).eager();
    let (port, script) = (ports::free(), script("held_back.py"));
    let server = place.server("/usr/bin/python3").arg(&script).arg("serve");
    let server = server.arg(port.to_string()).start().listening(port);
    let client = place.client("/usr/bin/python3").arg(&script).arg("call");
    let client = client.arg(port.to_string()).arg(rounds.to_string());
    assert_eq!(client.run(), "ok\n");
    server.succeed();
    place
}

#[test]
fn an_offer_that_is_held_back_is_made_again() {
    held_back(2000).check(Rings::Most);
}

#[test]
fn both_ends_know_why_an_offer_is_held_back() {
    let place = held_back(0);
    if place.ends() != Ends::Both {
        return;
    }
    for side in [Side::Server, Side::Client] {
        let (report, _) = place.report(side);
        let reasons: Vec<_> = report.reasons.keys().map(String::as_str).collect();
        assert_eq!(reasons, ["shared"], "{side:?}: {report:?}");
    }
}

#[test]
fn a_connection_that_is_left_to_a_child() {
    let place = Place::new(Ends::both()).eager();
    let (port, script) = (ports::free(), script("left_to_child.py"));
    let server = place.server("/usr/bin/python3").arg(&script).arg("serve");
    let server = server.arg(port.to_string()).start().listening(port);
    let client = place.client("/usr/bin/python3").arg(&script).arg("call");
    assert_eq!(client.arg(port.to_string()).run(), "ok\n");
    server.succeed();
    place.check(Rings::Most);
}
