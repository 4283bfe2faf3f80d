//! A scenario: what a network does and what programs do, all of it drawn from one seed.

use std::time::Duration;

use netstack::link::Config;
use netstack::link::window::{Adaptive, Fixed};

use super::either::Either;
use super::net::{Conditions, Random};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Side {
    A,
    B,
}

/// What happens at a moment, in microseconds since the beginning.
#[derive(Clone, Debug)]
pub enum Act {
    Open {
        name: u64,
        opener: Side,
        ring: u64,
        from: u64,
    },
    Write {
        name: u64,
        side: Side,
        bytes: u64,
    },
    Close {
        name: u64,
        side: Side,
    },
    Reset {
        name: u64,
        side: Side,
    },
    /// The program takes its ring back, and later resets the connection.
    Freeze {
        name: u64,
        side: Side,
    },
    Cut {
        there: bool,
        back: bool,
    },
    /// Of these ways nothing passes, by their bits: from A to B, and back.
    CutWays {
        there: u8,
        back: u8,
    },
    Mtu(usize),
    Weather {
        loss: f64,
        burst: f64,
    },
    Restart(Side),
    Bye(Side),
}

#[derive(Clone, Debug)]
pub struct Scenario {
    pub seed: u64,
    pub ways: u16,
    /// Bytes of IP that the ports allow.
    pub mtu: usize,
    pub window: u64,
    pub patience: Duration,
    pub most_packets: usize,
    pub first_number: u64,
    pub conditions: Conditions,
    /// Bytes that a reader takes at a time, and its pause after.
    pub reader: (u64, Duration),
    pub acts: Vec<(u64, Act)>,
    /// [R7] Links may die in it.
    pub deadly: bool,
}

impl Scenario {
    /// Every second one has the adaptive window. But what is sent to a frozen ring is never acknowledged
    /// [C5], so that window takes it for lost again and again, and is too small for the bound in time.
    pub fn window(&self) -> Either {
        let freezes = |(_, act): &(u64, Act)| matches!(act, Act::Freeze { .. });
        match self.seed.is_multiple_of(2) || self.acts.iter().any(freezes) {
            true => Either::Fixed(Fixed::new(self.window)),
            false => Either::Adaptive(Adaptive::new()),
        }
    }

    pub fn draw(seed: u64) -> Scenario {
        let mut dice = Random::new(seed ^ 0x5eed);
        for _ in 0..8 {
            dice.next();
        }
        let patience = Duration::from_millis([400, 3000][dice.below(2) as usize]);
        let mut scenario = Scenario {
            seed,
            ways: [1, 1, 2, 8][dice.below(4) as usize],
            mtu: [1200, 1500, 1500, 9000][dice.below(4) as usize],
            window: [3000, 20_000, 1 << 17, 1 << 20][dice.below(4) as usize],
            patience,
            most_packets: [32, 1 << 14][dice.below(2) as usize],
            first_number: [0, (1 << 32) - 50, (1 << 63) - 20][dice.below(3) as usize],
            conditions: weather(&mut dice),
            reader: reader(&mut dice),
            acts: Vec::new(),
            deadly: dice.chance(0.3),
        };
        let length = 1 + dice.below(200_000);
        for name in 0..1 + dice.below(12) {
            scenario.draw_connection(&mut dice, name, length);
        }
        scenario.draw_faults(&mut dice, length);
        scenario.acts.sort_by_key(|(at, _)| *at);
        scenario
    }

    fn draw_connection(&mut self, dice: &mut Random, name: u64, length: u64) {
        let opener = [Side::A, Side::B][dice.below(2) as usize];
        let ring = [1, 100, 3000, 1 << 14, 1 << 17][dice.below(5) as usize];
        let from = [0, 1000, (1 << 32) - 700, (1 << 63) - 100][dice.below(4) as usize];
        let begin = dice.below(length);
        self.acts.push((
            begin,
            Act::Open {
                name,
                opener,
                ring,
                from,
            },
        ));
        let most = [10, 3000, 100_000][dice.below(3) as usize].min(ring * 200);
        for side in [Side::A, Side::B] {
            let mut at = begin;
            for _ in 0..dice.below(6) {
                at += 1 + dice.below(length / 4 + 1);
                let bytes = 1 + dice.below(most);
                self.acts.push((at, Act::Write { name, side, bytes }));
            }
            let act = match dice.below(20) {
                0..13 => Act::Close { name, side },
                13..15 => Act::Reset { name, side },
                15 => Act::Freeze { name, side },
                _ => continue,
            };
            self.acts.push((at + dice.below(length / 4 + 1), act));
        }
    }

