//! Packets that no honest peer sends, with all that a receiver checks first in order: they change nothing. Names are
//! such that connections are on the first path, where the packets come: the short way for what was to come is tried.

use netstack::link::{Dropped, Id};
use netstack::wire::body::Open;
use netstack::wire::{Header, Kind};

use super::hostile::Hostile;
use super::victim::{RING, Victim, offer};

fn of(kind: Kind, id: Id, offset: u64) -> Header {
    Header {
        token: id.token(),
        offset: offset as u32,
        credit: 1000,
        ..Header::of(kind)
    }
}

/// What the victim knows of its connections and has done with its rings.
fn state(victim: &Victim) -> String {
    let link = format!("{:?}", victim.link);
    let (_, connections) = link.split_once("table: ").expect("a table");
    let (connections, _) = connections.split_once("counters: ").expect("counters");
    // [W3] What lies beyond the tail counts for nothing.
    format!("{connections} {:?}", victim.rings.known)
}

/// The victim answers each of these so, and knows no more than before.
fn changes_nothing(
    victim: &mut Victim,
    hostile: &mut Hostile,
    packets: &[(Header, &[u8])],
    answer: Result<(), Dropped>,
) {
    for (header, body) in packets {
        let before = state(victim);
        let packet = hostile.packet(*header, body, &[]);
        assert_eq!(victim.hear(0, &packet), answer, "{header:?}");
        assert_eq!(state(victim), before, "{header:?}");
    }
}

