//! Who has no key, and what ends.

use std::time::{Duration, Instant};

use ulsock_native::memory::{EventQueue, Exporter, Fires, Import, MemoryError, RegionKey};
use ulsock_native::message::{Endpoint, Peer};
use ulsock_native::run::spawn;

use super::{SIZE, get, import, put, until, world};
use crate::{begin, run};

#[test]
fn a_wrong_key_opens_nothing() {
    let world = world(SIZE);
    let key = world.region.key();
    let bytes = key.to_bytes();
    assert_eq!(RegionKey::from_bytes(&bytes), Ok(key));
    // The number of the region, then its secret.
    for at in 18..RegionKey::LEN {
        let mut wrong = bytes;
        wrong[at] ^= 1;
        let wrong = RegionKey::from_bytes(&wrong).expect("a key");
        let refused = Import::open_blocking(&wrong).unwrap_err();
        assert_eq!(refused, MemoryError::WrongKey);
    }
    let bad = MemoryError::BadKey;
    for len in [0, 1, RegionKey::LEN - 1] {
        assert_eq!(RegionKey::from_bytes(&bytes[..len]), Err(bad));
    }
    assert_eq!(RegionKey::from_bytes(&[0; RegionKey::LEN]), Err(bad));
    assert_eq!(RegionKey::from_bytes(&[0; RegionKey::LEN + 1]), Err(bad));
    let shown = format!("{key:?}");
    assert!(!shown.contains(&format!("{:?}", &bytes[22..])), "{shown}");
    put(&world.import, 0, b"others go on");
}

#[test]
fn a_region_has_a_size() {
    begin();
    let queue = EventQueue::new().expect("a queue");
    let exporter = Exporter::bind("127.0.0.1:0").expect("an exporter");
    let refused = |size| exporter.export(size, &queue).unwrap_err();
    for size in [0, usize::MAX, isize::MAX as usize + 1] {
        assert_eq!(refused(size), MemoryError::BadSize);
    }
    // More than any machine has is refused before any of it is taken.
    let begun = Instant::now();
    for size in [1 << 46, 1 << 47, 1 << 60, isize::MAX as usize] {
        assert_eq!(refused(size), MemoryError::NoMemory);
    }
    assert!(begun.elapsed() < Duration::from_secs(1));
}

/// Pages are the system's, and not the importer's.
#[test]
fn a_region_ends_within_a_page() {
    begin();
    let queue = EventQueue::new().expect("a queue");
    let exporter = Exporter::bind("127.0.0.1:0").expect("an exporter");
    for size in [1, 7, 8, 4095, 4096, 4097] {
        let region = exporter.export(size, &queue).expect("a region");
        let import = import(&region);
        put(&import, size - 1, b"z");
        assert_eq!(get(&region, size - 1), *b"z");
        let beyond = Err(MemoryError::OutOfRange);
        assert_eq!(import.write_blocking(size, b"z"), beyond);
        assert_eq!(import.write_blocking(size - 1, b"zz"), beyond);
        assert_eq!(region.read(size, &mut [0]), beyond);
        assert_eq!(region.write(size, b"z"), beyond);
        let wire = region.wire(size - 1..size + 1, Fires::Once).map(drop);
        assert_eq!(wire, beyond);
    }
}

#[test]
fn a_region_that_is_dropped_is_revoked() {
    let world = world(SIZE);
    let exporter = Exporter::bind("127.0.0.1:0").expect("an exporter");
    let other = exporter.export(SIZE, &world.queue).expect("a region");
    let import_other = import(&other);
    let key = other.key();
    put(&import_other, 0, b"now");
    drop(other);
    until("it is revoked", || import_other.check().is_err());
    let revoked = Err(MemoryError::Revoked);
    assert_eq!(import_other.write_blocking(0, b"late"), revoked);
    assert_eq!(import_other.flush_blocking(), revoked);
    let refused = Import::open_blocking(&key).unwrap_err();
    assert_eq!(refused, MemoryError::WrongKey);
    put(&world.import, 3, b"others go on");
    assert_eq!(get(&world.region, 3), *b"others go on");
}

