//! The rules of the adaptive window, one by one.

use core::time::Duration;

use super::{Acked, Adaptive, Lost, Window};
use crate::link::rtt::Rtt;
use crate::time::Instant;

const US: Duration = Duration::from_micros(1);
const PACKET: u64 = 1000;
const WAY: Duration = Duration::from_micros(100);

/// A sender that always has something to send, on a way of 100 us.
struct Bench {
    window: Adaptive,
    rtt: Rtt,
    now: Instant,
    limited: bool,
}

impl Bench {
    fn new() -> Bench {
        let mut window = Adaptive::new();
        window.set_packet(PACKET);
        Bench {
            window,
            rtt: Rtt::default(),
            now: Instant::from_nanos(1_000_000),
            limited: true,
        }
    }

    fn packets(&self) -> u64 {
        self.window.size() / PACKET
    }

    /// A round trip in which the whole window is acknowledged, `marked` of ten with a mark.
    fn round(&mut self, queue: Duration, marked: u32) {
        // Only the last one was sent after the round before was over.
        let (sent, last) = (Instant::from_nanos(self.now.as_nanos() - 1), self.now);
        self.now = self.now + WAY + queue;
        let packets = self.packets();
        for packet in 0..packets {
            let sample = self.rtt.sample((WAY + queue).as_nanos() as u64, 0);
            self.window.on_ack(&Acked {
                now: self.now,
                bytes: PACKET,
                sent: if packet + 1 == packets { last } else { sent },
                sample,
                rtt: &self.rtt,
                in_flight: self.window.size(),
                limited: self.limited,
                packets: 1,
                marked: u32::from(packet % 10 < u64::from(marked)),
            });
        }
    }

    fn rounds(&mut self, count: u32) {
        (0..count).for_each(|_| self.round(Duration::ZERO, 0));
    }

    fn lose(&mut self) {
        self.window.on_loss(&Lost {
            now: self.now,
            bytes: PACKET,
            sent: self.now,
            rtt: &self.rtt,
        });
    }

    /// Out of slow start, with so many packets or a few more.
    fn settled(packets: u64) -> Bench {
        let mut bench = Bench::new();
        while bench.packets() < packets {
            bench.rounds(1);
        }
        bench.round(15 * US, 0);
        bench
    }
}

// [G9]
#[test]
fn doubles_until_there_is_a_queue_and_then_adds() {
    let mut bench = Bench::new();
    assert_eq!(bench.packets(), 10);
    bench.rounds(4);
    let doubled = bench.packets();
    assert!((150..=160).contains(&doubled), "{doubled}");
    bench.round(15 * US, 0);
    let start = bench.packets();
    assert!(start < doubled + 10);
    for round in 1..=10 {
        bench.round(15 * US, 0);
        assert!(bench.packets().abs_diff(start + round) <= 1);
    }
}

// [G9] A packet at a time, as Reno; then faster, but never by more than a part of what a port carries.
#[test]
fn grows_faster_where_nobody_is_in_the_way() {
    let mut bench = Bench::settled(100);
    let start = bench.packets();
    bench.rounds(30);
    assert!(bench.packets().abs_diff(start + 30) <= 2);
    bench.rounds(20);
    let start = bench.window.size();
    bench.rounds(10);
    let each = (bench.window.size() - start) / 10;
    assert!((1500..=2000).contains(&each), "{each}");
}

// [G2]
#[test]
fn a_loss_takes_three_tenths_or_two_if_there_was_no_queue() {
    let mut bench = Bench::settled(100);
    let before = bench.window.size();
    bench.lose();
    assert_eq!(bench.window.size(), before * 7 / 10);
    bench.rounds(1);
    let before = bench.window.size();
    bench.lose();
    assert_eq!(bench.window.size(), before * 8 / 10);
    // Slow start is over.
    let before = bench.packets();
    bench.rounds(1);
    assert!(bench.packets() <= before + 1);
}

// [G3] RFC 8257: in the end by half of the share.
#[test]
fn marks_reduce_by_their_share() {
    let mut bench = Bench::settled(200);
    for _ in 0..100 {
        bench.window.resize(200 * PACKET);
        bench.round(Duration::ZERO, 2);
    }
    let left = bench.packets();
    assert!((178..=182).contains(&left), "{left}");
    // The first marks after long without count little, all marked counts most.
    bench.rounds(40);
    let before = bench.window.size();
    bench.round(Duration::ZERO, 10);
    assert!(bench.window.size() > before * 9 / 10);
}

