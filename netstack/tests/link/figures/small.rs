//! Small requests where the table's networks say little: with the time that hosts take for a packet, and
//! beside a connection that sends in bulk.

use std::time::Duration;

use netstack::link::window::Adaptive;

use super::dumbbell::{Dumbbell, number};
use super::linked::{Linked, Program};
use super::model::Kind;
use super::sharing::{PORT, add_link, add_model, network};
use super::snapshot;
use super::table::Case;

/// Instructions of a packet, as counted.
const COUNTED: &str = include_str!("../../../../benches/link.txt");
/// Of a host's processor.
const PER_NANOSECOND: f64 = 3.0;
const RING: u64 = 1 << 20;

/// Microseconds that the hosts take for a request and its answer: each is sent and received once.
fn in_hosts(stack: &str) -> f64 {
    let of = |step: &str| {
        let mut lines = COUNTED.lines().filter_map(|line| line.split_once(' '));
        let line = lines.find(|(name, _)| *name == format!("{stack}_{step}"));
        let count: f64 = line.expect("counted").1.trim().parse().expect("a number");
        // To the hundred: small changes are no change of these figures.
        (count / 100.0).round() * 100.0
    };
    2.0 * (of("send") + of("receive")) / PER_NANOSECOND / 1000.0
}

/// Half and 99 of 100 of the requests of host 1, beside host 0.
fn asks(net: &mut Dumbbell) -> [f64; 2] {
    net.run(Duration::from_millis(100));
    let before = net.left(1).latencies().len();
    net.run(Duration::from_millis(100));
    let mut latencies = net.left(1).latencies()[before..].to_vec();
    latencies.sort_unstable();
    [50, 99].map(|part| latencies[latencies.len() * part / 100].as_nanos() as f64 / 1000.0)
}

/// Beside a link of ours, and beside Reno.
fn beside_bulk(queue: u64) -> [[f64; 2]; 2] {
    [true, false].map(|ours| {
        let trip = Duration::from_micros(100);
        let mut net = Dumbbell::new(&network(trip, queue, None), PORT, 1);
        match ours {
            true => add_link(&mut net, 0, Adaptive::new()),
            false => add_model(&mut net, 0, Kind::Reno),
        }
        let [left, right] = [number(false, 1), number(true, 1)];
        let host = |ends, opens, program| {
            Box::new(Linked::new(ends, opens, program, 1, RING, Adaptive::new()))
        };
        net.add(
            host([left, right], true, Program::Ask(64)),
            host([right, left], false, Program::Answer(64)),
        );
        asks(&mut net)
    })
}

// [G4] [W5]
#[test]
#[cfg_attr(debug_assertions, ignore = "takes minutes without optimisation")]
fn small_requests() {
    let mut figures = String::new();
    let us = Duration::from_micros;
    for (trip, size) in [(10, 64), (10, 1024), (100, 64), (100, 1024)] {
        let [[_, ours], [_, tcp]] = Case::requests(us(trip), size, 1);
        let (ours, tcp) = (ours + in_hosts("link"), tcp + in_hosts("tcp"));
        figures += &format!(
            "{trip:>3} us, {size:>4} B, {PER_NANOSECOND} instructions/ns in hosts: ours {ours:.1}, TCP {tcp:.1} us\n"
        );
        assert!(ours < tcp, "{figures}");
    }
    let [[ours, _], [tcp, _]] = Case::requests(us(10), 64, 100);
    figures += &format!(
        " 10 us,   64 B, 100 connections, no time in hosts: ours {ours:.0}, TCP {tcp:.0} Mb/s\n"
    );
    for queue in [256, 1024] {
        let [ours, reno] = beside_bulk(queue << 10);
        figures += &format!(
            "100 us,   64 B, {queue:>4} KiB queue: beside our bulk {:.0}, {:.0}, beside Reno's {:.0}, {:.0} us\n",
            ours[0], ours[1], reno[0], reno[1]
        );
        assert!(ours[1] < reno[0], "{figures}");
    }
    snapshot::check("small.txt", &figures);
}
