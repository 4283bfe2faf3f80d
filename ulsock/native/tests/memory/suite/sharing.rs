//! Who shares the memory: so many at a time, and only those who do.

use ulsock_native::memory::{Fires, Import, Region};
use ulsock_native::message::{Endpoint, Peer};
use ulsock_native::run::spawn;

use super::{SIZE, get, import, put, until, world};
use crate::{SHARED, run};

const OPEN: u16 = 0xff10;
const SETTLED: u16 = 0xff12;

/// Importers of a region that share its memory.
const MOST: usize = 64;

#[test]
fn so_many_share_and_others_send_messages() {
    let mut world = world(SIZE);
    let wire = world.region.wire(0..SIZE, Fires::Always).expect("a wire");
    let mut others: Vec<_> = (1..MOST).map(|_| import(&world.region)).collect();
    let opened = || Import::open_blocking(&world.region.key()).expect("imported");
    let more = [opened(), opened()];
    for (at, import) in others.iter().chain(&more).enumerate() {
        assert_eq!(import.is_shared(), SHARED && at < MOST - 1);
        put(import, at, &[7]);
        assert_eq!(world.queue.wait().expect("an event").wire, wire.id());
        assert_eq!(get(&world.region, at), [7]);
    }
    others.pop();
    until("there is a place", || opened().is_shared() == SHARED);
}

/// What one says that runs on this host.
fn open(region: &Region) -> Vec<u8> {
    let mut bytes = region.key().to_bytes()[18..].to_vec();
    let host = std::fs::read_to_string("/proc/sys/kernel/random/boot_id").expect("procfs");
    let digits: Vec<u8> = host
        .bytes()
        .filter_map(|it| char::from(it).to_digit(16))
        .map(|digit| digit as u8)
        .collect();
    bytes.extend(digits.chunks(2).map(|pair| pair[0] << 4 | pair[1]));
    bytes
}

/// As those of other users: they cannot fetch what they would need.
#[test]
fn who_cannot_share_takes_nobodys_place() {
    let world = world(SIZE);
    run(async {
        let mut peers: Vec<Peer> = Vec::new();
        let endpoint = Endpoint::new();
        for _ in 0..MOST {
            let address = world.region.key().address();
            let peer = endpoint.connect(address).await.expect("a peer");
            peer.send(OPEN, &open(&world.region)).await.expect("sent");
            peer.send(SETTLED, &[]).await.expect("sent");
            peers.push(peer);
        }
        drop(spawn(async move { endpoint.serve().await }));
        let opened = || Import::open_blocking(&world.region.key()).expect("imported");
        until("there is a place", || opened().is_shared() == SHARED);
        assert!(peers.iter().all(|peer| !peer.is_gone()));
    });
}
