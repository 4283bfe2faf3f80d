use super::slot::words_of;
use super::*;
use crate::mailbox::{Mailbox, MailboxName};
use crate::rundir::scratch::{Random, Scratch};
use proptest::prelude::*;
use std::net::{IpAddr, SocketAddr};

/// No process has it: beyond the kernel's largest pid.
const NOBODY: u32 = (1 << 22) + 1;

fn key(port: u16) -> Key {
    Key::new(
        9,
        SocketAddr::from(([127, 0, 0, 1], port)),
        SocketAddr::from(([127, 0, 0, 1], 80)),
    )
    .unwrap()
}

fn offer(port: u16) -> Offer {
    Offer {
        key: key(port),
        cookie: u64::from(port) + 1000,
        mailbox: MailboxName {
            pid: NOBODY,
            random: 5,
        },
        pid: std::process::id(),
    }
}

/// Offers that all begin at the same slot.
fn crowd(count: usize) -> Vec<Offer> {
    let keys = (0..).map(|netns| {
        let end = SocketAddr::from(([10, 0, 0, 1], 1));
        Key::new(netns, end, end).unwrap()
    });
    keys.filter(|key| start_of(key) == 100)
        .take(count)
        .map(|key| Offer { key, ..offer(1) })
        .collect()
}

/// Publishes as a process that then died.
fn publish_dead(table: &OffersTable, dir: &RunDir, offer: &Offer) {
    let id = table.publish(dir, offer).unwrap();
    let head = Head(u64::from(NOBODY) << 32 | id.head.0 & u64::from(u32::MAX));
    assert!(table.write(id.index, &offer.encode(head)));
}

#[test]
fn published_offers_are_found_until_withdrawn() {
    let dir = Scratch::new();
    let table = OffersTable::own(&dir).unwrap();
    let twin = OffersTable::own(&dir).unwrap();
    let foreign = ForeignTable::open(&dir, geteuid().as_raw()).unwrap();
    assert_eq!(dir.names().len(), 1, "and no litter");
    assert_eq!((twin.find(&key(7)), foreign.find(&key(7))), (None, None));
    let id = table.publish(&dir, &offer(7)).unwrap();
    assert_eq!(twin.find(&key(7)), Some(offer(7)));
    assert_eq!(foreign.find(&key(7)), Some(offer(7)));
    assert_eq!(foreign.find(&key(8)), None);

    let again = Offer {
        cookie: 1,
        ..offer(7)
    };
    let newer = table.publish(&dir, &again).unwrap();
    table.withdraw(id);
    assert_eq!(foreign.find(&key(7)), Some(again), "only the newest counts");
    table.withdraw(newer);
    assert_eq!((twin.find(&key(7)), foreign.find(&key(7))), (None, None));
}

#[test]
fn a_full_window_takes_from_the_dead_only() {
    let dir = Scratch::new();
    let table = OffersTable::own(&dir).unwrap();
    let offers = crowd(WINDOW + 2);
    publish_dead(&table, &dir, &offers[0]);
    for offer in &offers[1..WINDOW] {
        table.publish(&dir, offer).unwrap();
    }
    table.publish(&dir, &offers[WINDOW]).unwrap();
    assert_eq!(table.find(&offers[0].key), None);
    assert_eq!(
        table.publish(&dir, &offers[WINDOW + 1]).unwrap_err(),
        TableFull
    );
    let foreign = ForeignTable::open(&dir, geteuid().as_raw()).unwrap();
    for offer in &offers[1..=WINDOW] {
        assert_eq!(foreign.find(&offer.key), Some(*offer));
    }
}

#[test]
fn sweeping_spares_the_living_of_other_pid_namespaces() {
    let dir = Scratch::new();
    let table = OffersTable::own(&dir).unwrap();
    let mailbox = Mailbox::create(&dir).unwrap();
    let elsewhere = Offer {
        mailbox: mailbox.name(),
        ..offer(2)
    };
    table.publish(&dir, &offer(1)).unwrap();
    publish_dead(&table, &dir, &elsewhere);
    publish_dead(&table, &dir, &offer(3));
    table.sweep(&dir);
    assert!(table.find(&key(1)).is_some());
    assert!(table.find(&key(2)).is_some(), "its mailbox's lock is held");
    assert!(table.find(&key(3)).is_none());
    drop(mailbox);
    table.sweep(&dir);
    assert!(table.find(&key(2)).is_none());
}

