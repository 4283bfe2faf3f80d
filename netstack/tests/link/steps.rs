//! Two hosts without a network: each packet is looked at before it arrives, or does not.

#[path = "steps/connections.rs"]
mod connections;
#[path = "steps/credit.rs"]
mod credit;
#[path = "steps/fairness.rs"]
mod fairness;
#[path = "steps/handshake.rs"]
mod handshake;
#[path = "steps/numbers.rs"]
mod numbers;
#[path = "steps/recovery.rs"]
mod recovery;

use std::time::Duration;

use netstack::link::window::Fixed;
use netstack::link::{Arrival, Dropped, Event, Id, Terms, Why, reason};
use netstack::time::Instant;
use netstack::wire::frame::Ecn;
use netstack::wire::{Header, Kind, Packet};

use super::host::Host;

const RING: u64 = 8000;
const TERMS: Terms = Terms {
    name: 7,
    send_from: 0,
    receive_from: 0,
    ring: RING,
};
const MS: Duration = Duration::from_millis(1);
const US: Duration = Duration::from_micros(1);

struct Duo {
    now: Instant,
    a: Host<Fixed>,
    b: Host<Fixed>,
}

/// The next packet that leaves.
fn say(host: &mut Host<Fixed>, now: Instant) -> Option<Vec<u8>> {
    let mut out = vec![0; 1500];
    let departure = host.link.transmit(now, &mut host.rings, &mut out)?;
    out.truncate(departure.length);
    Some(out)
}

fn hear(host: &mut Host<Fixed>, now: Instant, payload: &[u8]) -> Result<(), Dropped> {
    let arrival = Arrival {
        addresses: host.ways[0].incoming,
        ecn: Ecn::Capable,
        payload,
    };
    let taken = host.link.receive(now, &arrival, &mut host.rings);
    while let Some(event) = host.link.event() {
        host.events.push(event);
    }
    taken
}

fn header(packet: &[u8]) -> Header {
    Packet::parse(packet).expect("a packet").header
}

impl Duo {
    fn new() -> Duo {
        let host = |me, peer| Host::new(me, peer, me.into(), Fixed::new(1 << 20), |_| {});
        Duo {
            now: Instant::from_nanos(1_000_000_000),
            a: host(1, 2),
            b: host(2, 1),
        }
    }

    /// With one connection, open, and nothing left to say.
    fn connected() -> (Duo, Id, Id) {
        let mut duo = Duo::new();
        let b = duo.expect(&TERMS);
        let a = duo.open(&TERMS);
        duo.exchange(|_, _| true);
        assert_eq!(duo.a.events, [Event::Up, Event::Open(a)]);
        (duo, a, b)
    }

    fn expect(&mut self, terms: &Terms) -> Id {
        let id = self.b.link.expect(terms).expect("room");
        self.b.adopt(id, terms);
        id
    }

    fn open(&mut self, terms: &Terms) -> Id {
        let id = self.a.link.open(self.now, terms).expect("room");
        self.a.adopt(id, terms);
        id
    }

    /// All that both have to say within 1 ms, in steps of 10 us. `arrives` sees each packet and whether
    /// it goes to `b`, and says whether it arrives.
    fn exchange(&mut self, mut arrives: impl FnMut(bool, &[u8]) -> bool) {
        for _ in 0..100 {
            while let Some(packet) = say(&mut self.a, self.now) {
                if arrives(true, &packet) {
                    let _ = hear(&mut self.b, self.now, &packet);
                }
            }
            while let Some(packet) = say(&mut self.b, self.now) {
                if arrives(false, &packet) {
                    let _ = hear(&mut self.a, self.now, &packet);
                }
            }
            self.now = self.now + 10 * US;
        }
    }

    /// The same; all arrives, and is listed.
    fn all(&mut self) -> Vec<(bool, Header)> {
        let mut seen = Vec::new();
        self.exchange(|to_b, packet| {
            seen.push((to_b, header(packet)));
            true
        });
        seen
    }
}
