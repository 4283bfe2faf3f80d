//! Two hosts with one connection, and what befalls them.

use std::time::Duration;

use firmware::{End, EndpointId, Engine};
use netstack::failover::{Prepare, Role, Stage};
use netstack::phy::{Conditions, Sim};
use netstack::time::Instant;

use super::library::{Library, Score};
use super::pipe::Pipe;
use crate::host::Host;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Trouble {
    /// An engine dies, and another takes its place.
    Crash,
    /// An engine does nothing for a while, and then goes on where it was.
    Stop,
    /// Nothing gets through between the engines for a while.
    Cut,
    /// Frames are lost, doubled, changed and late.
    BadCable,
    /// What the daemons tell each other is lost.
    Silence,
    /// A deadline passes for no reason.
    Haste,
}

impl Trouble {
    pub const ALL: [Trouble; 6] = [
        Trouble::Crash,
        Trouble::Stop,
        Trouble::Cut,
        Trouble::BadCable,
        Trouble::Silence,
        Trouble::Haste,
    ];
}

/// A host, its library, and how long its engine is stopped.
struct Party {
    host: Host,
    library: Library,
    stopped_until: Instant,
}

pub struct Scene {
    seed: u64,
    now: Instant,
    troubles: Vec<Trouble>,
    parties: [Party; 2],
    /// By the writing side.
    pipes: [Pipe; 2],
    random: u64,
    cut_until: Instant,
    engines: u8,
}

impl Scene {
    pub fn new(seed: u64, troubles: &[Trouble]) -> Scene {
        let bytes = 20_000 + seed % 7 * 30_000;
        let (a, b) = Sim::pair(&cable(false, false), 1500, seed);
        let party = |number, port, role, bytes| Party {
            host: Host::new(number, port),
            library: Library::new(role, bytes),
            stopped_until: Instant::ZERO,
        };
        let mut scene = Scene {
            seed,
            now: Instant::from_nanos(1),
            troubles: troubles.to_vec(),
            parties: [
                party(1, a, Role::Connected, bytes),
                party(2, b, Role::Accepted, bytes / (1 + seed % 3)),
            ],
            pipes: Default::default(),
            random: seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1,
            cut_until: Instant::ZERO,
            engines: 0,
        };
        scene.parties[0].host.meet(2);
        scene.parties[1].host.meet(1);
        scene
    }

    /// What both libraries have seen.
    pub fn score(&self) -> Score {
        let scores = self.parties.iter().map(|party| party.library.score);
        scores.fold(Score::default(), |all, one| all + one)
    }

    fn random(&mut self) -> u64 {
        self.random ^= self.random << 13;
        self.random ^= self.random >> 7;
        self.random ^= self.random << 17;
        self.random >> 11
    }

    /// One time in so many, if this is among the troubles.
    fn strikes(&mut self, trouble: Trouble, one_in: u64) -> bool {
        self.troubles.contains(&trouble) && self.random().is_multiple_of(one_in)
    }

    /// Plays until both have all.
    pub fn play(mut self) -> Scene {
        for _ in 0..2_000_000 {
            if self.parties.iter().all(|party| party.library.is_done()) {
                for (party, other) in [(0, 1), (1, 0)] {
                    let read = self.parties[party].library.read;
                    assert_eq!(read, self.parties[other].library.write_to);
                }
                return self;
            }
            self.now = self.now + Duration::from_nanos(500 + self.random() % 4000);
            self.befall();
            self.promote();
            self.run();
        }
        let stages = self
            .parties
            .each_ref()
            .map(|party| party.library.side.clone());
        panic!("seed {}: stuck in {stages:?}", self.seed);
    }

    fn befall(&mut self) {
        let who = (self.random() % 2) as usize;
        if self.strikes(Trouble::Crash, 3000) {
            self.crash(who);
        }
        if self.strikes(Trouble::Stop, 3000) {
            let long = Duration::from_micros(self.random() % 30_000);
            self.parties[who].stopped_until = self.now + long;
        }
        if self.strikes(Trouble::Cut, 3000) {
            self.cut_until = self.now + Duration::from_micros(self.random() % 20_000);
        }
        let cut = self.cut_until > self.now;
        let bad = self.troubles.contains(&Trouble::BadCable);
        for party in &mut self.parties {
            party.host.port.change(cable(bad, cut));
        }
    }

