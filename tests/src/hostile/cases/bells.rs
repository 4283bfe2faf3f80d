//! Bells of every sort, for everybody, and rung without end.

use std::fs::File;
use std::os::fd::{AsRawFd, OwnedFd};
use std::time::{Duration, Instant};

use super::super::claimant::{Claimant, knock};
use super::super::memory;
use super::super::scene::Scene;
use super::super::suitor::Suitor;
use super::super::unix;
use super::super::wire::{self, DOORBELL, EVENT, PAIR};
use super::Outcome;

/// What could block whoever rings it, or is somebody else's service.
pub fn of_every_sort(scene: &mut Scene) -> Outcome {
    let claimant = Claimant::new(scene).ok_or("no offer")?;
    let service = scene
        .run_dir
        .join(format!("service.{}", std::process::id()));
    let files = ["/dev/null", "/proc/self/stat", "/"].map(File::open);
    let files = files.into_iter().flatten().map(OwnedFd::from);
    let mut bells = vec![
        unix::eventfd(0),
        unix::eventfd(libc::EFD_NONBLOCK),
        memory::page(),
    ];
    bells.extend(unix::socket_pair(libc::SOCK_STREAM));
    bells.extend(unix::socket_pair(libc::SOCK_DGRAM));
    bells.extend(unix::led_to_service(&service));
    bells.extend(files);
    let mut channels = Vec::new();
    for bell in &bells {
        for kind in [EVENT, PAIR, 2, 255] {
            let channel = knock(&claimant.offer).ok_or("no mailbox")?;
            let page = memory::page();
            channel.send(&wire::hello(wire::VERSION, 1), &[page.as_raw_fd()]);
            channel.send(&wire::doorbell(0, kind), &[bell.as_raw_fd()]);
            channels.push(channel);
        }
        claimant.talk(Duration::from_millis(5));
    }
    std::fs::remove_file(service).expect("the service");
    std::mem::forget((claimant, channels, bells));
    Ok(())
}

/// One for each waiter that there could be, and for some that there cannot be.
pub fn for_everybody(scene: &mut Scene) -> Outcome {
    let claimant = Claimant::new(scene).ok_or("no offer")?;
    claimant.greet();
    let [bell, far] = unix::socket_pair(libc::SOCK_DGRAM);
    for waiter in (0..5000).chain([65535, u32::MAX]) {
        if !claimant.say(&wire::doorbell(waiter, PAIR), &[bell.as_raw_fd()]) {
            claimant.talk(Duration::from_millis(1));
        }
    }
    claimant.talk(Duration::from_millis(50));
    std::mem::forget((claimant, bell, far));
    Ok(())
}

/// Gets the victim's own bells, by a connection that it waits for.
fn bells_of_victim(scene: &mut Scene) -> Option<(Suitor, Vec<OwnedFd>)> {
    let (mut suitor, words, conn) = Suitor::be_taken(scene)?;
    suitor.rounds(5);
    // The victim waits for what comes by the ring, and so hands a bell over.
    words.enter_ring(memory::direction(conn, memory::OFFERER), 0);
    std::thread::sleep(Duration::from_millis(100));
    let channel = suitor.channel.as_ref()?;
    let letters = std::iter::from_fn(|| channel.receive().filter(|it| !it.bytes.is_empty()));
    suitor.letters.extend(letters);
    let bells = suitor.letters.iter_mut().filter(|it| it.kind() == DOORBELL);
    let bells: Vec<OwnedFd> = bells.flat_map(|it| it.fds.drain(..)).collect();
    (!bells.is_empty()).then_some((suitor, bells))
}

pub fn rung_without_end(scene: &mut Scene) -> Outcome {
    let (suitor, bells) = bells_of_victim(scene).ok_or("no bells")?;
    let end = Instant::now() + Duration::from_millis(300);
    while Instant::now() < end {
        for bell in &bells {
            // SAFETY: eight bytes of a constant; an eventfd takes them, a socket, too.
            unsafe { libc::write(bell.as_raw_fd(), 1_u64.to_ne_bytes().as_ptr().cast(), 8) };
        }
    }
    std::mem::forget((suitor, bells));
    Ok(())
}

/// Nobody can ring them any more, and nobody may be woken by that for ever.
pub fn shut(scene: &mut Scene) -> Outcome {
    let (suitor, bells) = bells_of_victim(scene).ok_or("no bells")?;
    for bell in &bells {
        // SAFETY: plain integers.
        unsafe { libc::shutdown(bell.as_raw_fd(), libc::SHUT_RDWR) };
    }
    std::mem::forget((suitor, bells));
    Ok(())
}