#[test]
fn an_exporter_that_ends_is_gone() {
    let mut world = world(SIZE);
    let exporter = Exporter::bind("127.0.0.1:0").expect("an exporter");
    let region = exporter.export(SIZE, &world.queue).expect("a region");
    let import_other = import(&region);
    let key = region.key();
    drop(exporter);
    put(&import_other, 0, b"its region keeps it");
    assert_eq!(get(&region, 0), *b"its region keeps it");
    drop(region);
    until("it has ended", || import_other.check().is_err());
    until("nobody is there", || match Import::open_blocking(&key) {
        Err(MemoryError::WrongKey | MemoryError::PeerGone) => false,
        Err(MemoryError::Os(std::io::ErrorKind::ConnectionRefused)) => true,
        other => panic!("{other:?}"),
    });
    let wire = world.region.wire(0..9, Fires::Once).expect("a wire");
    put(&world.import, 3, b"on");
    assert_eq!(world.queue.wait().expect("an event").wire, wire.id());
}

/// An importer that goes leaves its events.
#[test]
fn an_import_that_is_dropped_has_written() {
    let mut world = world(SIZE);
    let wire = world.region.wire(50..60, Fires::Always).expect("a wire");
    for round in 0..20_u8 {
        let other = import(&world.region);
        other.write_blocking(50, &[round; 10]).expect("written");
        drop(other);
        assert_eq!(world.queue.wait().expect("an event").wire, wire.id());
        assert_eq!(get(&world.region, 50), [round; 10]);
    }
}

#[test]
fn an_address_without_an_exporter() {
    begin();
    let answered = run(async {
        let server = Endpoint::bind("127.0.0.1:0").expect("an endpoint");
        let address = server.local_addr().expect("an address");
        drop(spawn(async move { server.serve().await }));
        let world = world(SIZE);
        Import::open(&world.region.key().at(address))
            .await
            .unwrap_err()
    });
    assert_eq!(answered, MemoryError::NoExporter);
}

const OPEN: u16 = 0xff10;
const WRITE: u16 = 0xff13;
const FLUSH: u16 = 0xff14;

/// One that speaks the protocol as it likes is put out, and nobody else is hurt.
#[test]
fn nonsense_ends_a_connection() {
    let world = world(SIZE);
    let bytes = world.region.key().to_bytes();
    let mut good = bytes[18..].to_vec();
    good.extend([0; 16]);
    let beyond = [(SIZE as u64 - 1).to_le_bytes().as_slice(), &[9; 2]].concat();
    let far = [u64::MAX.to_le_bytes().as_slice(), &[9; 2]].concat();
    let cases: &[&[(u16, &[u8])]] = &[
        &[(OPEN, &good[..35])],
        &[(OPEN, &[good.as_slice(), &[0]].concat())],
        &[(OPEN, &good), (OPEN, &good)],
        &[(WRITE, &beyond)],
        &[(OPEN, &good), (WRITE, &beyond)],
        &[(OPEN, &good), (WRITE, &far)],
        &[(OPEN, &good), (WRITE, &[1, 2, 3])],
        &[(FLUSH, &[1, 2, 3])],
    ];
    run(async {
        for case in cases {
            let endpoint = Endpoint::new();
            let address = world.region.key().address();
            let peer: Peer = endpoint.connect(address).await.expect("a peer");
            drop(spawn(async move { endpoint.serve().await }));
            for (number, bytes) in *case {
                let _ = peer.send(*number, bytes).await;
            }
            peer.gone().await;
        }
    });
    put(&world.import, 3, b"others go on");
    assert_eq!(get(&world.region, 3), *b"others go on");
    assert_eq!(get(&world.region, SIZE - 1), [0]);
}