    fn draw_faults(&mut self, dice: &mut Random, length: u64) {
        let patience = self.patience.as_micros() as u64;
        for _ in 0..dice.below(4) {
            let at = dice.below(length * 2);
            match dice.below(6) {
                0 => {
                    // Too short to kill, or long enough.
                    let long = self.deadly && dice.chance(0.5);
                    let time = if long { patience * 2 } else { patience / 4 };
                    let (there, back) =
                        [(true, true), (true, false), (false, true)][dice.below(3) as usize];
                    self.acts.push((at, Act::Cut { there, back }));
                    let time = if long { time } else { dice.below(time) };
                    self.acts.push((
                        at + time,
                        Act::Cut {
                            there: false,
                            back: false,
                        },
                    ));
                }
                1 if self.ways > 1 => {
                    let way = 1 << dice.below(self.ways.into());
                    let (there, back) = [(way, way), (way, 0), (0, way)][dice.below(3) as usize];
                    self.acts.push((at, Act::CutWays { there, back }));
                }
                2 => self.acts.push((
                    at,
                    Act::Mtu(1172 + dice.below(self.mtu as u64 - 1199) as usize),
                )),
                3 => {
                    let (loss, burst) =
                        (dice.below(10) as f64 / 100.0, dice.below(60) as f64 / 100.0);
                    self.acts.push((at, Act::Weather { loss, burst }));
                }
                4 if self.deadly => self
                    .acts
                    .push((at, Act::Restart([Side::A, Side::B][dice.below(2) as usize]))),
                5 if self.deadly => self
                    .acts
                    .push((at, Act::Bye([Side::A, Side::B][dice.below(2) as usize]))),
                _ => {}
            }
        }
    }
}

fn weather(dice: &mut Random) -> Conditions {
    let micros = Duration::from_micros;
    let some = |dice: &mut Random, most: u64| {
        if dice.chance(0.5) {
            0
        } else {
            dice.below(most)
        }
    };
    Conditions {
        latency: micros([5, 50, 500, 5000][dice.below(4) as usize]),
        jitter: micros(some(dice, 200)),
        rate: [20_000_000, 1_000_000_000, 25_000_000_000][dice.below(3) as usize],
        queue: [20_000, 1 << 20][dice.below(2) as usize],
        marks_at: [None, Some(10_000)][dice.below(2) as usize],
        mtu: 8972,
        loss: some(dice, 8) as f64 / 100.0,
        burst: some(dice, 60) as f64 / 100.0,
        duplication: some(dice, 10) as f64 / 100.0,
        corruption: some(dice, 5) as f64 / 100.0,
        detour: (some(dice, 5) as f64 / 100.0, micros(dice.below(20_000))),
    }
}

fn reader(dice: &mut Random) -> (u64, Duration) {
    match dice.below(3) {
        0 => (u64::MAX, Duration::ZERO),
        1 => (1 + dice.below(5000), Duration::from_micros(dice.below(500))),
        _ => (u64::MAX, Duration::from_micros(dice.below(20_000))),
    }
}

/// What both links of a scenario are like.
pub fn tune(scenario: &Scenario) -> impl Fn(&mut Config) + use<> {
    let scenario = scenario.clone();
    move |config| {
        let peer = |config: &Config| match config.ways[0].outgoing.source.ip().to_string().as_str()
        {
            "10.0.0.1" => (1, 2),
            _ => (2, 1),
        };
        let (me, you) = peer(config);
        config.ways = super::host::ways(me, you, scenario.ways);
        config.mtu = scenario.mtu;
        config.patience = scenario.patience;
        config.most_packets = scenario.most_packets;
        config.first_number = scenario.first_number;
    }
}