#[test]
fn nonsense_is_no_offer_and_makes_room() {
    let dir = Scratch::new();
    let table = OffersTable::own(&dir).unwrap();
    let id = table.publish(&dir, &offer(1)).unwrap();
    let state = || Head(table.read(id.index).unwrap()[0]).state();
    assert!(table.write(id.index, &[id.head.with(State::Nonsense).0]));
    assert_eq!(table.find(&key(1)), None);
    table.sweep(&dir);
    assert_eq!(state(), State::Free, "whoever runs by its pid");
    for offer in crowd(WINDOW) {
        let id = table.publish(&dir, &offer).unwrap();
        assert!(table.write(id.index, &[3, 5]));
    }
    assert!(table.publish(&dir, &crowd(1)[0]).is_ok());
}

#[test]
fn a_sweep_costs_no_more_than_it_must() {
    let dir = Scratch::new();
    let table = OffersTable::own(&dir).unwrap();
    let used = || {
        let (mut seen, mut used) = (0, 0);
        file::each_used(&table.fd, |_, words| {
            seen += 1;
            used += usize::from(words[0] != 0);
        });
        (seen, used)
    };
    assert_eq!(used(), (0, 0), "all holes");
    for index in [5, SLOTS / 2, SLOTS - 1] {
        assert!(table.write(index, &[3]));
    }
    let (seen, found) = used();
    assert!(seen < SLOTS / 16 && found == 3, "{seen} {found}");
    for index in 0..MOST_SWEPT + 10 {
        assert!(table.write(index, &[3]));
    }
    table.sweep(&dir);
    assert_eq!(used().1, 12, "the rest is another's to sweep");
    table.sweep(&dir);
    assert_eq!(used().1, 0);
}

#[test]
fn a_table_that_is_cut_off_is_made_whole() {
    let dir = Scratch::new();
    let path = dir.path.join(format!("offers.{}", geteuid().as_raw()));
    let cut = |len| {
        let file = std::fs::File::options().write(true).open(&path).unwrap();
        file.set_len(len).unwrap();
    };
    let table = OffersTable::own(&dir).unwrap();
    for len in [0, 5, 100, 4096, SIZE as u64 - 1, 3 * SIZE as u64] {
        let id = table.publish(&dir, &offer(7)).unwrap();
        cut(len);
        table.find(&key(7));
        table.withdraw(id);
        table.sweep(&dir);
        assert!(table.publish(&dir, &offer(7)).is_ok(), "{len}");
        assert!(OffersTable::own(&dir).is_ok() || len == 5, "{len}");
        let foreign = ForeignTable::open(&dir, geteuid().as_raw());
        assert_eq!(foreign.unwrap().find(&key(7)), Some(offer(7)), "{len}");
    }
}

/// As by somebody who cleans up: whoever has the old one open notices, and finds what is offered in the new one.
#[test]
fn a_table_that_was_removed_is_noticed() {
    let dir = Scratch::new();
    let old = OffersTable::own(&dir).unwrap();
    let foreign = ForeignTable::open(&dir, geteuid().as_raw()).unwrap();
    assert!(!old.is_removed() && !foreign.is_removed());
    dir.remove(&format!("offers.{}", geteuid().as_raw()));
    assert!(old.is_removed() && foreign.is_removed());
    let new = OffersTable::own(&dir).unwrap();
    new.publish(&dir, &offer(1)).unwrap();
    assert!(!new.is_removed() && foreign.find(&key(1)).is_none());
}

#[test]
fn other_peoples_files_are_refused() {
    let dir = Scratch::new();
    let uid = geteuid().as_raw();
    let path = dir.path.join(format!("offers.{uid}"));
    std::fs::write(&path, "short").unwrap();
    assert_eq!(OffersTable::own(&dir).unwrap_err(), TableError::Format);
    std::fs::hard_link(&path, dir.path.join("link")).unwrap();
    assert_eq!(OffersTable::own(&dir).unwrap_err(), TableError::Stranger);
    let other = dir.path.join(format!("offers.{}", uid + 1));
    std::fs::write(other, "").unwrap();
    assert_eq!(
        ForeignTable::open(&dir, uid + 1).unwrap_err(),
        TableError::Stranger
    );
}

#[test]
fn a_mapped_and_a_plain_address_are_one() {
    let mapped = |port| SocketAddr::new("::ffff:127.0.0.1".parse().unwrap(), port);
    assert_eq!(Key::new(9, mapped(7), mapped(80)), Some(key(7)));
    let v6 = SocketAddr::new("::1".parse().unwrap(), 80);
    assert_eq!(Key::new(9, mapped(7), v6), None);
}

