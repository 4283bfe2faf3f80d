//! One packet of 1 KiB over the link, and over smoltcp's TCP, each step in a function of its own whose
//! name callgrind can be told to collect in: `valgrind --tool=callgrind
//! --toggle-collect=counted_link_send carried link 100`.

use std::error::Error;
use std::hint::black_box;

use benches::link::{self, SIZE};
use benches::tcp;
use netstack::wire::{Addresses, Seal, HEADER};

/// One step of each kind; never inlined, so that the name stays.
mod steps {
    use std::hint::black_box;

    use benches::link::{Frame, Host, SIZE};
    use benches::tcp;
    use netstack::crc32c::Crc;
    use netstack::time::Instant;
    use netstack::wire::{frame, Seal};

    #[no_mangle]
    #[inline(never)]
    pub fn counted_link_send(host: &mut Host, now: Instant, end: u64, out: &mut Frame) -> bool {
        host.send_message(now, end, out)
    }

    #[no_mangle]
    #[inline(never)]
    pub fn counted_link_receive(host: &mut Host, now: Instant, frame: &Frame) -> bool {
        host.receive(now, frame)
    }

    #[no_mangle]
    #[inline(never)]
    pub fn counted_link_ack(host: &mut Host, now: Instant, frame: &Frame) -> bool {
        // Else the two would be one function.
        black_box(host).receive(now, frame)
    }

    #[no_mangle]
    #[inline(never)]
    pub fn counted_tcp_send(host: &mut tcp::Host, now: smoltcp::time::Instant, bytes: &[u8; SIZE]) {
        host.send_message(now, bytes);
    }

    #[no_mangle]
    #[inline(never)]
    pub fn counted_tcp_receive(host: &mut tcp::Host, now: smoltcp::time::Instant) {
        host.poll(now);
    }

    #[no_mangle]
    #[inline(never)]
    pub fn counted_tcp_ack(host: &mut tcp::Host, now: smoltcp::time::Instant) {
        black_box(host).poll(now);
    }

    #[no_mangle]
    #[inline(never)]
    pub fn counted_crc_copy(from: &[u8; SIZE], to: &mut [u8; SIZE]) -> u32 {
        Crc::START.copy(from, to).value()
    }

    /// The header of DATA; with the block of an ACK behind it, that of an ACK.
    #[no_mangle]
    #[inline(never)]
    pub fn counted_crc_head(seal: Seal, head: &[u8]) -> Crc {
        seal.head(head)
    }

    #[no_mangle]
    #[inline(never)]
    pub fn counted_crc_ack(seal: Seal, head: &[u8]) -> u32 {
        seal.head(head).value()
    }

    #[no_mangle]
    #[inline(never)]
    pub fn counted_ip_sum(header: &[u8; 20]) -> u16 {
        frame::sum(header)
    }

    #[no_mangle]
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
        return Err("wanted: carried link|tcp|crc COUNT".into());
    };
    let count = count.parse()?;
    match what.as_str() {
        "link" => over_link(count),
        "tcp" => over_tcp(count),
        "crc" => copies(count),
        _ => Err(format!("no such thing: {what}").into()),
    }
}

fn over_link(count: u32) -> Result<(), Box<dyn Error>> {
    let mut pair = link::Pair::new();
    for _ in 0..count {
        pair.sent += SIZE as u64;
        let link::Pair {
            now,
            from,
            to,
            sent,
            frame,
        } = &mut pair;
        check(steps::counted_link_send(from, *now, *sent, frame))?;
        check(steps::counted_link_receive(to, *now, frame))?;
        pair.read();
        // The acknowledgement waits for a packet to ride on.
        pair.pass(std::time::Duration::from_micros(25));
        check(pair.to.send(pair.now, &mut pair.frame))?;
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
    let mut pair = tcp::Pair::new();
    for _ in 0..count {
        let tcp::Pair { now, from, to } = &mut pair;
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

fn check(went_well: bool) -> Result<(), Box<dyn Error>> {
    went_well
        .then_some(())
        .ok_or("a step did not do its part".into())
}
