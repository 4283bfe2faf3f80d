//! Two hosts without a network: each packet is looked at before it arrives, or does not.

use std::time::Duration;

use netstack::link::window::Fixed;
use netstack::link::{reason, Arrival, Dropped, Event, Id, Terms, Why};
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

// [H1]
#[test]
fn hello_is_repeated_and_then_given_up() {
    let mut duo = Duo::new();
    let start = duo.now;
    duo.open(&TERMS);
    let mut at = Vec::new();
    while let Some(next) = duo.a.link.deadline() {
        duo.now = duo.now.max(next);
        while let Some(packet) = say(&mut duo.a, duo.now) {
            assert_eq!(header(&packet).kind, Kind::Hello);
            at.push((duo.now - start).as_millis());
        }
    }
    assert_eq!(at, [0, 20, 60, 140, 300, 620, 1260, 2260, 3260, 4260]);
    assert_eq!(duo.now - start, 5000 * MS);
    let events: Vec<Event> = std::iter::from_fn(|| duo.a.link.event()).collect();
    assert_eq!(events.last(), Some(&Event::Dead(Why::Silence)));
}

// [H2] [X3]
#[test]
fn a_hello_is_answered_and_forgotten() {
    let mut duo = Duo::new();
    duo.open(&TERMS);
    let hello = say(&mut duo.a, duo.now).unwrap();
    let before = format!("{:?}", duo.b.link).replace("packets_received: 0", "");
    for _ in 0..3 {
        assert_eq!(hear(&mut duo.b, duo.now, &hello), Ok(()));
    }
    let welcome = say(&mut duo.b, duo.now).unwrap();
    assert_eq!(header(&welcome).kind, Kind::Welcome);
    assert!(welcome.len() <= hello.len());
    assert_eq!(say(&mut duo.b, duo.now), None);
    assert!(!duo.b.link.is_up() && duo.b.link.deadline().is_none());
    let sent = format!("packets_sent: 1, bytes_sent: {}", welcome.len());
    let after = format!("{:?}", duo.b.link)
        .replace("packets_received: 3", "")
        .replace(&sent, "packets_sent: 0, bytes_sent: 0");
    assert_eq!(after, before);
}

// [H3]
#[test]
fn only_the_answer_to_our_hello_counts() {
    let mut duo = Duo::new();
    duo.open(&TERMS);
    let hello = say(&mut duo.a, duo.now).unwrap();
    hear(&mut duo.b, duo.now, &hello).unwrap();
    let welcome = say(&mut duo.b, duo.now).unwrap();
    // One that answers somebody else.
    let mut other = Duo::new();
    other.a = Host::new(1, 2, 77, Fixed::new(1 << 20), |config| {
        config.identity.tag = header(&welcome).tag;
    });
    other.open(&TERMS);
    say(&mut other.a, duo.now).unwrap();
    assert_eq!(
        hear(&mut other.a, duo.now, &welcome),
        Err(Dropped::Handshake)
    );
    assert_eq!(hear(&mut duo.a, duo.now, &welcome), Ok(()));
    assert!(duo.a.link.is_up());
    assert_eq!(hear(&mut duo.a, duo.now, &welcome), Err(Dropped::Handshake));
}

// [H3]
#[test]
fn a_lost_confirm_is_said_again() {
    let mut duo = Duo::new();
    let b = duo.expect(&TERMS);
    duo.open(&TERMS);
    let mut confirms = 0;
    for _ in 0..50 {
        duo.exchange(|_, packet| {
            let confirm = header(packet).kind == Kind::Confirm;
            confirms += u32::from(confirm);
            !confirm || confirms > 2
        });
    }
    assert_eq!(confirms, 3);
    assert!(duo.b.events.contains(&Event::Open(b)));
}

// [H5]
#[test]
fn both_say_hello_at_once() {
    let mut duo = Duo::new();
    let b = duo.expect(&TERMS);
    let a = duo.open(&TERMS);
    let back = Terms { name: 8, ..TERMS };
    let to_a = duo.a.link.expect(&back).unwrap();
    duo.a.adopt(to_a, &back);
    let from_b = duo.b.link.open(duo.now, &back).unwrap();
    duo.b.adopt(from_b, &back);
    let hellos = [say(&mut duo.a, duo.now), say(&mut duo.b, duo.now)].map(Option::unwrap);
    hear(&mut duo.b, duo.now, &hellos[0]).unwrap();
    hear(&mut duo.a, duo.now, &hellos[1]).unwrap();
    for _ in 0..20 {
        duo.exchange(|_, _| true);
    }
    for (host, ids) in [(&duo.a, [a, to_a]), (&duo.b, [b, from_b])] {
        let open = |id: &Id| host.events.contains(&Event::Open(*id));
        assert!(ids.iter().all(open), "{:?}", host.events);
        let ups = host.events.iter().filter(|event| **event == Event::Up);
        assert_eq!((ups.count(), host.events.len()), (1, 3));
    }
}