// [G4]
#[test]
fn delay_reduces_in_proportion_once_per_round() {
    let mut bench = Bench::settled(100);
    let before = bench.window.size();
    bench.round(60 * US, 0);
    let first = bench.window.size();
    assert!(
        first < before && first > before * 8 / 10,
        "{before} {first}"
    );
    bench.round(1000 * US, 0);
    let second = bench.window.size();
    assert!(second.abs_diff(first / 2) <= 2 * PACKET, "{first} {second}");
}

// [G1] [R5]
#[test]
fn never_below_two_packets() {
    let mut bench = Bench::settled(100);
    for _ in 0..20 {
        bench.round(1000 * US, 0);
        bench.lose();
    }
    assert_eq!(bench.packets(), 2);
    let mut bench = Bench::settled(100);
    let half = bench.packets() / 2;
    bench.window.on_silence(bench.now);
    assert_eq!(bench.packets(), 2);
    // Then slow start, up to half of what it was.
    bench.rounds(5);
    assert_eq!(bench.packets(), 64);
    bench.rounds(2);
    assert!(bench.packets().abs_diff(half) <= 2, "{}", bench.packets());
}

// [R6]
#[test]
fn a_loss_that_was_none_is_taken_back() {
    for reduce in [Bench::lose, |bench: &mut Bench| {
        bench.window.on_silence(bench.now)
    }] {
        let mut bench = Bench::settled(100);
        let before = bench.window.size();
        reduce(&mut bench);
        assert!(bench.window.size() < before);
        bench.window.on_spurious(bench.now);
        assert_eq!(bench.window.size(), before);
        // But not for ever, and not twice.
        reduce(&mut bench);
        bench.rounds(6);
        let now = bench.window.size();
        bench.window.on_spurious(bench.now);
        assert_eq!(bench.window.size(), now);
    }
}

// [G7]
#[test]
fn what_is_not_filled_does_not_grow() {
    let mut bench = Bench::new();
    bench.limited = false;
    bench.rounds(100);
    assert_eq!(bench.packets(), 10);
}

// [G5]
#[test]
fn the_rate_is_a_quarter_more_than_the_window_and_twice_it_in_slow_start() {
    let mut bench = Bench::new();
    assert_eq!(bench.window.rate(&bench.rtt), None);
    bench.rounds(3);
    let per_second = |bench: &Bench| bench.window.size() * 10_000;
    assert_eq!(bench.window.rate(&bench.rtt), Some(2 * per_second(&bench)));
    bench.lose();
    let rate = bench.window.rate(&bench.rtt).unwrap();
    assert_eq!(rate, per_second(&bench) * 5 / 4);
}

// [G8]
#[test]
fn makes_room_for_a_queue_that_stays_and_returns() {
    let mut bench = Bench::settled(100);
    let mut sizes = alloc::vec::Vec::new();
    for _ in 0..60 {
        bench.round(10 * US, 0);
        sizes.push(bench.packets());
    }
    let cleared = sizes.windows(2).position(|pair| pair[1] < pair[0] * 6 / 10);
    let at = cleared.expect("room for the queue");
    assert!((45..50).contains(&at), "{at}");
    assert_eq!(sizes[at + 2], sizes[at + 1]);
    assert!(sizes[at + 3] >= sizes[at]);
    // A way that is as short as ever needs none.
    let mut bench = Bench::settled(100);
    for _ in 0..100 {
        let before = bench.packets();
        bench.rounds(1);
        assert!(bench.packets() >= before);
    }
}

// [G8]
#[test]
fn does_not_give_way_to_one_who_never_does() {
    let mut bench = Bench::settled(100);
    for _ in 0..60 {
        bench.round(500 * US, 0);
    }
    assert!(bench.packets() >= 50, "{}", bench.packets());
    for _ in 0..30 {
        bench.round(520 * US, 0);
    }
    assert!(bench.packets() >= 75, "{}", bench.packets());
}
