//! Memory that is not what it should be, or does not stay so.

use std::fs::File;
use std::os::fd::{AsRawFd, OwnedFd};
use std::time::Duration;

use super::super::claimant::{Claimant, knock};
use super::super::memory::{self, CONNS, FIXED, memfd, segment_size};
use super::super::scene::Scene;
use super::super::suitor::Suitor;
use super::super::unix;
use super::super::wire;
use super::Outcome;

/// What is not a memfd of that size whose size is fixed.
fn wrong(size: u64) -> Vec<OwnedFd> {
    let shrinks = libc::F_SEAL_GROW | libc::F_SEAL_SEAL;
    let made = [
        memfd(size, 0, false),
        memfd(size, shrinks, false),
        memfd(size, libc::F_SEAL_SHRINK | libc::F_SEAL_GROW, false),
        memfd(size - 4096, FIXED, false),
        memfd(size + 4096, FIXED, false),
        memfd(0, FIXED, false),
        memfd(size, FIXED | libc::F_SEAL_WRITE, false),
        memfd(size.next_multiple_of(2 << 20), FIXED, true),
    ];
    let files = ["/dev/zero", "/dev/null", "/proc/self/exe", "/"].map(File::open);
    let files = files.into_iter().flatten().map(OwnedFd::from);
    let sockets = unix::socket_pair(libc::SOCK_STREAM);
    let others = [unix::eventfd(0)].into_iter().chain(sockets);
    made.into_iter()
        .flatten()
        .chain(files)
        .chain(others)
        .collect()
}

pub fn wrong_pages(scene: &mut Scene) -> Outcome {
    let claimant = Claimant::new(scene).ok_or("no offer")?;
    let mut channels = Vec::new();
    for page in wrong(memory::PAGE) {
        let channel = knock(&claimant.offer).ok_or("no mailbox")?;
        channel.send(&wire::hello(wire::VERSION, 1), &[page.as_raw_fd()]);
        claimant.talk(Duration::from_millis(5));
        channels.push(channel);
    }
    std::mem::forget((claimant, channels));
    Ok(())
}

pub fn wrong_segments(scene: &mut Scene) -> Outcome {
    let mut kept = Vec::new();
    for segment in wrong(segment_size(CONNS)) {
        let claimant = Claimant::new(scene).ok_or("no offer")?;
        claimant.greet();
        claimant.give(&segment);
        claimant.claim(0);
        claimant.talk(Duration::from_millis(10));
        kept.push(claimant);
    }
    let good = memory::segment();
    for (number, conns) in [(1, CONNS), (0, 0), (0, 63), (0, 1024), (u32::MAX, u32::MAX)] {
        let claimant = Claimant::new(scene).ok_or("no offer")?;
        claimant.greet();
        let message = wire::segment(number, conns);
        claimant.say(&message, &[good.as_raw_fd()]);
        claimant.claim(0);
        claimant.talk(Duration::from_millis(10));
        kept.push(claimant);
    }
    std::mem::forget(kept);
    Ok(())
}

/// Each asks for 11 GB of address space.
pub fn segments_without_end(scene: &mut Scene) -> Outcome {
    let claimant = Claimant::new(scene).ok_or("no offer")?;
    let large = memfd(segment_size(1024), FIXED, false).ok_or("no memfd")?;
    claimant.greet();
    for number in 0..64 {
        let message = wire::segment(number, 1024);
        if !claimant.say(&message, &[large.as_raw_fd()]) {
            claimant.talk(Duration::from_millis(2));
        }
    }
    claimant.talk(Duration::from_millis(50));
    std::mem::forget(claimant);
    Ok(())
}

/// Its pages go, again and again, while the victim uses them.
pub fn taken_away(scene: &mut Scene) -> Outcome {
    let (claimant, words) = Claimant::is_taken(scene).ok_or("not confirmed")?;
    let direction = memory::direction(0, memory::OFFERER);
    words.put(direction + memory::WISH, 8, 1);
    for _ in 0..100 {
        words.punch(0, segment_size(CONNS));
        claimant.talk(Duration::from_millis(1));
        words.put(direction + memory::WISH, 8, 1);
    }
    std::mem::forget((claimant, words));
    Ok(())
}

/// Connections that are closed, one after the other, and whose blocks this side never lets go of.
pub fn never_released(scene: &mut Scene) -> Outcome {
    let mut suitor = Suitor::connect(scene);
    let found = suitor.be_found() && suitor.greet();
    let (words, _) = found
        .then(|| suitor.be_claimed())
        .flatten()
        .ok_or("no claim")?;
    for _ in 0..1500 {
        suitor = suitor.connect_again(scene);
        suitor.table.publish(&suitor.offer());
        suitor.rounds(6);
        suitor.drop_mail();
    }
    std::mem::forget((suitor, words));
    Ok(())
}