// [H6] [H7]
#[test]
fn bye_ends_all() {
    let (mut duo, a, b) = Duo::connected();
    duo.a.write(duo.now, a, 100);
    duo.all();
    duo.a.link.bye();
    let bye = say(&mut duo.a, duo.now).unwrap();
    assert_eq!(header(&bye).kind, Kind::Bye);
    hear(&mut duo.b, duo.now, &bye).unwrap();
    let [.., lost, dead] = &duo.b.events[..] else {
        panic!("{:?}", duo.b.events);
    };
    assert!(matches!(lost, Event::Lost { id, score } if *id == b && score.placed == 100));
    assert_eq!(dead, &Event::Dead(Why::Bye));
    assert!(!duo.a.link.is_up() && !duo.b.link.is_up());
    assert_eq!(hear(&mut duo.b, duo.now, &bye), Err(Dropped::Tag));
}

// [C2]
#[test]
fn a_token_is_never_used_twice() {
    let (mut duo, first, _) = Duo::connected();
    duo.a.reset(duo.now, first, 16);
    duo.all();
    let mut tokens = vec![first.token()];
    for name in 10..20 {
        let id = duo.open(&Terms { name, ..TERMS });
        assert_eq!(id.index(), first.index());
        tokens.push(id.token());
        duo.a.reset(duo.now, id, 16);
        duo.all();
    }
    tokens.dedup();
    assert_eq!(tokens.len(), 11);
    let mut sorted = tokens.clone();
    sorted.sort_unstable();
    assert_eq!(sorted, tokens);
}

// [C3]
#[test]
fn ends_that_disagree_are_reset() {
    for wrong in [
        Terms {
            send_from: 1,
            ..TERMS
        },
        Terms {
            receive_from: 1,
            ..TERMS
        },
    ] {
        let mut duo = Duo::new();
        duo.expect(&wrong);
        let a = duo.open(&TERMS);
        duo.all();
        let is_reset = |event: &Event| {
            matches!(event, Event::Reset { id, reason, .. }
                if *id == a && *reason == reason::DISAGREEMENT)
        };
        assert!(duo.a.events.iter().any(is_reset), "{:?}", duo.a.events);
        let opened = |event: &Event| matches!(event, Event::Open(_));
        assert!(!duo.b.events.iter().any(opened), "{:?}", duo.b.events);
    }
}

// [C10] [S2]
#[test]
fn one_that_is_stuck_holds_up_nobody() {
    let (mut duo, stuck, _) = Duo::connected();
    let terms = Terms { name: 8, ..TERMS };
    let b = duo.expect(&terms);
    let a = duo.open(&terms);
    duo.all();
    // Nobody reads the one, and of the other the first packet is lost.
    duo.a.write(duo.now, stuck, 10 * RING);
    duo.all();
    duo.a.write(duo.now, a, 3000);
    duo.a.write(duo.now, stuck, 100);
    let mut first = true;
    for _ in 0..10 {
        duo.exchange(|to_b, packet| {
            let data = to_b && header(packet).kind == Kind::Data;
            !data || !std::mem::take(&mut first)
        });
        duo.b.read(duo.now, b, u64::MAX);
    }
    assert_eq!(duo.b.rings.get(b).read, 3000);
}

// [S2] [S3] [P1]
#[test]
fn connections_take_turns() {
    let (mut duo, bulk, _) = Duo::connected();
    let terms = Terms { name: 8, ..TERMS };
    duo.expect(&terms);
    let small = duo.open(&terms);
    duo.all();
    duo.a.write(duo.now, bulk, RING);
    let first = header(&say(&mut duo.a, duo.now).unwrap());
    duo.a.write(duo.now, small, 10);
    let second = header(&say(&mut duo.a, duo.now).unwrap());
    let third = header(&say(&mut duo.a, duo.now).unwrap());
    assert_eq!([first.kind, second.kind, third.kind], [Kind::Data; 3]);
    assert_ne!(first.token, second.token);
    assert_eq!(first.token, third.token);
    assert_eq!(
        [second.number, third.number],
        [first.number + 1, first.number + 2]
    );
}

