//! One packet of 1 KiB over the link, and over smoltcp's TCP, and a message of 64 B through two engines,
//! each step in a function of its own whose name callgrind can be told to collect in: `valgrind
//! --tool=callgrind --toggle-collect=counted_link_send carried link 100`.

use std::error::Error;
use std::hint::black_box;

use benches::engine;
use benches::link::{self, Checksums, SIZE};
use benches::tcp;
use netstack::wire::{Addresses, HEADER, Seal};

/// One step of each kind; never inlined, so that the name stays.
mod steps {
    use std::hint::black_box;

    use benches::engine::{self, Cord};
    use benches::link::{Frame, LinkHost, SIZE};
    use benches::tcp;
    use netstack::crc32c::Crc;
    use netstack::time::Instant;
    use netstack::wire::{Seal, frame};

    #[unsafe(no_mangle)]
    #[inline(never)]
    pub fn counted_link_send(host: &mut LinkHost, now: Instant, end: u64, out: &mut Frame) -> bool {
        host.send_message(now, end, out)
    }

    #[unsafe(no_mangle)]
    #[inline(never)]
    pub fn counted_link_receive(host: &mut LinkHost, now: Instant, frame: &Frame) -> bool {
        host.receive(now, frame)
    }

    #[unsafe(no_mangle)]
    #[inline(never)]
    pub fn counted_link_ack(host: &mut LinkHost, now: Instant, frame: &Frame) -> bool {
        // Else the two would be one function.
        black_box(host).receive(now, frame)
    }

    #[unsafe(no_mangle)]
    #[inline(never)]
    pub fn counted_tcp_send(
        host: &mut tcp::TcpHost,
        now: smoltcp::time::Instant,
        bytes: &[u8; SIZE],
    ) {
        host.send_message(now, bytes);
    }

    #[unsafe(no_mangle)]
    #[inline(never)]
    pub fn counted_tcp_receive(host: &mut tcp::TcpHost, now: smoltcp::time::Instant) {
        host.poll(now);
    }

    #[unsafe(no_mangle)]
    #[inline(never)]
    pub fn counted_tcp_ack(host: &mut tcp::TcpHost, now: smoltcp::time::Instant) {
        black_box(host).poll(now);
    }

    /// The program has written: from the look at its ring to the frame.
    #[unsafe(no_mangle)]
    #[inline(never)]
    pub fn counted_engine_send(host: &mut engine::EngineHost<Cord>, now: Instant) {
        host.poll(now);
    }

    /// A frame has come, which also acknowledges: until the program sees its bytes, and the poll is over.
    #[unsafe(no_mangle)]
    #[inline(never)]
    pub fn counted_engine_receive(host: &mut engine::EngineHost<Cord>, now: Instant) {
        black_box(host).poll(now);
    }

    /// The acknowledgement was not needed by anybody else: it leaves by itself.
    #[unsafe(no_mangle)]
    #[inline(never)]
    pub fn counted_engine_owe(host: &mut engine::EngineHost<Cord>, now: Instant) {
        black_box(&mut *host).poll(black_box(now));
    }

    #[unsafe(no_mangle)]
    #[inline(never)]
    pub fn counted_engine_ack(host: &mut engine::EngineHost<Cord>, now: Instant) {
        let host = black_box(host);
        black_box(&mut *host).poll(now);
    }

    /// A frame has come for a caller that waits: until it sees its bytes.
    #[unsafe(no_mangle)]
    #[inline(never)]
    pub fn counted_glance_receive(host: &mut engine::EngineHost<Cord>, now: Instant) {
        host.poll_in(now);
    }

    /// The answer, and what was left then.
    #[unsafe(no_mangle)]
    #[inline(never)]
    pub fn counted_glance_send(host: &mut engine::EngineHost<Cord>, now: Instant) {
        black_box(&mut *host).poll(now);
        black_box(host);
    }

