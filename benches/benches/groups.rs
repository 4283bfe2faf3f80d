//! Groups of native programs: what a message to all members of a host costs, its receipt by each included. All members are in one
//! thread, so that nobody waits.

use std::time::Duration;

use criterion::{BenchmarkId, Criterion, Throughput};
use native::group::{Event, Group, Options};
use native::names::Names;

const SIZES: [usize; 2] = [64, 1024];
const RECEIVERS: [usize; 4] = [1, 2, 4, 8];
/// Messages that are sent before any is received: far less than a ring holds.
const BATCH: u64 = 16;

fn main() {
    let mut criterion = Criterion::default()
        .measurement_time(Duration::from_secs(2))
        .warm_up_time(Duration::from_millis(300))
        .configure_from_args();
    let names = Names::open().expect("names");
    for receivers in RECEIVERS {
        to_all(&mut criterion, &names, receivers);
    }
    criterion.final_summary();
}

/// A sender and so many others, all of whom know of each other.
fn members(names: &Names, receivers: usize) -> (Group, Vec<Group>) {
    let service = format!("bench.{}.{receivers}", std::process::id());
    let join = || Group::join(names, &service, Options::default()).expect("a member");
    let (mut sender, mut others) = (join(), Vec::new());
    others.resize_with(receivers, join);
    let mut room = [0; 64];
    for member in std::iter::once(&mut sender).chain(&mut others) {
        for _ in 0..receivers {
            let event = member.recv(&mut room).expect("an event");
            assert!(matches!(event, Event::Joined(_)), "{event:?}");
        }
    }
    (sender, others)
}

fn to_all(criterion: &mut Criterion, names: &Names, receivers: usize) {
    let (mut sender, mut others) = members(names, receivers);
    let mut room = [0; 4096];
    let mut group = criterion.benchmark_group(format!("group, receivers: {receivers}"));
    for size in SIZES {
        let bytes = vec![0x5a; size];
        group.throughput(Throughput::ElementsAndBytes {
            elements: BATCH,
            bytes: BATCH * size as u64,
        });
        group.bench_function(BenchmarkId::from_parameter(size), |bencher| {
            bencher.iter(|| {
                for _ in 0..BATCH {
                    sender.send(&bytes).expect("sent");
                }
                for member in &mut others {
                    for _ in 0..BATCH {
                        let event = member.recv(&mut room).expect("an event");
                        assert!(matches!(event, Event::Message { len, .. } if len == size));
                    }
                }
            });
        });
    }
    group.finish();
}
