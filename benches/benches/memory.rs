//! Remote memory of native programs within one host: what a write into a region costs, without wires, beside one, and with one that
//! fires; and a round trip by two wires to another thread.

use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use criterion::{BenchmarkId, Criterion, Throughput};
use native::memory::{EventQueue, Exporter, Fires, Import, Region};

const SIZES: [usize; 4] = [8, 64, 1024, 64 << 10];
const REGION: usize = 1 << 20;

/// A wire here is touched by no write that is to touch none.
const ASIDE: usize = REGION / 2;

fn main() {
    let mut criterion = Criterion::default()
        .measurement_time(Duration::from_secs(2))
        .warm_up_time(Duration::from_millis(300))
        .configure_from_args();
    writes(&mut criterion);
    events(&mut criterion);
    round_trips(&mut criterion);
    criterion.final_summary();
}

fn region(queue: &EventQueue) -> (Region, Import) {
    let exporter = Exporter::bind("127.0.0.1:0").expect("an exporter");
    let region = exporter.export(REGION, queue).expect("a region");
    let import = Import::open_blocking(&region.key()).expect("an import");
    assert!(import.is_shared(), "the memory is shared");
    (region, import)
}

fn writes(criterion: &mut Criterion) {
    let queue = EventQueue::new().expect("a queue");
    let (region, import) = region(&queue);
    let mut wire = None;
    for kind in ["no wires", "a wire elsewhere"] {
        let mut group = criterion.benchmark_group(format!("write into a region, {kind}"));
        for size in SIZES {
            let bytes = vec![0x5a; size];
            group.throughput(Throughput::Bytes(size as u64));
            group.bench_function(BenchmarkId::from_parameter(size), |bencher| {
                bencher.iter(|| import.write_blocking(0, &bytes).expect("written"));
            });
        }
        group.finish();
        let aside = region.wire(ASIDE..ASIDE + 8, Fires::Always);
        wire = Some(aside.expect("a wire"));
    }
    drop(wire);
}

fn events(criterion: &mut Criterion) {
    let mut queue = EventQueue::new().expect("a queue");
    let (region, import) = region(&queue);
    let wire = region.wire(0..8, Fires::Always).expect("a wire");
    criterion.bench_function("write of 8 B that fires a wire, and its event", |bencher| {
        bencher.iter(|| {
            import.write_blocking(0, &[7; 8]).expect("written");
            let event = queue.try_next().expect("a queue").expect("an event");
            assert!(event.wire == wire.id());
        });
    });
}

/// Each end writes into the other's region, and waits for its own wire.
fn round_trips(criterion: &mut Criterion) {
    let mut near_queue = EventQueue::new().expect("a queue");
    let mut far_queue = EventQueue::new().expect("a queue");
    let (near, to_near) = region(&near_queue);
    let (far, to_far) = region(&far_queue);
    let _near_wire = near.wire(0..8, Fires::Always).expect("a wire");
    let _far_wire = far.wire(0..8, Fires::Always).expect("a wire");
    let over = AtomicBool::new(false);
    thread::scope(|scope| {
        scope.spawn(|| {
            while !over.load(Ordering::Relaxed) {
                if far_queue
                    .wait_within(Duration::from_millis(100))
                    .expect("a queue")
                    .is_some()
                {
                    to_near.write_blocking(0, &[7; 8]).expect("written");
                }
            }
        });
        criterion.bench_function(
            "round trip of 8 B by two wires to another thread",
            |bencher| {
                bencher.iter(|| {
                    to_far.write_blocking(0, &[7; 8]).expect("written");
                    near_queue.wait().expect("an event");
                });
            },
        );
        over.store(true, Ordering::Relaxed);
    });
}
