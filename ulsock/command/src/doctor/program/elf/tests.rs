//! Real programs are read; broken ones do no harm.

use std::path::Path;
use std::time::Duration;

use super::*;

fn this_program() -> Vec<u8> {
    std::fs::read("/proc/self/exe").expect("this program")
}

const ASKED: [&str; 4] = ["read", "socket", "connect", "no_such_function"];

fn elf(bytes: &[u8]) -> Elf {
    match read(bytes, &ASKED) {
        Some(Kind::Bits64(elf)) => elf,
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_program_says_what_it_needs() {
    let elf = elf(&this_program());
    let loader = elf.interpreter.expect("a loader");
    assert!(
        Path::new(&loader).exists() && loader.contains("ld-linux"),
        "{loader}"
    );
    assert!(
        elf.needed.iter().any(|name| name.starts_with("libc.so")),
        "{:?}",
        elf.needed
    );
    let imports: Vec<_> = elf.imports.into_iter().collect();
    assert_eq!(imports, ["connect", "read", "socket"]);
    assert_eq!(elf.go, None);
}

#[test]
fn without_section_headers_the_same() {
    let mut bytes = this_program();
    let whole = elf(&bytes);
    bytes[58..64].fill(0);
    let stripped = elf(&bytes);
    // Linkers may put a little between the two tables.
    assert!(whole.imports.is_subset(&stripped.imports));
}

#[test]
fn what_is_none_of_ours_is_told_apart() {
    let mut bytes = this_program();
    bytes[18] = 183;
    assert_eq!(read(&bytes[..], &ASKED), Some(Kind::Foreign(183)));
    bytes[4] = CLASS_32;
    assert_eq!(read(&bytes[..], &ASKED), Some(Kind::Bits32));
    assert_eq!(read(&b"#!/bin/sh\n echo, and some more"[..], &ASKED), None);
    assert_eq!(read(&b""[..], &ASKED), None);
}

/// A program of its own, by hand: a note of Go's linker, no loader.
#[test]
fn go_is_known_by_its_note() {
    let mut bytes = vec![0; 256];
    bytes[..6].copy_from_slice(b"\x7fELF\x02\x01");
    bytes[18] = 62;
    bytes[32] = 64;
    bytes[54] = 56;
    bytes[56] = 1;
    bytes[64] = PT_NOTE as u8;
    bytes[64 + 8] = 128;
    bytes[64 + 32] = 24;
    bytes[128..148].copy_from_slice(b"\x04\0\0\0\x04\0\0\0\x04\0\0\0Go\0\0abcd");
    let elf = elf(&bytes);
    assert!(matches!(elf.go, Some(Err(_))) && elf.interpreter.is_none());
}

/// Headers that lead anywhere: no panic, no memory without bound.
#[test]
fn fuzz() {
    let mut bytes = this_program();
    bytes.truncate(64 << 10);
    let target = bolero::check!().with_test_time(Duration::from_secs(1));
    let target = target.with_type::<Vec<(u16, u64)>>();
    target.for_each(|changes| {
        let mut bytes = bytes.clone();
        for (at, value) in changes {
            // Mostly where the headers are.
            let at = usize::from(*at) % if at % 2 == 0 { 1024 } else { bytes.len() - 8 };
            bytes[at..at + 8].copy_from_slice(&value.to_le_bytes());
        }
        bytes[..4].copy_from_slice(b"\x7fELF");
        read(&bytes[..], &ASKED);
    });
}
