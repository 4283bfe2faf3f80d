//! Networks that nothing was tuned on, drawn from seeds: rates, ways, queues, ports, numbers of senders
//! and times at which they begin.

use std::time::Duration;

use netstack::link::window::Adaptive;

use super::dumbbell::Dumbbell;
use super::model::Kind;
use super::sharing::{add_link, add_model, jain, rates};
use super::snapshot;
use crate::net::{Conditions, Random};

/// Bytes of a full frame on the cable, and of those for a program.
const FRAME: u64 = 1538;
const BODY: u64 = 1440;
/// Frames that are on the way of a network here: with more each run would take too long.
const WAYS: std::ops::RangeInclusive<u64> = 4..=400;

/// A queue that several share.
struct Network {
    seed: u64,
    /// Gb/s of the cable, and of each host's port.
    rate: u64,
    port: u64,
    trip: Duration,
    /// Bytes.
    queue: u64,
    marks_at: Option<u64>,
    /// When each sender begins, after the one before.
    begins: Vec<Duration>,
}

fn pick<T: Copy>(random: &mut Random, from: &[T]) -> T {
    from[random.below(from.len() as u64) as usize]
}

impl Network {
    fn draw(seed: u64, most_senders: u64) -> Network {
        let mut random = Random::new(seed);
        random.next();
        loop {
            let rate = pick(&mut random, &[1, 10, 25, 40]);
            let quarters = 4 + random.below(4) as u32;
            let trip = Duration::from_micros(10 << random.below(8)) * quarters / 4;
            let on_the_way = rate * trip.as_nanos() as u64 / 8;
            if !WAYS.contains(&(on_the_way / FRAME)) {
                continue;
            }
            // From half of what is on the way to eight times that.
            let queue = on_the_way * (1 << random.below(5)) / 2;
            let queue = queue.clamp(32 << 10, 4 << 20);
            let marks_at = (on_the_way * 2 / 5).max(30 << 10);
            let marks = random.below(4) == 0 && marks_at < queue / 2;
            let port = pick(&mut random, &[rate, rate * 5 / 2]);
            let count = 2 + random.below(most_senders - 1);
            return Network {
                seed,
                rate,
                port,
                trip,
                queue,
                marks_at: marks.then_some(marks_at),
                begins: (0..count).map(|_| trip * random.below(60) as u32).collect(),
            };
        }
    }

    fn net(&self) -> Dumbbell {
        let conditions = Conditions {
            latency: self.trip / 2,
            rate: self.rate * 1_000_000_000,
            queue: self.queue,
            marks_at: self.marks_at,
            ..Conditions::default()
        };
        let mut net = Dumbbell::new(&conditions, self.port * 1_000_000_000, self.seed);
        net.hesitate(self.seed);
        net
    }

    /// So many round trips, and long enough for a thousand packets of each.
    fn long(&self, trips: u32) -> Duration {
        let bits = 1000 * self.begins.len() as u64 * FRAME * 8;
        (self.trip * trips).max(Duration::from_nanos(bits / self.rate))
    }

    /// Until everyone has begun (a HELLO may be lost too: [H1]), and then for so many round trips; the
    /// rates after that.
    fn rates(&self, net: &mut Dumbbell, settles: u32, lasts: u32) -> Vec<f64> {
        let count = self.begins.len();
        net.run_until(Duration::from_secs(1), |net| {
            (0..count).all(|index| net.right(index).delivered() > 0)
        });
        net.run(self.long(settles));
        rates(net, count, self.long(lasts))
    }
}

impl std::fmt::Display for Network {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let marks = if self.marks_at.is_some() { "marks" } else { "" };
        write!(
            f,
            "{:>4}: {:>2} Gb/s, ports {:>3}, {:>4} us, {:>4} KiB {marks:<5}",
            self.seed,
            self.rate,
            self.port,
            self.trip.as_micros(),
            self.queue >> 10
        )
    }
}

/// Two to twenty links of ours: a line, and Jain's index.
fn links(seed: u64) -> (String, f64) {
    let network = Network::draw(seed, 20);
    let mut net = network.net();
    for (index, &begin) in network.begins.iter().enumerate() {
        net.run(begin);
        add_link(&mut net, index, Adaptive::new());
    }
    let rates = network.rates(&mut net, 1000, 500);
    let sum: f64 = rates.iter().sum();
    let least = rates.iter().copied().fold(f64::INFINITY, f64::min);
    let most = rates.iter().copied().fold(0.0, f64::max);
    let used = sum * (FRAME * 100) as f64 / (network.rate * BODY) as f64;
    let jain = jain(&rates);
    let line = format!(
        "{network} | {:>2} links: {used:>3.0} % used, each {least:.2} to {most:.2} Gb/s, Jain {jain:.3}\n",
        rates.len()
    );
    (line, jain)
}

/// One link and CUBIC, one of them long after the other: a line, and the share of the smaller.
fn beside_cubic(seed: u64) -> (String, f64) {
    let network = Network {
        marks_at: None,
        ..Network::draw(seed, 2)
    };
    let mut net = network.net();
    let ours = (seed % 2) as usize;
    for index in 0..2 {
        match index == ours {
            true => add_link(&mut net, index, Adaptive::new()),
            false => add_model(&mut net, index, Kind::Cubic),
        }
        net.run(network.trip * 300);
    }
    let rates = network.rates(&mut net, 1500, 1500);
    let (ours, cubic) = (rates[ours], rates[1 - ours]);
    let first = ["ours ", "CUBIC"][(seed % 2) as usize];
    let line = format!("{network} | {first} first: ours {ours:>5.2}, CUBIC {cubic:>5.2} Gb/s\n");
    (line, ours.min(cubic) / (ours + cubic))
}

/// The lines of networks of these seeds, and those of them that fall short.
fn all(
    seeds: std::ops::Range<u64>,
    one: fn(u64) -> (String, f64),
    least: f64,
) -> (String, Vec<String>) {
    let (mut lines, mut short) = (String::new(), Vec::new());
    for seed in seeds {
        let (line, figure) = one(seed);
        lines += &line;
        if figure < least {
            short.push(line);
        }
    }
    (lines, short)
}

// [G2] [G3] [G4] [G8]
#[test]
#[cfg_attr(debug_assertions, ignore = "takes minutes without optimisation")]
fn equals_become_equal_elsewhere() {
    let (lines, short) = all(1..13, links, 0.95);
    assert!(short.is_empty(), "{}", short.concat());
    snapshot::check("others.txt", &lines);
}

// [G8]
#[test]
#[cfg_attr(debug_assertions, ignore = "takes minutes without optimisation")]
fn nobody_starves_beside_cubic_elsewhere() {
    let (lines, short) = all(1..9, beside_cubic, 0.1);
    assert!(short.is_empty(), "{}", short.concat());
    snapshot::check("others_cubic.txt", &lines);
}

/// `LINK_FROM=1000 LINK_COUNT=60 cargo test -p netstack --release --test link -- --ignored --nocapture
/// many_other_networks`
#[test]
#[ignore = "takes minutes"]
fn many_other_networks() {
    let number = |name: &str, or: u64| {
        let value = std::env::var(name).ok();
        value.map_or(or, |value| value.parse().expect("a number"))
    };
    let from = number("LINK_FROM", 1000);
    let seeds = from..from + number("LINK_COUNT", 60);
    let (_, unequal) = all(seeds.clone(), links, 0.95);
    println!("{}{} below 0.95", unequal.concat(), unequal.len());
    let (_, starved) = all(seeds, beside_cubic, 0.1);
    println!("{}{} below a tenth", starved.concat(), starved.len());
}