// [P1]
#[test]
fn numbers_are_never_used_again() {
    let (mut duo, a, b) = Duo::connected();
    duo.a.write(duo.now, a, 5000);
    let (mut count, mut numbers) = (0, Vec::new());
    for _ in 0..20 {
        duo.exchange(|to_b, packet| {
            let header = header(packet);
            if !header.kind.is_asking() {
                assert_eq!(header.number, 0);
            } else if to_b {
                numbers.push(header.number);
            }
            count += 1;
            count % 3 != 0
        });
        duo.b.read(duo.now, b, u64::MAX);
    }
    assert_eq!(duo.b.rings.get(b).read, 5000);
    assert!(duo.a.link.counters().bytes_again > 0);
    assert!(numbers.windows(2).all(|pair| pair[1] == pair[0] + 1));
}

// [P5] [P4]
#[test]
fn the_delay_is_the_time_in_the_host() {
    let (mut duo, a, _) = Duo::connected();
    duo.a.write(duo.now, a, 100);
    let data = say(&mut duo.a, duo.now).unwrap();
    hear(&mut duo.b, duo.now, &data).unwrap();
    assert_eq!(say(&mut duo.b, duo.now + 24 * US), None);
    let ack = say(&mut duo.b, duo.now + 25 * US).unwrap();
    let ack = Packet::parse(&ack).unwrap().ack.unwrap();
    assert_eq!(ack.delay, 25 * US);
    assert_eq!(ack.largest, header(&data).number);
}

// [P7] [C5]
#[test]
fn what_is_not_in_the_ring_is_not_acknowledged() {
    let (mut duo, a, b) = Duo::connected();
    duo.b.rings.get(b).frozen = true;
    duo.a.write(duo.now, a, 100);
    for _ in 0..5 {
        duo.all();
    }
    assert_eq!(duo.a.rings.get(a).released, 0);
    assert_eq!(duo.b.rings.get(b).tail, 0);
}

// [K1] [K3]
#[test]
fn data_carries_the_credit_of_the_other_direction() {
    let (mut duo, a, b) = Duo::connected();
    duo.a.write(duo.now, a, 1000);
    duo.all();
    duo.b.read(duo.now, b, 600);
    duo.b.write(duo.now, b, 10);
    let seen = duo.all();
    let data = seen.iter().find(|(_, header)| header.kind == Kind::Data);
    assert_eq!(data.unwrap().1.credit, 600 + RING as u32);
}

// [K1] [K4]
#[test]
fn half_of_a_ring_is_worth_a_packet() {
    let (mut duo, a, b) = Duo::connected();
    duo.a.write(duo.now, a, RING - 100);
    duo.all();
    let credits = |seen: &[(bool, Header)]| -> Vec<u32> {
        let credit = seen
            .iter()
            .filter(|(to_b, header)| !to_b && header.kind == Kind::Credit);
        credit.map(|(_, header)| header.credit).collect()
    };
    duo.b.read(duo.now, b, RING / 2 - 1);
    assert!(credits(&duo.all()).is_empty());
    duo.b.read(duo.now, b, 1);
    assert_eq!(credits(&duo.all()), [RING as u32 / 2 * 3]);
}

// [K4] It is lost; it goes again, with the newest value.
#[test]
fn lost_credit_goes_again() {
    let (mut duo, a, b) = Duo::connected();
    duo.a.write(duo.now, a, RING);
    duo.all();
    duo.b.read(duo.now, b, RING / 2);
    let mut credits = Vec::new();
    let mut see = |arrives: bool, duo: &mut Duo| {
        for _ in 0..10 {
            duo.exchange(|to_b, packet| {
                let header = header(packet);
                let credit = !to_b && header.kind == Kind::Credit;
                if credit {
                    credits.push(header.credit);
                }
                to_b || arrives
            });
        }
    };
    see(false, &mut duo);
    duo.b.read(duo.now, b, 10);
    see(true, &mut duo);
    assert!(credits.len() > 1, "{credits:?}");
    assert_eq!(credits.last(), Some(&(RING as u32 / 2 * 3 + 10)));
}

