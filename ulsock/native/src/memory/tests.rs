//! Owner and writers of a region within one process, where some do what they should not.

use std::os::fd::AsFd;
use std::sync::Arc;
use std::sync::mpsc::channel;
use std::thread;
use std::time::Duration;

use os::fds::{InternalFd, duplicate_high};
use rustix::event::{EventfdFlags, PollFd, PollFlags, eventfd, poll};
use rustix::fs::{MemfdFlags, OFlags, fcntl_setfl, ftruncate, memfd_create};
use rustix::io::{read, write};
use rustix::pipe::pipe;
use rustix::time::Timespec;

use super::bell::{Bell, Told};
use super::owner::Owner;
use super::wires::Fires;
use super::writer::{PARTS, Writer};

const SIZE: usize = 10_000;

/// Where the bell is among the parts.
const BELL: usize = 3;

fn owner() -> (Arc<Bell>, Arc<Owner>) {
    let bell = Arc::new(Bell::new().expect("a bell"));
    let owner = Owner::new(1, [0; 16], SIZE, &bell).expect("a region");
    let wire = owner.wires(|wires, tables| wires.add(0..8, Fires::Always, tables));
    wire.expect("a wire");
    (bell, owner)
}

fn parts(owner: &Owner) -> Vec<InternalFd> {
    owner.share().expect("shared").expect("a place").1
}

fn writer(owner: &Owner) -> Writer {
    Writer::adopt(parts(owner), SIZE).expect("a writer")
}

fn is_readable(bell: &Bell) -> bool {
    let mut list = [PollFd::from_borrowed_fd(bell.wait_fd(), PollFlags::IN)];
    poll(&mut list, Some(&Timespec::default())).expect("polled") > 0
}

fn fired(bell: &Bell) -> usize {
    let mut all = Vec::new();
    bell.collect(|told| all.push(told));
    all.iter().filter_map(Told::take).count()
}

#[test]
fn a_writer_wakes_a_sleeper() {
    let (bell, owner) = owner();
    let writers = [writer(&owner), writer(&owner)];
    for writer in writers.iter().cycle().take(10) {
        writer.write(0, b"awake").expect("written");
        assert!(!is_readable(&bell));
        assert_eq!(fired(&bell), 1);
        bell.sleep().begin();
        writer.write(100, b"elsewhere").expect("written");
        assert!(!is_readable(&bell));
        writer.write(0, b"asleep").expect("written");
        assert!(is_readable(&bell));
        bell.drain();
        assert!(!is_readable(&bell));
        assert_eq!(fired(&bell), 1);
        bell.sleep().end();
    }
}

/// Importers have the descriptors of their bells, and can take rings off.
#[test]
fn no_importer_hushes_another() {
    let (bell, owner) = owner();
    let (honest, other) = (writer(&owner), parts(&owner));
    bell.sleep().begin();
    for round in 0..10 {
        honest.write(0, &[round]).expect("written");
        while read(&other[BELL], &mut [0; 8]).is_ok() {}
        assert!(is_readable(&bell));
        bell.drain();
        assert_eq!(fired(&bell), 1);
    }
}

/// Nor make a call of another, or of the owner, wait.
#[test]
fn no_importer_stops_another() {
    let (bell, owner) = owner();
    let (honest, other) = (writer(&owner), parts(&owner));
    bell.sleep().begin();
    write(&other[BELL], &(u64::MAX - 1).to_ne_bytes()).expect("full");
    fcntl_setfl(&other[BELL], OFlags::RDWR).expect("blocking");
    let (done, is_done) = channel();
    thread::spawn(move || {
        for round in 0..3 {
            honest.write(0, &[round]).expect("written");
            assert_eq!(fired(&bell), 1);
            bell.ring();
            bell.drain();
            let _ = read(&other[BELL], &mut [0; 8]);
            bell.drain();
            // Full once more.
            let full = (u64::MAX - 1).to_ne_bytes();
            write(&other[BELL], &full).expect("full");
        }
        done.send(()).expect("somebody waits");
    });
    is_done
        .recv_timeout(Duration::from_secs(10))
        .expect("it does not wait");
}

fn high(fd: impl AsFd) -> InternalFd {
    duplicate_high(fd.as_fd()).expect("a descriptor")
}

/// A giver may give anything.
#[test]
fn what_is_not_as_it_should_be_is_refused() {
    let (_bell, owner) = owner();
    let resizable = memfd_create(c"test", MemfdFlags::ALLOW_SEALING).expect("a memfd");
    ftruncate(&resizable, SIZE.next_multiple_of(4096) as u64).expect("a size");
    let (reads, writes) = pipe().expect("a pipe");
    let blocking = eventfd(0, EventfdFlags::CLOEXEC).expect("an eventfd");
    let zeros = std::fs::File::open("/dev/zero").expect("zeros");
    for at in 0..PARTS {
        for wrong in [
            high(&resizable),
            high(&reads),
            high(&writes),
            high(&blocking),
            high(&zeros),
        ] {
            let mut parts = parts(&owner);
            parts[at] = wrong;
            assert!(Writer::adopt(parts, SIZE).is_err(), "{at}");
        }
    }
    for size in [0, SIZE / 3, SIZE * 2, usize::MAX] {
        assert!(Writer::adopt(parts(&owner), size).is_err(), "{size}");
    }
    for (one, other) in [(0, 1), (0, 4), (1, 2), (3, 4)] {
        let mut parts = parts(&owner);
        parts.swap(one, other);
        assert!(Writer::adopt(parts, SIZE).is_err(), "{one} {other}");
    }
    let mut few = parts(&owner);
    few.pop();
    assert!(Writer::adopt(few, SIZE).is_err());
}
