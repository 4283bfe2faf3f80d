//! The link by itself, without a network: what a packet of 1 KiB costs to send, to receive and to hear
//! acknowledged, from frame to frame; smoltcp's TCP doing the same; a message of 64 B from ring to ring
//! through two engines; and the checksum.

use std::hint::black_box;
use std::time::Duration;

use benches::{engine, link, tcp};
use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use netstack::crc32c::Crc;

fn one_packet(c: &mut Criterion) {
    let mut group = c.benchmark_group("1 KiB and its acknowledgement");
    group.throughput(Throughput::Bytes(link::SIZE as u64));
    let mut pair = link::LinkPair::new();
    group.bench_function("link", |b| {
        b.iter(|| {
            pair.sent += link::SIZE as u64;
            pair.from.send_message(pair.now, pair.sent, &mut pair.frame);
            pair.to.receive(pair.now, &pair.frame);
            pair.read();
            pair.pass(Duration::from_micros(25));
            pair.to.send(pair.now, &mut pair.frame);
            pair.from.receive(pair.now, &pair.frame);
        });
    });
    assert!(pair.is_even());
    let mut pair = tcp::TcpPair::new();
    group.bench_function("smoltcp's TCP, no checksum", |b| {
        b.iter(|| {
            let tcp::TcpPair { now, from, to } = &mut pair;
            from.send_message(*now, &[7; link::SIZE]);
            from.pass_to(to);
            to.poll(*now);
            to.read();
            *now += smoltcp::time::Duration::from_millis(10);
            to.poll(*now);
            to.pass_to(from);
            from.poll(*now);
        });
    });
    assert!(pair.is_even());
    group.finish();
}

fn one_message(c: &mut Criterion) {
    let mut pair = engine::EnginePair::new();
    c.bench_function("64 B there and back through two engines", |b| {
        b.iter(|| pair.there_and_back(&mut [7; 64]));
    });
}

fn checksum(c: &mut Criterion) {
    let mut group = c.benchmark_group("CRC32C");
    for size in [32, 1 << 10, 8 << 10] {
        let (from, mut to) = (vec![7; size], vec![0; size]);
        group.throughput(Throughput::Bytes(size as u64));
        group.bench_function(format!("copy {size} B"), |b| {
            b.iter(|| black_box(&mut to).copy_from_slice(black_box(&from)));
        });
        group.bench_function(format!("copy and check {size} B"), |b| {
            b.iter(|| Crc::START.copy(black_box(&from), black_box(&mut to)));
        });
        group.bench_function(format!("check {size} B"), |b| {
            b.iter(|| Crc::START.over(black_box(&from)));
        });
    }
    group.finish();
}

criterion_group!(benches, one_packet, one_message, checksum);
criterion_main!(benches);