/// All that can be said to a connection, but for ACCEPT.
fn everything(id: Id) -> [(Header, &'static [u8]); 5] {
    [
        (of(Kind::Data, id, 0), &[1; 10]),
        (of(Kind::Data, id, 10), &[1; 10]),
        (of(Kind::Credit, id, 0), &[]),
        (of(Kind::Close, id, 0), &[]),
        (of(Kind::Reset, id, 0), &[0, 16]),
    ]
}

/// [C2] [C8] [F29] Packets of a promotion that is over, for the next one in the same place, and of one that never was.
#[test]
fn late_ones_of_an_earlier_promotion() {
    let (mut victim, mut hostile) = Victim::met();
    let first = victim.open(&mut hostile, 8);
    let reset = hostile.packet(of(Kind::Reset, first, 0), &[0, 16], &[]);
    victim.hear(0, &reset).expect("reset");
    let second = victim.open(&mut hostile, 16);
    assert_eq!(second.index(), first.index());
    victim.link.has_data(victim.now, second, 100);
    victim.say_all(10);
    changes_nothing(&mut victim, &mut hostile, &everything(first), Ok(()));
    let accept = Open {
        credit: 5,
        ..offer(8)
    };
    let before = state(&victim);
    let accept = hostile.accept(first.token(), &accept);
    assert_eq!(victim.hear(0, &accept), Ok(()));
    assert_eq!(state(&victim), before);
    // Never given out: the next generation.
    for (header, body) in everything(second) {
        let header = Header {
            token: header.token + (1 << 32),
            ..header
        };
        changes_nothing(
            &mut victim,
            &mut hostile,
            &[(header, body)],
            Err(Dropped::Token),
        );
    }
    // It is there, and well.
    let data = hostile.packet(of(Kind::Data, second, 0), &[1; 10], &[]);
    assert_eq!(victim.hear(0, &data), Ok(()));
    assert_eq!(victim.rings.placed, 10);
}

/// [C4] [K2] Bytes beyond the credit: next, or later; also if they begin within it.
#[test]
fn bytes_beyond_the_credit() {
    let (mut victim, mut hostile) = Victim::met();
    let id = victim.open(&mut hostile, 8);
    for offset in (0..RING - 1000).step_by(1000) {
        let data = hostile.packet(of(Kind::Data, id, offset), &[1; 1000], &[]);
        assert_eq!(victim.hear(0, &data), Ok(()));
    }
    let placed = victim.rings.placed;
    let room = (RING - placed) as usize;
    assert!((1..1000).contains(&room));
    let body = [1; 1001];
    let lies: [(Header, &[u8]); 4] = [
        (of(Kind::Data, id, placed), &body[..room + 1]),
        (of(Kind::Data, id, RING - 1), &[1; 2]),
        (of(Kind::Data, id, RING), &[1; 1]),
        (of(Kind::Data, id, RING + (1 << 20)), &[1; 1]),
    ];
    changes_nothing(&mut victim, &mut hostile, &lies, Err(Dropped::Offset));
    let rest = hostile.packet(of(Kind::Data, id, placed), &body[..room], &[]);
    assert_eq!(victim.hear(0, &rest), Ok(()));
}

/// [C7] Another end, one before what is there, one beyond the credit, and bytes beyond the end.
#[test]
fn ends_that_cannot_be() {
    let (mut victim, mut hostile) = Victim::met();
    let id = victim.open(&mut hostile, 8);
    for (offset, length) in [(0, 100), (200, 100)] {
        let data = hostile.packet(of(Kind::Data, id, offset), &vec![1; length], &[]);
        assert_eq!(victim.hear(0, &data), Ok(()));
    }
    let ends = [99, 150, 299, RING + 1];
    let lies = ends.map(|end| (of(Kind::Close, id, end), &[][..]));
    changes_nothing(&mut victim, &mut hostile, &lies, Err(Dropped::Offset));
    let close = hostile.packet(of(Kind::Close, id, 400), &[], &[]);
    assert_eq!(victim.hear(0, &close), Ok(()));
    let lies: [(Header, &[u8]); 4] = [
        (of(Kind::Close, id, 399), &[]),
        (of(Kind::Close, id, 401), &[]),
        (of(Kind::Data, id, 400), &[1; 1]),
        (of(Kind::Data, id, 350), &[1; 51]),
    ];
    changes_nothing(&mut victim, &mut hostile, &lies, Err(Dropped::Offset));
}

/// [P6] An acknowledgement of what was not sent: nothing of the packet counts, whatever else it says.
#[test]
fn acknowledgements_of_what_was_not_sent() {
    let (mut victim, mut hostile) = Victim::met();
    let id = victim.open(&mut hostile, 8);
    victim.link.has_data(victim.now, id, 100);
    let said = victim.say_all(10);
    let sent = said.iter().map(|header| u64::from(header.number)).max();
    let next = sent.expect("bytes") + 1;
    for numbers in [
        (next, next),
        (0, next),
        (next + (1 << 30), next + (1 << 30)),
    ] {
        for (header, body) in [
            (Header::of(Kind::Ack), &[][..]),
            (of(Kind::Data, id, 0), &[1; 10]),
        ] {
            let before = state(&victim);
            let packet = hostile.packet(header, body, &[numbers]);
            assert_eq!(victim.hear(0, &packet), Err(Dropped::Acknowledgement));
            assert_eq!(state(&victim), before);
        }
    }
}

/// [C8] Numbers that were used: nothing happens twice, however often it comes. [P2] Nor if it is so old that it is
/// not known any more.
#[test]
fn what_was_here_before() {
    let (mut victim, mut hostile) = Victim::met();
    let id = victim.open(&mut hostile, 8);
    let first = hostile.numbers[0];
    let open = hostile.packet(of(Kind::Credit, id, 0), &[], &[]);
    assert_eq!(victim.hear(0, &open), Ok(()));
    // Every second number is missing, until the first are forgotten.
    for gap in 1..100 {
        for number in [first, first - 1] {
            hostile.numbers[0] = number;
            let again = (of(Kind::Data, id, 0), &[1; 10][..]);
            changes_nothing(&mut victim, &mut hostile, &[again], Err(Dropped::Again));
        }
        hostile.numbers[0] = first + 2 * gap;
        let ping = hostile.packet(Header::of(Kind::Ping), &[], &[]);
        assert_eq!(victim.hear(0, &ping), Ok(()));
    }
}
