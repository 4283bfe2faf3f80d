//! What holds however the bytes get there.

mod events;
mod fork;
mod refused;
mod sharing;
mod taken;
mod writes;

use std::time::{Duration, Instant};

use ulsock_native::memory::{EventQueue, Exporter, Import, Region};

use crate::{SHARED, begin};

const SIZE: usize = 100_000;

struct World {
    queue: EventQueue,
    region: Region,
    import: Import,
}

fn world(size: usize) -> World {
    begin();
    let queue = EventQueue::new().expect("a queue");
    let exporter = Exporter::bind("127.0.0.1:0").expect("an exporter");
    let region = exporter.export(size, &queue).expect("a region");
    let import = import(&region);
    World {
        queue,
        region,
        import,
    }
}

fn import(region: &Region) -> Import {
    let import = Import::open_blocking(&region.key()).expect("imported");
    assert_eq!(import.is_shared(), SHARED);
    assert_eq!(import.size(), region.size());
    import
}

fn put(import: &Import, offset: usize, bytes: &[u8]) {
    import.write_blocking(offset, bytes).expect("written");
    import.flush_blocking().expect("in place");
}

fn get<const N: usize>(region: &Region, offset: usize) -> [u8; N] {
    let mut room = [0; N];
    region.read(offset, &mut room).expect("read");
    room
}

fn until(what: &str, mut holds: impl FnMut() -> bool) {
    let begun = Instant::now();
    while !holds() {
        assert!(begun.elapsed() < Duration::from_secs(20), "{what}");
        std::thread::sleep(Duration::from_millis(1));
    }
}