// [K5] [K2]
#[test]
fn who_has_no_credit_asks() {
    let (mut duo, a, b) = Duo::connected();
    duo.a.write(duo.now, a, RING + 1);
    let mut asked = Vec::new();
    for _ in 0..50 {
        for (to_b, header) in duo.all() {
            let question = to_b && header.kind == Kind::Credit && header.ask;
            if question {
                asked.push(duo.now);
            }
            assert!(!to_b || header.kind != Kind::Data || u64::from(header.offset) < RING);
        }
    }
    assert!((3..10).contains(&asked.len()), "{asked:?}");
    let pauses: Vec<Duration> = asked.windows(2).map(|pair| pair[1] - pair[0]).collect();
    assert!(
        pauses.windows(2).all(|pair| pair[1] >= pair[0]),
        "{pauses:?}"
    );
    duo.b.read(duo.now, b, u64::MAX);
    duo.all();
    assert_eq!(duo.b.rings.get(b).tail, RING + 1);
}

// [C7]
#[test]
fn the_end_may_overtake_bytes() {
    let (mut duo, a, b) = Duo::connected();
    duo.a.write(duo.now, a, 100);
    duo.a.link.close(duo.now, a);
    let data = say(&mut duo.a, duo.now).unwrap();
    let close = say(&mut duo.a, duo.now).unwrap();
    assert_eq!(header(&close).kind, Kind::Close);
    assert_eq!(header(&close).offset, 100);
    hear(&mut duo.b, duo.now, &close).unwrap();
    assert!(!duo.b.events.contains(&Event::Ended(b)));
    hear(&mut duo.b, duo.now, &data).unwrap();
    assert_eq!(duo.b.events.last(), Some(&Event::Ended(b)));
    assert_eq!(duo.b.rings.get(b).tail, 100);
}

// [R2] [R3]
#[test]
fn three_later_ones_prove_a_loss() {
    let (mut duo, a, b) = Duo::connected();
    for _ in 0..5 {
        duo.a.write(duo.now, a, 100);
    }
    let mut seen = Vec::new();
    duo.a.write(duo.now, a, 5000);
    duo.exchange(|to_b, packet| {
        let data = to_b && header(packet).kind == Kind::Data;
        if data {
            seen.push(header(packet).offset);
        }
        !data || seen.len() != 1
    });
    let counters = duo.a.link.counters();
    assert_eq!((counters.packets_lost, counters.probes), (1, 0));
    // The bytes of the first, under another number.
    assert_eq!(seen.iter().filter(|&&offset| offset == 0).count(), 2);
    assert_eq!(duo.b.rings.get(b).tail, 5500);
}

// [R4]
#[test]
fn silence_is_answered_by_a_probe() {
    let (mut duo, a, _) = Duo::connected();
    duo.a.write(duo.now, a, 100);
    let sent = duo.now;
    assert!(!header(&say(&mut duo.a, sent).unwrap()).ask);
    let rtt = *duo.a.link.path(0).unwrap().rtt;
    let time = rtt.smoothed() + 4 * rtt.variation() + 25 * US;
    let at = duo.a.link.deadline().unwrap();
    assert_eq!(at - sent, time.max(100 * US));
    let probe = header(&say(&mut duo.a, at).unwrap());
    assert_eq!((probe.kind, probe.ask), (Kind::Data, true));
    let next = duo.a.link.deadline().unwrap();
    assert_eq!(next - at, 2 * time.max(100 * US));
}

// [G6] [G1]
#[test]
fn no_more_is_in_flight_than_the_window() {
    let (mut duo, a, _) = Duo::connected();
    let mut small = Duo::new();
    let host = |me, peer| Host::new(me, peer, me.into(), Fixed::new(3000), |_| {});
    (small.a, small.b, small.now) = (host(1, 2), host(2, 1), duo.now);
    small.expect(&TERMS);
    let id = small.open(&TERMS);
    small.all();
    for (duo, id, most) in [(&mut duo, a, RING + 1000), (&mut small, id, 3000)] {
        duo.a.write(duo.now, id, RING);
        while say(&mut duo.a, duo.now).is_some() {}
        let in_flight = duo.a.link.path(0).unwrap().in_flight;
        assert!(in_flight <= most && in_flight + 1500 > most.min(RING));
    }
}
