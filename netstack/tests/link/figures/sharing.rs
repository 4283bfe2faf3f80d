//! Several senders, one queue.

use std::time::Duration;

use netstack::link::window::{Adaptive, Window};

use super::dumbbell::{Dumbbell, number};
use super::linked::{Linked, Program};
use super::model::{Kind, Sender, Sink};
use super::snapshot;
use crate::net::Conditions;

const RING: u64 = 8 << 20;
const TRIP: Duration = Duration::from_micros(100);
/// Bytes in the queue from which on it marks: two fifths of what is on the way.
const MARKS_AT: u64 = 50_000;
/// The hosts' ports are faster than what they share.
pub const PORT: u64 = 25_000_000_000;

pub fn add_link<W: Window + Clone + 'static>(net: &mut Dumbbell, index: usize, window: W) {
    let ends = [number(false, index), number(true, index)];
    let [left, right] = ends;
    let pour = Linked::new(ends, true, Program::Pour, 1, RING, window.clone());
    let drain = Linked::new([right, left], false, Program::Drain, 1, RING, window);
    net.add(Box::new(pour), Box::new(drain));
}

pub fn add_model(net: &mut Dumbbell, index: usize, kind: Kind) {
    let ends = [number(false, index), number(true, index)];
    let [left, right] = ends;
    let sink = Sink::new([right, left]);
    net.add(Box::new(Sender::new(ends, kind)), Box::new(sink));
}

/// Gb/s of each of the first `count`, from now on.
pub fn rates(net: &mut Dumbbell, count: usize, time: Duration) -> Vec<f64> {
    let delivered = |net: &Dumbbell, index| net.right(index).delivered();
    let before: Vec<u64> = (0..count).map(|index| delivered(net, index)).collect();
    net.run(time);
    let rate = |(index, before)| (delivered(net, index) - before) as f64 * 8.0;
    let per_second = time.as_secs_f64() * 1e9;
    let each = before.into_iter().enumerate().map(rate);
    each.map(|bits| bits / per_second).collect()
}

/// 1 if all are equal, one over their number if one has all.
pub fn jain(rates: &[f64]) -> f64 {
    let sum: f64 = rates.iter().sum();
    let squares: f64 = rates.iter().map(|rate| rate * rate).sum();
    sum * sum / (rates.len() as f64 * squares)
}

pub fn network(rtt: Duration, queue: u64, marks_at: Option<u64>) -> Conditions {
    Conditions {
        latency: rtt / 2,
        queue,
        marks_at,
        ..Conditions::default()
    }
}

/// So many links of ours, each beginning a little later than the one before.
fn ours(count: usize, queue: u64, marks_at: Option<u64>, warm: Duration) -> (String, f64) {
    let mut net = Dumbbell::new(&network(TRIP, queue, marks_at), PORT, 1);
    for index in 0..count {
        add_link(&mut net, index, Adaptive::new());
        net.run(TRIP * 2);
    }
    net.run(warm);
    let rates = rates(&mut net, count, Duration::from_millis(60));
    let jain = jain(&rates);
    let least = rates.iter().copied().fold(f64::INFINITY, f64::min);
    let most = rates.iter().copied().fold(0.0, f64::max);
    let marks = if marks_at.is_some() {
        "marks"
    } else {
        "no marks"
    };
    let sum: f64 = rates.iter().sum();
    let line = format!(
        "{count:>2} links, {:>4} KiB queue, {marks:<8}: {sum:5.2} Gb/s, each {least:.2} to {most:.2}, Jain {jain:.3}\n",
        queue >> 10
    );
    (line, jain)
}

// [G2] [G3] [G4] [G8]
#[test]
#[cfg_attr(debug_assertions, ignore = "takes minutes without optimisation")]
fn equals_become_equal() {
    let mut figures = String::new();
    let ms = Duration::from_millis;
    let cases = [
        (2, 256 << 10, None, ms(60)),
        (20, 256 << 10, None, ms(90)),
        (2, 256 << 10, Some(MARKS_AT), ms(60)),
        (20, 256 << 10, Some(MARKS_AT), ms(60)),
        (2, 1 << 20, None, ms(60)),
        (20, 1 << 20, None, ms(180)),
    ];
    for (count, queue, marks_at, warm) in cases {
        let (line, jain) = ours(count, queue, marks_at, warm);
        figures += &line;
        assert!(jain >= 0.95, "{figures}");
    }
    snapshot::check("sharing.txt", &figures);
}

/// Gb/s of the two that share a queue with each other.
fn beside(net: &mut Dumbbell, settles: Duration) -> [f64; 2] {
    net.run(settles);
    let rates = rates(net, 2, Duration::from_millis(250));
    let least = rates.iter().sum::<f64>() / 10.0;
    assert!(rates.iter().all(|&rate| rate >= least), "{rates:?}");
    [rates[0], rates[1]]
}

// [G8] A loss-based flow that fills the queue takes not all, and we do not take all from it.
#[test]
#[cfg_attr(debug_assertions, ignore = "takes minutes without optimisation")]
fn nobody_starves_beside_cubic() {
    let mut figures = String::new();
    for (trip, queue) in [(TRIP, 64), (TRIP, 256), (TRIP, 1024), (TRIP * 10, 256)] {
        let mut net = Dumbbell::new(&network(trip, queue << 10, None), PORT, 1);
        add_link(&mut net, 0, Adaptive::new());
        add_model(&mut net, 1, Kind::Cubic);
        let [ours, cubic] = beside(&mut net, Duration::from_millis(150));
        figures += &format!(
            "{:>4} us, {queue:>4} KiB queue: ours {ours:.2}, CUBIC {cubic:.2} Gb/s\n",
            trip.as_micros()
        );
    }
    // Late, on a port that is no faster than what is shared.
    let rate = Conditions::default().rate;
    let mut net = Dumbbell::new(&network(TRIP, 1 << 20, None), rate, 1);
    net.hesitate(1);
    add_model(&mut net, 0, Kind::Cubic);
    net.run(Duration::from_millis(100));
    add_link(&mut net, 1, Adaptive::new());
    let [cubic, ours] = beside(&mut net, Duration::from_millis(250));
    figures += &format!(
        " 100 us, 1024 KiB queue, equal ports, ours late: ours {ours:.2}, CUBIC {cubic:.2} Gb/s\n"
    );
    snapshot::check("cubic.txt", &figures);
}
