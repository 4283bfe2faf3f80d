//! A peer that is confirmed can waste no more than the bounds of its link.

use std::time::Duration;

use netstack::link::Dropped;
use netstack::wire::{Header, Kind};

use super::victim::{CONNECTIONS, PACKETS, RING, Victim, offer, settles, terms};

const MS: Duration = Duration::from_millis(1);

/// Bytes of state: 8 connections, 8 paths of 64 packets, twice as many for control, and 256 that are lost (after
/// some minutes of probes: time passes quickly here).
const MOST_BYTES: usize = 1 << 18;

fn data(path: u8, token: u64, offset: u64) -> Header {
    Header {
        path,
        token,
        offset: offset as u32,
        ..Header::of(Kind::Data)
    }
}

/// [X2] Connections are the host's: so many, and no more, whatever the peer opens. Its refusals are few, too.
#[test]
fn connections() {
    let (mut victim, mut hostile) = Victim::met();
    for name in 0..CONNECTIONS.into() {
        assert!(victim.link.expect(&terms(name)).is_some());
    }
    assert_eq!(victim.link.expect(&terms(99)), None);
    assert_eq!(victim.link.open(victim.now, &terms(99)), None);
    settles(&mut victim, 2000, MOST_BYTES, |victim, round| {
        for name in 0..40 {
            let open = hostile.open(&offer(100 + round * 40 + name));
            assert_eq!(victim.hear(0, &open), Err(Dropped::Offset));
        }
        // [C1] An answer to 16 of them.
        let said = victim.say_all(100);
        let resets = said.iter().filter(|header| header.kind == Kind::Reset);
        assert!(resets.count() <= 16);
        victim.wait(&mut hostile, MS * 100, 0);
        assert_eq!(victim.link.connections(), CONNECTIONS as usize);
    });
}

/// [X2] [P3] Every second number is missing, on every path.
#[test]
fn ranges() {
    let (mut victim, mut hostile) = Victim::met();
    settles(&mut victim, 1000, MOST_BYTES, |victim, round| {
        for path in 0..8 {
            hostile.numbers[usize::from(path)] = round * 2;
            let header = Header {
                path,
                ..Header::of(Kind::Ping)
            };
            let ping = hostile.packet(header, &[], &[]);
            assert_eq!(victim.hear(path.into(), &ping), Ok(()));
        }
        victim.say_all(8);
    });
}

/// [X2] [C4] Every second byte is missing: 64 islands are kept, and the rest is not acknowledged.
#[test]
fn islands() {
    let (mut victim, mut hostile) = Victim::met();
    let ids: Vec<_> = (0..CONNECTIONS.into())
        .map(|name| victim.open(&mut hostile, name))
        .collect();
    settles(&mut victim, 6000, MOST_BYTES, |victim, round| {
        for id in &ids {
            let at = (1 + round * 2) % RING;
            let packet = hostile.packet(data(0, id.token(), at), &[0], &[]);
            let taken = victim.hear(0, &packet);
            let most = if round < 64 {
                Ok(())
            } else {
                Err(Dropped::Full)
            };
            assert_eq!(taken, most, "{round}");
        }
        victim.wait(&mut hostile, MS * 50, 0);
        victim.say_all(100);
    });
}

/// [X2] Nothing is ever acknowledged: so many packets are in flight, however much there is to say.
#[test]
fn packets_in_flight() {
    let (mut victim, mut hostile) = Victim::met();
    let id = victim.open(&mut hostile, 0);
    victim.link.has_data(victim.now, id, 1 << 29);
    settles(&mut victim, 4000, MOST_BYTES, |victim, _| {
        victim.say_all(2 * PACKETS + 20);
        let in_flight = victim.link.path(0).expect("a path").in_flight;
        assert!(in_flight <= (PACKETS as u64 + 4) * 1500, "{in_flight}");
        victim.wait(&mut hostile, MS * 50, 0);
    });
}

/// [X2] [C6] Only every second packet is acknowledged.
#[test]
fn holes() {
    let (mut victim, mut hostile) = Victim::met();
    let id = victim.open(&mut hostile, 0);
    victim.link.has_data(victim.now, id, 1 << 29);
    let mut next = 0;
    settles(&mut victim, 3000, MOST_BYTES, |victim, _| {
        let said = victim.say_all(2 * PACKETS + 20);
        let numbers = said.iter().filter(|header| header.kind.is_asking());
        next = numbers
            .map(|header| u64::from(header.number))
            .max()
            .unwrap_or(next);
        let odd = next.saturating_sub(1) | 1;
        let ranges: Vec<_> = (0..32)
            .map_while(|back| odd.checked_sub(2 * back))
            .map(|n| (n, n))
            .collect();
        let ack = hostile.packet(Header::of(Kind::Ack), &[], &ranges);
        victim.now = victim.now + MS;
        let _ = victim.hear(0, &ack);
    });
    assert!(next > 1000, "{next}");
}

/// [X2] [K5] [R8] It asks for credit on one path and then on another, and answers on none: a connection waits for
/// its turn once, wherever it is.
#[test]
fn turns() {
    let (mut victim, mut hostile) = Victim::met();
    let ids: Vec<_> = (0..CONNECTIONS.into())
        .map(|name| victim.open(&mut hostile, name))
        .collect();
    for id in &ids {
        victim.link.has_data(victim.now, *id, 1 << 29);
    }
    settles(&mut victim, 8000, MOST_BYTES, |victim, round| {
        for id in &ids {
            let path = (round % 8) as u8;
            let header = Header {
                kind: Kind::Credit,
                ask: true,
                ..data(path, id.token(), 0)
            };
            let question = hostile.packet(header, &[], &[]);
            let _ = victim.hear(path.into(), &question);
        }
        victim.say_all(20 * PACKETS);
        victim.wait(&mut hostile, MS / 5, (round % 8) as u8);
    });
}

/// [X2] [C9] Connections that end before their turn leave nothing behind.
#[test]
fn the_forgotten() {
    let (mut victim, mut hostile) = Victim::met();
    let first = victim.open(&mut hostile, 0);
    victim.link.has_data(victim.now, first, 1 << 29);
    settles(&mut victim, 2000, MOST_BYTES, |victim, round| {
        victim.say_all(2 * PACKETS + 20);
        let name = 1 + round;
        let id = victim.link.expect(&terms(name)).expect("room");
        let open = hostile.open(&offer(name));
        victim.hear(0, &open).expect("expected");
        victim.link.has_data(victim.now, id, 1000);
        let header = Header {
            kind: Kind::Reset,
            ..data(0, id.token(), 0)
        };
        let reset = hostile.packet(header, &[0, 16], &[]);
        victim.hear(0, &reset).expect("reset");
        victim.wait(&mut hostile, MS / 10, 0);
    });
}

/// [X2] [R8] Paths that have been left are asked again and again, and never answer.
#[test]
fn left_paths() {
    let (mut victim, mut hostile) = Victim::met();
    let id = victim.open(&mut hostile, 0);
    victim.link.has_data(victim.now, id, 1 << 29);
    settles(&mut victim, 4000, MOST_BYTES, |victim, _| {
        victim.say_all(2 * PACKETS + 20);
        victim.wait(&mut hostile, MS * 100, 0);
    });
    for path in 1..8 {
        let path = victim.link.path(path).expect("a path");
        assert!(path.is_left && path.in_flight < 1500, "{path:?}");
    }
}
