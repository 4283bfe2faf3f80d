//! The XDP program: frames that are ours go to the socket of their queue, all others to the kernel.
//! Where there is no socket (yet, or any more), ours go to the kernel too.

use std::vec::Vec;

use super::assembler::{Assembler, Instruction, Label, Register, Size};
use crate::phy::wanted::{Wanted, at, is};
use Register::{R0, R1, R2, R3, R4, R5, R6};

/// Fields of struct xdp_md (linux/bpf.h).
const DATA: u32 = 0;
const DATA_END: u32 = 4;
const QUEUE: u32 = 16;

pub const PASS: i32 = 2;
const REDIRECT_MAP: i32 = 51;

/// What happens to a frame of ours.
#[derive(Clone, Copy, Debug)]
pub enum Verdict {
    /// To the socket that the map has for its queue.
    Map(i32),
    /// The program ends with this number: for tests.
    #[cfg(test)]
    Number(i32),
}

/// For frames to this hardware address.
pub fn program(wanted: &Wanted, hardware: [u8; 6], verdict: Verdict) -> Vec<Instruction> {
    let mut code = Assembler::default();
    let (pass, ours, ipv6) = (code.label(), code.label(), code.label());
    code.copy(R6, R1);
    code.load(Size::Word, R2, R1, DATA);
    code.load(Size::Word, R3, R1, DATA_END);
    reach(&mut code, at::PORT + 6, pass);
    to_us(&mut code, hardware, pass);
    code.load(Size::Half, R5, R2, at::ETHERTYPE);
    code.if_equal(R5, half(is::IPV6), ipv6);
    code.if_not_equal(R5, half(is::IPV4), pass);
    match_ipv4(&mut code, wanted, ours, pass);
    code.place(ipv6);
    match_ipv6(&mut code, wanted, ours, pass);
    code.place(ours);
    decide(&mut code, verdict);
    code.place(pass);
    code.set(R0, PASS);
    code.exit();
    code.finish()
}

/// A number as it is loaded from a frame, which has the high byte first.
fn half(number: u32) -> u32 {
    u32::from((number as u16).to_be())
}

fn word(bytes: [u8; 4]) -> u32 {
    u32::from_ne_bytes(bytes)
}

/// The frame has so many bytes, or it is not ours. The verifier wants to see it asked.
fn reach(code: &mut Assembler, bytes: u32, pass: Label) {
    code.copy(R4, R2);
    code.increase(R4, bytes as i32);
    code.if_greater(R4, R3, pass);
}

/// An interface that listens to everything sees frames of others.
fn to_us(code: &mut Assembler, [a, b, c, d, e, f]: [u8; 6], pass: Label) {
    code.load(Size::Word, R5, R2, 0);
    code.if_not_equal(R5, word([a, b, c, d]), pass);
    code.load(Size::Half, R5, R2, 4);
    code.if_not_equal(R5, u32::from(u16::from_ne_bytes([e, f])), pass);
}

fn match_ipv4(code: &mut Assembler, wanted: &Wanted, ours: Label, pass: Label) {
    code.load(Size::Byte, R5, R2, at::IP);
    code.if_not_equal(R5, is::PLAIN, pass);
    code.load(Size::Half, R5, R2, at::FRAGMENT);
    code.if_any(R5, half(is::FRAGMENTED), pass);
    code.load(Size::Byte, R5, R2, at::PROTOCOL);
    code.if_not_equal(R5, is::UDP, pass);
    code.load(Size::Half, R5, R2, at::PORT);
    code.if_not_equal(R5, half(wanted.port.into()), pass);
    if wanted.addresses.is_empty() {
        return code.jump(ours);
    }
    code.load(Size::Word, R5, R2, at::DESTINATION);
    for address in wanted.ipv4() {
        code.if_equal(R5, word(address.octets()), ours);
    }
    code.set(R0, PASS);
    code.exit();
}

fn match_ipv6(code: &mut Assembler, wanted: &Wanted, ours: Label, pass: Label) {
    reach(code, at::PORT_6 + 6, pass);
    code.load(Size::Byte, R5, R2, at::NEXT_6);
    code.if_not_equal(R5, is::UDP, pass);
    code.load(Size::Half, R5, R2, at::PORT_6);
    code.if_not_equal(R5, half(wanted.port.into()), pass);
    if wanted.addresses.is_empty() {
        return code.jump(ours);
    }
    for address in wanted.ipv6() {
        let next = code.label();
        for (place, bytes) in (0..).zip(address.octets().as_chunks().0) {
            code.load(Size::Word, R5, R2, at::DESTINATION_6 + 4 * place);
            code.if_not_equal(R5, word(*bytes), next);
        }
        code.jump(ours);
        code.place(next);
    }
    code.set(R0, PASS);
    code.exit();
}

fn decide(code: &mut Assembler, verdict: Verdict) {
    match verdict {
        Verdict::Map(map) => {
            code.load(Size::Word, R2, R6, QUEUE);
            code.load_map(R1, map);
            // What it returns if the map has nothing there.
            code.set(R3, PASS);
            code.call(REDIRECT_MAP);
        }
        #[cfg(test)]
        Verdict::Number(number) => code.set(R0, number),
    }
    code.exit();
}

#[cfg(test)]
mod tests {
    use std::os::fd::AsFd;

    use super::*;
    use crate::phy::wanted::sample;
    use crate::phy::xdp::bpf;

    /// The kernel itself runs the program. XDP_DROP stands for "ours".
    #[test]
    fn finds_ours() {
        const OURS: i32 = 1;
        for (wanted, frame, is_ours) in sample::cases() {
            // The kernel takes no frame without a header.
            if frame.len() < 14 {
                continue;
            }
            let code = program(&wanted, sample::HARDWARE, Verdict::Number(OURS));
            let loaded = bpf::load(&code).expect("root, and a sound program");
            let verdict = bpf::run(loaded.as_fd(), &frame, &mut []).expect("a run");
            let expected = if is_ours { OURS } else { PASS };
            assert_eq!(verdict, expected as u32, "{wanted:?} {frame:?}");
            let mut elsewhere = frame;
            elsewhere[5] ^= 1;
            let verdict = bpf::run(loaded.as_fd(), &elsewhere, &mut []).expect("a run");
            assert_eq!(verdict, PASS as u32);
        }
    }
}
