//! One short test for a rule; each names the rule that it proves.

#[path = "rules/connections.rs"]
mod connections;
#[path = "rules/credit.rs"]
mod credit;
#[path = "rules/fairness.rs"]
mod fairness;
#[path = "rules/handshake.rs"]
mod handshake;
#[path = "rules/mtu.rs"]
mod mtu;
#[path = "rules/recovery.rs"]
mod recovery;

use std::cell::RefCell;
use std::rc::Rc;
use std::time::Duration;

use netstack::link::window::Fixed;
use netstack::link::{Event, Why};
use netstack::time::Instant;
use netstack::wire::{Kind, Packet};

use super::host::Host;
use super::net::{Cable, Conditions};
use super::pair::Pair;

const MS: Duration = Duration::from_millis(1);

fn pair() -> Pair<Fixed> {
    Pair::new(Conditions::default(), 1, Fixed::new(1 << 18))
}

fn kind(payload: &[u8]) -> Kind {
    Packet::parse(payload)
        .expect("a packet of ours")
        .header
        .kind
}

/// Loses the first so many packets of a kind.
fn lose(cable: &mut Cable, which: Kind, mut count: u32) {
    cable.filter.0 = Some(Box::new(move |_, payload| {
        let loses = kind(payload) == which && count > 0;
        count -= u32::from(loses);
        loses
    }));
}

type Log = Rc<RefCell<Vec<(Instant, Vec<u8>)>>>;

/// Writes down what is sent.
fn log(cable: &mut Cable) -> Log {
    let log = Log::default();
    let into = log.clone();
    cable.filter.0 = Some(Box::new(move |now, payload| {
        into.borrow_mut().push((now, payload.to_vec()));
        false
    }));
    log
}

fn count(log: &Log, which: Kind) -> usize {
    let log = log.borrow();
    log.iter()
        .filter(|(_, payload)| kind(payload) == which)
        .count()
}

fn death(host: &Host<Fixed>) -> Option<Why> {
    host.events.iter().find_map(|event| match event {
        Event::Dead(why) => Some(*why),
        _ => None,
    })
}

fn ups(host: &Host<Fixed>) -> usize {
    host.events
        .iter()
        .filter(|event| **event == Event::Up)
        .count()
}

/// Runs while everybody reads all there is.
fn run(pair: &mut Pair<Fixed>, time: Duration) {
    let end = pair.now + time;
    read_all(pair);
    pair.run(time, read_all);
    pair.now = end;
}

fn read_all(pair: &mut Pair<Fixed>) {
    for host in [&mut pair.a, &mut pair.b] {
        let ids: Vec<_> = host.rings.0.keys().copied().collect();
        for id in ids {
            host.read(pair.now, id, u64::MAX);
        }
    }
}