/// Writers and readers on few slots: whatever is read was written in one piece.
#[test]
fn readers_see_whole_offers_only() {
    let dir = Scratch::new();
    let table = OffersTable::own(&dir).unwrap();
    let foreign = ForeignTable::open(&dir, geteuid().as_raw()).unwrap();
    let offers = crowd(3);
    let is_whole = |found: Offer| found.cookie == found.mailbox.random;
    std::thread::scope(|scope| {
        for offer in &offers {
            let (table, dir) = (&table, &dir);
            scope.spawn(move || {
                for turn in 0..5000 {
                    let mut offer = *offer;
                    offer.cookie = turn;
                    offer.mailbox.random = turn;
                    let id = table.publish(dir, &offer).unwrap();
                    if turn % 3 == 0 {
                        table.withdraw(id);
                    }
                }
            });
        }
        for _ in 0..5000 {
            for offer in &offers {
                assert!(table.find(&offer.key).is_none_or(is_whole));
                assert!(foreign.find(&offer.key).is_none_or(is_whole));
            }
        }
    });
}

fn any_offer() -> impl Strategy<Value = Offer> {
    let ends = prop_oneof![
        any::<([u8; 4], [u8; 4])>().prop_map(|(a, b)| (IpAddr::from(a), IpAddr::from(b))),
        any::<([u8; 16], [u8; 16])>().prop_map(|(a, b)| (IpAddr::from(a), IpAddr::from(b))),
    ];
    let numbers = any::<(u64, u16, u16, u64, u32, u64, u32)>();
    (ends, numbers).prop_filter_map("families", |((client, server), numbers)| {
        let (netns, from, to, cookie, mail, random, pid) = numbers;
        let mailbox = MailboxName { pid: mail, random };
        let key = Key::new(netns, (client, from).into(), (server, to).into())?;
        Some(Offer {
            key,
            cookie,
            mailbox,
            pid,
        })
    })
}

proptest! {
    #[test]
    fn slots_round_trip(offer in any_offer(), head: u64) {
        let words = offer.encode(Head(head).with(State::Ready));
        prop_assert_eq!(Offer::decode(&words), Some(offer));
    }

    #[test]
    fn changed_slots_are_refused(offer in any_offer(), word in 0..WORDS, flip in 1u64..) {
        let mut words = offer.encode(Head(2));
        words[word] ^= flip;
        prop_assert_eq!(Offer::decode(&words), None);
    }

    #[test]
    fn foreign_bytes_never_panic(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
        prop_assert_eq!(Offer::decode(&words_of(&bytes)), None);
    }
}

/// Squatted names: the table is refused, at once, and nothing happens to what is there.
#[test]
fn what_is_no_plain_file_is_a_strangers() {
    let dir = Scratch::new();
    let uid = geteuid().as_raw();
    let path = dir.path.join(format!("offers.{uid}"));
    let refused = || {
        assert_eq!(OffersTable::own(&dir).unwrap_err(), TableError::Stranger);
        let foreign = ForeignTable::open(&dir, uid).unwrap_err();
        assert_eq!(foreign, TableError::Stranger);
    };
    std::fs::create_dir(&path).unwrap();
    refused();
    std::fs::remove_dir(&path).unwrap();
    std::os::unix::fs::symlink(dir.path.join("target"), &path).unwrap();
    refused();
    assert!(!dir.path.join("target").exists());
    std::fs::remove_file(&path).unwrap();
    let mode = rustix::fs::Mode::from_raw_mode(0o600);
    rustix::fs::mkfifoat(&*dir, path.file_name().unwrap(), mode).unwrap();
    refused();
    std::fs::remove_file(&path).unwrap();
    OffersTable::own(&dir).unwrap();
}

#[test]
fn any_content_is_survived() {
    let dir = Scratch::new();
    let table = OffersTable::own(&dir).unwrap();
    let foreign = ForeignTable::open(&dir, geteuid().as_raw()).unwrap();
    let offers = crowd(WINDOW);
    let start = start_of(&offers[0].key);
    let mut random = Random(3);
    for round in 0..600 {
        for (n, offer) in offers.iter().enumerate() {
            let pid = [0, 1, 1 << 31, u64::from(u32::MAX)][random.number() as usize % 4];
            // Heads with every state, offers that are whole but for one word, and noise.
            let mut words = offer.encode(Head((pid << 32) | (round % 8)));
            match random.number() % 3 {
                0 => words = std::array::from_fn(|_| random.number()),
                1 => words[random.number() as usize % WORDS] ^= 1 << (random.number() % 64),
                _ => {}
            }
            assert!(table.write(start + n, &words));
        }
        let offer = &offers[random.number() as usize % WINDOW];
        for found in [table.find(&offer.key), foreign.find(&offer.key)] {
            assert!(found.is_none_or(|found| found.key == offer.key));
        }
        if let Ok(id) = table.publish(&dir, offer) {
            assert_eq!(foreign.find(&offer.key), Some(*offer));
            table.withdraw(id);
        }
        table.sweep(&dir);
    }
}
