//! Two hosts that go on with their transfer, an eavesdropper on both cables, and what must not happen.

use std::collections::{BTreeSet, VecDeque};
use std::time::Duration;

use netstack::link::window::Fixed;
use netstack::link::{Dropped, Event, Id};
use netstack::time::Instant;
use netstack::wire::{Kind, Packet, body};

use super::super::host::{Host, ways};
use super::super::net::{Conditions, Datagram};
use super::super::pair::Pair;
use super::attack::{Attack, Change, Known};
use super::script::Script;

/// Packets that the eavesdropper remembers.
const MEMORY: usize = 64;
/// [X2] What the state of a link may take, in characters of its debug form: 8 connections with 64
/// islands, 2 paths with 256 packets in flight and 256 lost ones.
const MOST_STATE: usize = 400_000;
/// A transfer is over by then, or a link has given up. One end of a connection may still ask the other,
/// which was told by the attacker that it is over.
const TIME: Duration = Duration::from_secs(60);
/// Sent in each direction of each connection.
const BYTES: u64 = 6000;
const MOST_STEPS: u32 = 20_000;

pub struct Victims {
    pair: Pair<Fixed>,
    ids: Vec<(Id, Id)>,
    to_write: u64,
    seen: VecDeque<(bool, Datagram)>,
    /// Incarnations of `a` and `b`, once the eavesdropper has heard them.
    names: Option<[u64; 2]>,
    /// A packet of the attacker's own making was taken: an attacker that knows all can do all, but for what is
    /// asserted on the way.
    fooled: bool,
    /// How far packets of the attacker's own making have come: kind, and why they were dropped.
    pub reached: BTreeSet<String>,
}

impl Victims {
    pub fn new(script: &mut Script<'_>) -> Victims {
        let nature = script.byte();
        let conditions = Conditions {
            loss: f64::from(nature % 4) * 0.02,
            jitter: Duration::from_micros(u64::from(nature / 4 % 4) * 10),
            ..Conditions::default()
        };
        let seed = u64::from(script.byte()) + 1;
        let mut pair = Pair::new(conditions, seed, Fixed::new(1 << 15));
        let host = |me, peer, seed| {
            Host::new(me, peer, seed, Fixed::new(1 << 15), |config| {
                config.ways = ways(me, peer, 2);
                config.most_connections = 8;
                config.most_packets = 256;
            })
        };
        (pair.a, pair.b) = (host(1, 2, seed), host(2, 1, seed + 1));
        let ids = (0..2).map(|name| pair.connect(name, 1 << 12)).collect();
        let mut victims = Victims {
            pair,
            ids,
            to_write: BYTES,
            seen: VecDeque::new(),
            names: None,
            fooled: false,
            reached: BTreeSet::new(),
        };
        victims.write(1500);
        // The attacker comes during the handshake, or later.
        victims.go_on(script.byte() % 64);
        victims
    }

    fn write(&mut self, bytes: u64) {
        let bytes = bytes.min(self.to_write);
        self.to_write -= bytes;
        let Pair { now, a, b, .. } = &mut self.pair;
        for &(id_a, id_b) in &self.ids {
            a.write(*now, id_a, bytes);
            b.write(*now, id_b, bytes);
            if self.to_write == 0 {
                a.link.close(*now, id_a);
                b.link.close(*now, id_b);
            }
        }
    }

    /// Lets the transfer go on by some steps.
    pub fn go_on(&mut self, steps: u8) {
        for _ in 0..steps {
            self.step(self.pair.now + TIME);
            self.write(60);
        }
    }

    /// Until the next thing happens; `false` if nothing does before the limit.
    fn step(&mut self, limit: Instant) -> bool {
        let Some(next) = self.pair.settle().filter(|&next| next <= limit) else {
            return false;
        };
        self.pair.now = self.pair.now.max(next);
        while let Some(datagram) = self.pair.to_b.take(self.pair.now) {
            self.hear(true, &datagram);
            self.pair.b.receive(self.pair.now, &datagram);
        }
        while let Some(datagram) = self.pair.to_a.take(self.pair.now) {
            self.hear(false, &datagram);
            self.pair.a.receive(self.pair.now, &datagram);
        }
        for &(a, b) in &self.ids {
            read(&mut self.pair.a, self.pair.now, a, self.fooled);
            read(&mut self.pair.b, self.pair.now, b, self.fooled);
        }
        true
    }

    fn hear(&mut self, to_b: bool, datagram: &Datagram) {
        let packet = Packet::parse(&datagram.payload).expect("a genuine packet");
        if packet.header.kind == Kind::Confirm {
            let confirm = body::Welcome::parse(packet.body).expect("a genuine packet");
            let [from, to] = [confirm.me.incarnation, confirm.you];
            self.names = Some(if to_b { [from, to] } else { [to, from] });
        }
        if self.seen.len() == MEMORY {
            self.seen.pop_front();
        }
        self.seen.push_back((to_b, datagram.clone()));
    }

