//! Members that say anything at all: the others go on.

use std::collections::HashSet;
use std::time::Duration;

use ulsock_native::group::{Event, Group, Options};
use ulsock_native::message::{Endpoint, Peer};
use ulsock_native::names::Names;

use super::common::run;
use super::help::{members, next, service};

/// The handler of members' words.
const HANDLER: u16 = 0xff20;

/// Numbers by chance, the same in each run.
struct Chance(u64);

impl Chance {
    fn next(&mut self, below: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005);
        self.0 = self.0.wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % below
    }

    fn position(&mut self) -> u64 {
        match self.next(4) {
            0 => 0,
            1 => 8 * self.next(1 << 12),
            2 => 8 * self.next(1 << 30),
            _ => (1 << 62) - 8 * (1 + self.next(4)),
        }
    }

    fn ticket(&mut self) -> Vec<u8> {
        (0..TICKET).map(|_| self.next(256) as u8).collect()
    }

    /// Something that a member could say.
    fn word(&mut self, numbers: &[u32]) -> Vec<u8> {
        let kind = 1 + self.next(9) as u8;
        self.word_of(kind, numbers)
    }

    fn word_of(&mut self, kind: u8, numbers: &[u32]) -> Vec<u8> {
        let number = numbers[self.next(numbers.len() as u64) as usize].to_le_bytes();
        let mut word = vec![kind];
        match kind {
            1 => word.push(self.next(2) as u8),
            2 => {
                word.extend(self.position().to_le_bytes());
                word.extend(self.position().to_le_bytes());
                if self.next(2) == 0 {
                    word.extend(number);
                }
            }
            3 | 8 => word.extend(self.position().to_le_bytes()),
            4 => {
                word.extend(self.position().to_le_bytes());
                word.extend(vec![self.next(256) as u8; 8 * (1 + self.next(64) as usize)]);
            }
            5 | 9 => word.extend(number),
            6 => {
                word.extend(number);
                word.extend(self.ticket());
            }
            _ => {}
        }
        word
    }
}

/// Bytes of a ticket.
const TICKET: usize = 28;

fn hello(number: u32, ring: u64, chance: &mut Chance) -> Vec<u8> {
    let mut word = vec![0];
    word.extend(1_u16.to_le_bytes());
    word.extend(number.to_le_bytes());
    word.extend(ring.to_le_bytes());
    word.extend((chance.next(300) as u16).to_le_bytes());
    if chance.next(2) == 0 {
        word.extend(chance.ticket());
    }
    word
}

async fn say(peer: &Peer, turn: u64, word: &[u8]) -> bool {
    let bytes = [&turn.to_le_bytes()[..], word].concat();
    peer.send(HANDLER, &bytes).await.is_ok()
}

#[test]
fn members_that_say_anything() {
    let service = service();
    let mut all = members(&service, 2, Options::default());
    let names = Names::open().expect("names");
    let places = names.range(&service, 0..=u32::MAX).expect("places");
    let mut chance = Chance(7);
    for round in 0..200_u32 {
        // Lower than those of the others, who wait for its hello then.
        let number = round + 1;
        let endpoint = Endpoint::bind("127.0.0.1:0").expect("an endpoint");
        let address = endpoint.local_addr().expect("an address");
        let _name = names.register(&service, number, address).expect("a name");
        let place = places[round as usize % 2];
        run(async {
            let peer = endpoint.connect(place.address).await.expect("a peer");
            let mut numbers = vec![number, 77];
            numbers.extend(places.iter().map(|place| place.instance));
            let ring = 4096 << chance.next(4);
            let first = match chance.next(8) {
                0 => chance.word(&numbers),
                _ => hello(number, ring, &mut chance),
            };
            let mut goes_on = say(&peer, 0, &first).await;
            // By then names have told of it.
            std::thread::sleep(Duration::from_millis(chance.next(8)));
            if chance.next(4) > 0 {
                goes_on = goes_on && say(&peer, 1, &[1, 0]).await;
            }
            let mut turn = if chance.next(8) == 0 { 1 } else { 2 };
            while goes_on && turn < 30 {
                let word = match turn == 2 && chance.next(2) == 0 {
                    true => chance.word_of(2, &numbers),
                    false => chance.word(&numbers),
                };
                goes_on = say(&peer, turn, &word).await;
                turn += 1;
            }
            // Nothing is extracted: an answer would be that there is no handler.
            std::thread::sleep(Duration::from_millis(5));
        });
    }
    await_ends_of_others(&mut all);
}

/// The two still have each other, and all who have joined meanwhile are over.
fn await_ends_of_others(all: &mut [Group]) {
    for (from, to) in [(0, 1), (1, 0)] {
        let number = all[from].number();
        all[from].send(b"hello").expect("sent");
        let (mut there, mut has_come) = (HashSet::new(), false);
        let mut room = [0; 100_000];
        while !(has_come && there.is_empty()) {
            match next(&mut all[to], &mut room) {
                Event::Joined(member) => assert!(there.insert(member.number)),
                Event::Left(member) | Event::Failed(member) => {
                    assert!(there.remove(&member.number));
                }
                Event::Message { from, len } if from.number == number => {
                    assert_eq!(room[..len], *b"hello");
                    has_come = true;
                }
                Event::Message { .. } => {}
            }
        }
        while all[to].members().len() > 1 {
            let event = all[to].recv_within(Duration::from_millis(1), &mut room);
            assert_eq!(event.expect("no error"), None);
        }
    }
}
