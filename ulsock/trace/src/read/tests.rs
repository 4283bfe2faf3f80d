use std::fs::{self, File};
use std::mem::offset_of;
use std::time::Duration;

use super::*;
use crate::entry::Phase;
use crate::layout::{Head, Header};

const BEGAN: u64 = 1000;

/// A recording of so many chunks, which all are given.
fn recording(chunks: u32) -> Vec<u8> {
    let mut bytes = vec![0; size(chunks)];
    set(&mut bytes, offset_of!(Header, magic), MAGIC);
    set(&mut bytes, offset_of!(Header, began), BEGAN);
    half_set(&mut bytes, offset_of!(Header, pid), 7);
    half_set(&mut bytes, offset_of!(Header, chunks), chunks);
    half_set(&mut bytes, offset_of!(Header, given), chunks);
    bytes
}

fn set(bytes: &mut [u8], at: usize, word: u64) {
    bytes[at..at + 8].copy_from_slice(&word.to_le_bytes());
}

fn half_set(bytes: &mut [u8], at: usize, word: u32) {
    bytes[at..at + 4].copy_from_slice(&word.to_le_bytes());
}

/// Gives a chunk to a thread, and so many entries.
fn fill(bytes: &mut [u8], chunk: u32, tid: u32, entries: usize) {
    let at = size(chunk);
    half_set(bytes, at + offset_of!(Head, pid), 7);
    half_set(bytes, at + offset_of!(Head, tid), tid);
    half_set(bytes, at + offset_of!(Head, used), entries as u32);
    for number in 0..entries {
        let entry = Entry::Phase {
            phase: Phase::Awake,
            start: BEGAN,
            end: BEGAN + number as u64,
        };
        for (word, value) in entry.words().into_iter().enumerate() {
            set(bytes, at + ENTRY * (1 + number) + 8 * word, value);
        }
    }
}

fn read(bytes: &[u8]) -> Option<Recording> {
    let place = tempfile::NamedTempFile::new().expect("a file");
    fs::write(place.path(), bytes).expect("written");
    file(&File::open(place.path()).expect("opened")).expect("read")
}

#[test]
fn threads_are_put_together() {
    let mut bytes = recording(3);
    fill(&mut bytes, 0, 7, ENTRIES);
    fill(&mut bytes, 1, 8, 2);
    fill(&mut bytes, 2, 7, 3);
    let read = read(&bytes).expect("a recording");
    let counts: Vec<_> = read
        .threads
        .iter()
        .map(|it| (it.tid, it.entries.len()))
        .collect();
    assert_eq!((counts, read.broken), (vec![(7, ENTRIES + 3), (8, 2)], 0));
}

#[test]
fn what_is_cut_off_is_counted() {
    let mut bytes = recording(2);
    fill(&mut bytes, 0, 7, 5);
    for length in [0, 1, HEADER - 1] {
        assert!(read(&bytes[..length]).is_none(), "{length}");
    }
    for length in [HEADER, size(1) - 1, size(1), size(2) - 1] {
        let read = read(&bytes[..length]).expect("a recording");
        let entries: usize = read.threads.iter().map(|it| it.entries.len()).sum();
        let whole = length >= size(1);
        assert_eq!(
            (entries, read.broken),
            (if whole { 5 } else { 0 }, 1),
            "{length}"
        );
    }
}

/// As of a program that was killed between the words of an entry.
#[test]
fn an_entry_without_its_first_word_is_left_out() {
    let mut bytes = recording(1);
    fill(&mut bytes, 0, 7, 3);
    set(&mut bytes, size(0) + ENTRY * 2, 0);
    let read = read(&bytes).expect("a recording");
    assert_eq!((read.threads[0].entries.len(), read.broken), (2, 1));
}

#[test]
fn times_of_another_age_are_left_out() {
    let mut bytes = recording(1);
    fill(&mut bytes, 0, 7, 3);
    set(&mut bytes, offset_of!(Header, began), BEGAN + 1);
    assert_eq!(read(&bytes).expect("a recording").broken, 3);
    set(&mut bytes, offset_of!(Header, began), 0);
    set(&mut bytes, size(0) + ENTRY + 16, u64::MAX);
    assert_eq!(read(&bytes).expect("a recording").broken, 1);
}

#[test]
fn what_is_no_recording_is_passed_over() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = |name: &str| folder.path().join(name);
    fs::write(path("text"), "not ours").expect("written");
    fs::create_dir(path("folder")).expect("made");
    std::os::unix::fs::symlink("/dev/zero", path("link")).expect("made");
    let pipe = std::process::Command::new("mkfifo")
        .arg(path("pipe"))
        .status();
    assert!(pipe.expect("mkfifo").success());
    fs::write(path("good"), recording(1)).expect("written");
    let (found, others) = super::folder(folder.path()).expect("read");
    assert_eq!((found.len(), others), (1, 4));
}

/// Whatever it has written, a program cannot make the reader panic, or keep it busy for long.
#[test]
fn whatever_is_written() {
    let target = bolero::check!().with_test_time(Duration::from_secs(1));
    target.for_each(|scribble: &[u8]| {
        let mut bytes = recording(2);
        fill(&mut bytes, 0, 7, 20);
        fill(&mut bytes, 1, 8, 20);
        // Pieces of nine bytes: where, and what.
        for piece in scribble.chunks_exact(9) {
            let at = usize::from(u16::from_le_bytes([piece[0], piece[1]])) % (size(2) / 8) * 8;
            // Most is written to where something stands.
            let at = if piece[2] < 200 {
                at % (HEADER + 21 * ENTRY)
            } else {
                at
            };
            let at = at / 8 * 8;
            bytes[at..at + 6].copy_from_slice(&piece[3..9]);
        }
        if let Some(read) = read(&bytes) {
            let entries: usize = read.threads.iter().map(|it| it.entries.len()).sum();
            assert!(entries <= 2 * ENTRIES);
        }
    });
}