    /// Sends one packet of the attacker's to the host that its model went to.
    pub fn strike(&mut self, attack: &Attack) {
        if self.seen.is_empty() {
            return;
        }
        let model = attack.model % self.seen.len();
        let (to_b, mut datagram) = self.seen[self.seen.len() - 1 - model].clone();
        let [a, b] = self.names.unwrap_or([1, 2]);
        let (sender, receiver) = if to_b { (a, b) } else { (b, a) };
        let known = Known {
            addresses: datagram.addresses(),
            sender,
            receiver,
        };
        let payload = attack.make(&datagram.payload, &known);
        if let Change::Way = attack.change {
            let mut others = self.seen.iter().map(|(_, other)| other);
            let other = others.rfind(|other| other.addresses() != known.addresses);
            let Some(other) = other else { return };
            datagram = other.clone();
        }
        let is_genuine = payload == datagram.payload && datagram.addresses() == known.addresses;
        datagram.payload = payload;
        let now = self.pair.now;
        let host = if to_b {
            &mut self.pair.b
        } else {
            &mut self.pair.a
        };
        let dropped = receive(host, |host| host.receive(now, &datagram), &datagram.payload);
        let forged = matches!(attack.change, Change::Fields(_));
        let kind = Packet::parse(&datagram.payload).map(|packet| packet.header.kind);
        self.reached.insert(match (kind, dropped) {
            (Ok(kind), None) => format!("{kind:?}"),
            (_, why) => format!("{why:?}"),
        });
        // [C1] A refusal is an answer, too.
        let refused = dropped == Some(Dropped::Offset) && kind == Ok(Kind::Open);
        if (dropped.is_none() || refused) && !is_genuine {
            assert!(forged, "taken: {attack:?}");
            // Anybody may say HELLO.
            self.fooled |= kind != Ok(Kind::Hello);
        }
    }

    fn show(&self) -> String {
        let Pair { now, a, b, .. } = &self.pair;
        let deadlines = (a.link.deadline(), b.link.deadline());
        format!("{now:?} {deadlines:?}\n{:?}\n{:?}", a.link, b.link)
    }

    /// The transfer comes to its end, if all that was taken was genuine.
    pub fn finish(&mut self) {
        self.write(u64::MAX);
        let mut steps = 0;
        let limit = self.pair.now + TIME;
        while self.step(limit) && !(self.fooled && steps > 2000) {
            steps += 1;
            assert!(steps < MOST_STEPS, "{}", self.show());
        }
        for host in [&self.pair.a, &self.pair.b] {
            let state = format!("{:?}", host.link).len();
            assert!(state < MOST_STATE, "{state}");
        }
        if self.fooled {
            return;
        }
        for &(a, b) in &self.ids {
            let Pair {
                a: ours, b: theirs, ..
            } = &mut self.pair;
            let ends = (&ours.events, &theirs.events);
            assert!(ends.0.contains(&Event::Closed(a)), "{ends:?}");
            assert!(ends.1.contains(&Event::Closed(b)), "{ends:?}");
            assert_eq!(theirs.rings.get(b).read, 1000 + BYTES, "{ends:?}");
            assert_eq!(ours.rings.get(a).read, 77 + BYTES, "{ends:?}");
        }
    }
}

/// The program reads all there is; what it is does not matter any more to one that is fooled.
fn read(host: &mut Host<Fixed>, now: Instant, id: Id, fooled: bool) {
    if fooled {
        let ring = host.rings.get(id);
        ring.read = ring.tail;
        host.link.has_read(now, id, ring.read);
    } else {
        host.read(now, id, u64::MAX);
    }
}

/// [X1] Why the packet was dropped, if it was; then it has changed nothing.
fn receive(
    host: &mut Host<Fixed>,
    take: impl FnOnce(&mut Host<Fixed>),
    payload: &[u8],
) -> Option<Dropped> {
    let before = (host.link.counters(), state(host));
    take(host);
    let after = (host.link.counters(), state(host));
    let counted = |why: &&Dropped| after.0.dropped(**why) > before.0.dropped(**why);
    let dropped = Dropped::ALL.iter().find(counted).copied();
    let is_open = Packet::parse(payload).is_ok_and(|packet| packet.header.kind == Kind::Open);
    match dropped {
        None => assert_eq!(after.0.packets_received, before.0.packets_received + 1),
        // [P2] It is acknowledged again. [C5] The host has heard that the ring is frozen.
        Some(Dropped::Again | Dropped::Frozen) => {}
        // [C1] It is refused.
        Some(Dropped::Offset) if is_open => {}
        Some(_) => assert_eq!(after.1, before.1, "{dropped:?}"),
    }
    dropped
}

/// All that a host knows, but for the counters.
fn state(host: &Host<Fixed>) -> String {
    let link = format!("{:?}", host.link);
    let (head, rest) = link
        .split_once("counters: LinkCounters {")
        .expect("counters");
    let (_, tail) = rest.split_once('}').expect("an end");
    let mut rings: Vec<_> = host.rings.0.iter().collect();
    rings.sort_by_key(|(id, _)| **id);
    let ends = |ring: &super::super::host::Ring| (ring.tail, ring.released, ring.read, ring.ended);
    let rings: Vec<_> = rings.iter().map(|(_, ring)| ends(ring)).collect();
    format!("{head}{tail}{rings:?}{:?}", host.events)
}
