//! Bytes get where they were sent.

use ulsock_native::memory::{EventQueue, Exporter, Fires, Import, MemoryError};

use super::{SIZE, get, import, put, until, world};
use crate::{begin, run};

#[test]
fn bytes_are_put_where_they_belong() {
    let world = world(SIZE);
    assert_eq!(get(&world.region, 0), [0; 64]);
    put(&world.import, 5, b"first");
    put(&world.import, SIZE - 4, b"last");
    put(&world.import, 8, b"overfull");
    put(&world.import, 17, b"");
    assert_eq!(get(&world.region, 4), *b"\0firoverfull\0");
    assert_eq!(get(&world.region, SIZE - 5), *b"\0last");
}

#[test]
fn what_does_not_fit_changes_nothing() {
    let world = world(SIZE);
    for (offset, len) in [(SIZE, 1), (SIZE - 3, 4), (usize::MAX, 2), (0, SIZE + 1)] {
        let bytes = vec![7; len];
        let refused = Err(MemoryError::OutOfRange);
        assert_eq!(world.import.write_blocking(offset, &bytes), refused);
        assert_eq!(world.region.write(offset, &bytes), refused);
        assert_eq!(world.region.read(offset, &mut vec![0; len]), refused);
    }
    assert_eq!(world.region.load(4), Err(MemoryError::OutOfRange));
    assert_eq!(world.region.load(SIZE), Err(MemoryError::OutOfRange));
    put(&world.import, 0, b"still");
    let mut all = vec![0; SIZE];
    world.region.read(0, &mut all).expect("read");
    assert_eq!(&all[..5], b"still");
    assert!(all[5..].iter().all(|byte| *byte == 0));
}

#[test]
fn words_are_written_at_once() {
    let mut world = world(64);
    let wire = world.region.wire(8..16, Fires::Always).expect("a wire");
    for word in [1, u64::MAX, 0x0102_0304_0506_0708] {
        put(&world.import, 8, &word.to_ne_bytes());
        assert_eq!(world.queue.wait().expect("an event").wire, wire.id());
        assert_eq!(world.region.load(8), Ok(word));
    }
    world.region.store(0, 77).expect("stored");
    assert_eq!(get(&world.region, 0), 77_u64.to_ne_bytes());
}

/// More than a window of messages, in pieces of all sizes, one over the other: the last counts.
#[test]
fn writes_are_put_in_place_in_their_order() {
    const LONG: usize = 3 << 20;
    let world = world(LONG);
    let mut expected = vec![0_u8; LONG];
    let mut seed = 1_usize;
    for round in 1..=60_u8 {
        seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        let offset = (seed >> 20) % LONG;
        let len = (LONG - offset).min(1 << (seed >> 40 & 0xf) << (round % 7));
        let bytes = vec![round; len];
        world
            .import
            .write_blocking(offset, &bytes)
            .expect("written");
        expected[offset..offset + len].copy_from_slice(&bytes);
    }
    world.import.flush_blocking().expect("in place");
    let mut all = vec![0; LONG];
    world.region.read(0, &mut all).expect("read");
    assert!(all == expected);
}

#[test]
fn several_importers_write_at_once() {
    const COUNT: usize = 8;
    let world = world(COUNT * 1000);
    std::thread::scope(|scope| {
        for number in 0..COUNT {
            let region = &world.region;
            scope.spawn(move || {
                let import = import(region);
                for round in 1..=100_u8 {
                    let bytes = [round ^ number as u8; 1000];
                    import
                        .write_blocking(number * 1000, &bytes)
                        .expect("written");
                }
                import.flush_blocking().expect("in place");
            });
        }
    });
    for number in 0..COUNT {
        let bytes: [u8; 1000] = get(&world.region, number * 1000);
        assert_eq!(bytes, [100 ^ number as u8; 1000]);
    }
}

/// As a task, under any executor.
#[test]
fn tasks_write_and_wait() {
    begin();
    let write = async {
        let mut queue = EventQueue::new().expect("a queue");
        let exporter = Exporter::bind("127.0.0.1:0").expect("an exporter");
        let region = exporter.export(SIZE, &queue).expect("a region");
        let wire = region.wire(0..SIZE, Fires::Always).expect("a wire");
        let import = Import::open(&region.key()).await.expect("imported");
        for round in 0..50_usize {
            import
                .write(round * 8, &round.to_ne_bytes())
                .await
                .expect("written");
            let event = queue.event().await.expect("an event");
            assert_eq!(event.wire, wire.id());
            until("it is there", || region.load(round * 8) == Ok(round as u64));
        }
        import.flush().await.expect("in place");
    };
    run(write);
    smol::block_on(async {
        let queue = EventQueue::new().expect("a queue");
        let exporter = Exporter::bind("127.0.0.1:0").expect("an exporter");
        let region = exporter.export(SIZE, &queue).expect("a region");
        let import = Import::open(&region.key()).await.expect("imported");
        import.write(7, b"smol").await.expect("written");
        import.flush().await.expect("in place");
        assert_eq!(get(&region, 7), *b"smol");
    });
}