    fn crash(&mut self, who: usize) {
        self.engines += 1;
        let party = &mut self.parties[who];
        party.host.engine = Engine::default();
        party.host.reborn(self.engines);
        party.host.meet([2, 1][who]);
        party.library.served = false;
        party.library.endpoint = None;
        party.stopped_until = Instant::ZERO;
    }

    /// [F1] A proposes now and then; the daemons pass on what the two say, or do not.
    fn promote(&mut self) {
        let (whim, guess) = (self.random() % 4, self.random() % 40);
        let [a, b] = &self.parties;
        let proposes = a.library.can_join(&self.pipes[1]);
        // A does not know; a guess that is often wrong would only take time.
        let agrees = b.library.can_join(&self.pipes[0]) || guess == 0;
        let runs = [a, b].iter().all(|party| party.stopped_until <= self.now);
        if !proposes || !agrees || !runs || whim != 0 {
            return;
        }
        let key = self.random();
        let prepare = self.parties[0].library.propose(self.now, key);
        if self.strikes(Trouble::Silence, 3) {
            return;
        }
        let agreed = self.parties[1]
            .library
            .agree(self.now, &prepare, &self.pipes[0]);
        if agreed {
            self.expect(&prepare);
        }
        if agreed && !self.strikes(Trouble::Silence, 3) {
            self.open(&prepare);
        }
    }

    fn expect(&mut self, prepare: &Prepare) {
        let Party { host, library, .. } = &mut self.parties[1];
        let segment = library.segment.clone().expect("it has just agreed");
        library.endpoint = host.engine.expect(host.peer(), prepare.epoch, segment).ok();
        host.prod();
    }

    fn open(&mut self, prepare: &Prepare) {
        let Party { host, library, .. } = &mut self.parties[0];
        let segment = library.segment.clone().expect("it has just proposed");
        let opened = host
            .engine
            .open(self.now, host.peer(), prepare.epoch, segment);
        library.endpoint = opened.ok();
        host.prod();
    }

    fn run(&mut self) {
        for who in 0..2 {
            let hasty = self.strikes(Trouble::Haste, 5000);
            let mood = self.random().is_multiple_of(4);
            let [first, second] = &mut self.pipes;
            let (to, from) = if who == 0 {
                (first, second)
            } else {
                (second, first)
            };
            let Party {
                host,
                library,
                stopped_until,
            } = &mut self.parties[who];
            if hasty && library.side.stage() == Stage::Linked {
                library.served = false;
            }
            library.run(self.now, to, from, mood);
            if *stopped_until > self.now {
                continue;
            }
            if let Some(endpoint) = library.endpoint {
                host.engine.notice(endpoint);
                if library.has_left() {
                    host.engine.destroy(self.now, endpoint);
                    library.endpoint = None;
                }
            }
            host.prod();
            host.run(self.now);
            tell(host, library);
        }
    }
}

/// What the engine has to say about the promotion under way.
fn tell(host: &mut Host, library: &mut Library) {
    let ours = |endpoint: EndpointId| Some(endpoint) == library.endpoint;
    let end_acked = host.end_acked.drain(..).any(ours);
    let gone = host.gone.iter().rfind(|(name, _)| ours(*name)).copied();
    host.gone.clear();
    library.end_acked |= end_acked;
    if let Some((_, how)) = gone {
        assert_ne!(how, End::Hostile);
        library.end_acked |= how == End::Closed;
        library.served &= how == End::Closed;
        library.endpoint = None;
    }
}

fn cable(bad: bool, cut: bool) -> Conditions {
    let some = |probability| if bad { probability } else { 0.0 };
    Conditions {
        latency: Duration::from_micros(5),
        rate: Some(1_000_000_000),
        loss: if cut { 1.0 } else { some(0.03) },
        duplication: some(0.02),
        corruption: some(0.02),
        jitter: Duration::from_micros(if bad { 40 } else { 0 }),
        ..Conditions::default()
    }
}