    /// Nothing has happened, and nothing is under way.
    #[unsafe(no_mangle)]
    #[inline(never)]
    pub fn counted_engine_idle(host: &mut engine::EngineHost<Cord>, now: Instant) {
        let host = black_box(host);
        black_box(&mut *host).poll(black_box(now));
    }

    #[unsafe(no_mangle)]
    #[inline(never)]
    pub fn counted_crc_copy(from: &[u8; SIZE], to: &mut [u8; SIZE]) -> u32 {
        Crc::START.copy(from, to).value()
    }

    /// The header of DATA; with the block of an ACK behind it, that of an ACK.
    #[unsafe(no_mangle)]
    #[inline(never)]
    pub fn counted_crc_head(seal: Seal, head: &[u8]) -> Crc {
        seal.head(head)
    }

    #[unsafe(no_mangle)]
    #[inline(never)]
    pub fn counted_crc_ack(seal: Seal, head: &[u8]) -> u32 {
        seal.head(head).value()
    }

    #[unsafe(no_mangle)]
    #[inline(never)]
    pub fn counted_ip_sum(header: &[u8; 20]) -> u16 {
        frame::sum(header)
    }

    #[unsafe(no_mangle)]
    #[inline(never)]
    pub fn counted_copy(from: &[u8; SIZE], to: &mut [u8; SIZE]) {
        // The length is not known to the compiler, as it is not in a ring.
        let length = black_box(SIZE);
        to[..length].copy_from_slice(&from[..length]);
    }
}

fn main() -> Result<(), Box<dyn Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [what, count] = arguments.as_slice() else {
        return Err(
            "wanted: carried link|v4_nic|v4_own|v6|v6_nic|tcp|engine|glance|crc COUNT".into(),
        );
    };
    let count = count.parse()?;
    match what.as_str() {
        "link" => over_link(count, Checksums::default()),
        "v4_nic" => over_link(count, by_nics(false, true)),
        "v4_own" => over_link(count, by_nics(false, false)),
        "v6_nic" => over_link(count, by_nics(true, true)),
        "v6" => over_link(
            count,
            Checksums {
                is_ipv6: true,
                ..Checksums::default()
            },
        ),
        "tcp" => over_tcp(count),
        "engine" => through_engines(count),
        "glance" => for_who_waits(count),
        "crc" => copies(count),
        _ => Err(format!("no such thing: {what}").into()),
    }
}

/// Completed by the sender's NIC, and perhaps checked by the receiver's.
fn by_nics(is_ipv6: bool, checked: bool) -> Checksums {
    Checksums {
        is_ipv6,
        completed: true,
        checked,
    }
}

fn over_link(count: u32, checksums: Checksums) -> Result<(), Box<dyn Error>> {
    let mut pair = link::LinkPair::with(checksums);
    for _ in 0..count {
        pair.sent += SIZE as u64;
        let link::LinkPair {
            now,
            from,
            to,
            sent,
            frame,
        } = &mut pair;
        check(steps::counted_link_send(from, *now, *sent, frame))?;
        frame.complete();
        check(steps::counted_link_receive(to, *now, frame))?;
        pair.read();
        // The acknowledgement waits for a packet to ride on.
        pair.pass(std::time::Duration::from_micros(25));
        check(pair.to.send(pair.now, &mut pair.frame))?;
        pair.frame.complete();
        check(steps::counted_link_ack(
            &mut pair.from,
            pair.now,
            &pair.frame,
        ))?;
        check(pair.is_even())?;
    }
    Ok(())
}

fn over_tcp(count: u32) -> Result<(), Box<dyn Error>> {
    let mut pair = tcp::TcpPair::new();
    for _ in 0..count {
        let tcp::TcpPair { now, from, to } = &mut pair;
        steps::counted_tcp_send(from, *now, &[7; SIZE]);
        check(from.pass_to(to))?;
        steps::counted_tcp_receive(to, *now);
        check(to.read() == SIZE)?;
        if !to.pass_to(from) {
            *now += smoltcp::time::Duration::from_millis(10);
            to.poll(*now);
            check(to.pass_to(from))?;
        }
        steps::counted_tcp_ack(from, *now);
        check(pair.is_even())?;
    }
    Ok(())
}

/// Bytes of a small message.
const SMALL: usize = 64;

fn through_engines(count: u32) -> Result<(), Box<dyn Error>> {
    let mut pair = engine::EnginePair::new();
    // Each is two messages.
    for _ in 0..count / 2 {
        there_and_back(&mut pair)?;
    }
    for _ in 0..count {
        one_way(&mut pair)?;
    }
    for _ in 0..count {
        check(pair.one.write(&[7; SMALL]))?;
        pair.settle();
        check(pair.other.read(&mut [0; SMALL]) == SMALL)?;
        pair.other.poll(pair.now);
        steps::counted_engine_idle(&mut pair.other, pair.now);
    }
    Ok(())
}

/// A request and its answer: one frame each.
fn there_and_back(pair: &mut engine::EnginePair) -> Result<(), Box<dyn Error>> {
    for back in [false, true] {
        let engine::EnginePair { now, one, other } = pair;
        let (from, to) = if back { (other, one) } else { (one, other) };
        check(from.write(&[7; SMALL]))?;
        steps::counted_engine_send(from, *now);
        check(from.port.carry(&mut to.port) == 1)?;
        pair.pass(std::time::Duration::from_micros(2));
        let to = if back { &mut pair.one } else { &mut pair.other };
        steps::counted_engine_receive(to, pair.now);
        check(to.read(&mut [0; SMALL]) == SMALL)?;
    }
    Ok(())
}

/// The same, with engines that are polled by the caller that waits for the message.
fn for_who_waits(count: u32) -> Result<(), Box<dyn Error>> {
    let mut pair = engine::EnginePair::new();
    for number in 0..count {
        pair.pass(std::time::Duration::from_micros(1));
        let engine::EnginePair { now, one, other } = &mut pair;
        let (from, to) = match number % 2 {
            0 => (one, other),
            _ => (other, one),
        };
        check(from.write(&[7; SMALL]))?;
        steps::counted_glance_send(from, *now);
        from.port.carry(&mut to.port);
        steps::counted_glance_receive(to, *now);
        check(to.read(&mut [0; SMALL]) == SMALL)?;
    }
    Ok(())
}

/// A message that nobody answers.
fn one_way(pair: &mut engine::EnginePair) -> Result<(), Box<dyn Error>> {
    pair.settle();
    let engine::EnginePair { now, one, other } = pair;
    check(one.write(&[7; SMALL]))?;
    one.poll(*now);
    check(one.port.carry(&mut other.port) == 1)?;
    other.poll(*now);
    check(other.read(&mut [0; SMALL]) == SMALL)?;
    other.poll(*now);
    *now = *now + std::time::Duration::from_micros(25);
    steps::counted_engine_owe(other, *now);
    check(other.port.carry(&mut one.port) == 1)?;
    steps::counted_engine_ack(one, *now);
    Ok(())
}

fn copies(count: u32) -> Result<(), Box<dyn Error>> {
    let (from, mut to) = ([7; SIZE], [0; SIZE]);
    let (source, destination) = (([10, 0, 0, 1], 1).into(), ([10, 0, 0, 2], 2).into());
    let addresses = Addresses {
        source,
        destination,
    };
    let seal = Seal::link(&addresses, 1, 2);
    for _ in 0..count {
        steps::counted_crc_copy(&from, &mut to);
        steps::counted_copy(&from, &mut to);
        black_box(steps::counted_crc_head(seal, &from[..HEADER]));
        // One range, and counts of marks.
        black_box(steps::counted_crc_ack(seal, &from[..HEADER + 8 + 4 + 8]));
        black_box(steps::counted_ip_sum(&[7; 20]));
    }
    check(to == from)
}

#[track_caller]
fn check(went_well: bool) -> Result<(), Box<dyn Error>> {
    let place = std::panic::Location::caller();
    went_well
        .then_some(())
        .ok_or_else(|| format!("a step did not do its part: {place}").into())
}
