//! Messages that no honest peer sends.

use std::os::fd::AsRawFd;
use std::time::Duration;

use super::super::claimant::{Claimant, echo, knock};
use super::super::memory;
use super::super::scene::Scene;
use super::super::suitor::Suitor;
use super::super::wire::{self, KINDS, LONGEST};
use super::Outcome;

/// Says something to a victim that reads its mail, on a channel of its own, and lets it look.
fn say_on_new_channel(claimant: &Claimant, bytes: &[u8], fds: &[i32]) -> bool {
    let Some(channel) = knock(&claimant.offer) else {
        // Too many wait there: it is for the victim to look.
        return echo(&claimant.stream);
    };
    channel.send(bytes, fds);
    true
}

pub fn wrong_versions(scene: &mut Scene) -> Outcome {
    let claimant = Claimant::new(scene).ok_or("no offer")?;
    let page = memory::page();
    for version in [0, 1, 2, wire::VERSION + 1, u16::MAX] {
        say_on_new_channel(&claimant, &wire::hello(version, 1), &[page.as_raw_fd()]);
        claimant.talk(Duration::from_millis(5));
    }
    let mut suitor = Suitor::connect(scene);
    suitor.be_found().then_some(()).ok_or("nobody knocked")?;
    suitor.say(&wire::hello(wire::VERSION + 1, 1), &[page.as_raw_fd()]);
    suitor.rounds(50);
    std::mem::forget((suitor, claimant));
    Ok(())
}

pub fn greetings_without_end(scene: &mut Scene) -> Outcome {
    let claimant = Claimant::new(scene).ok_or("no offer")?;
    let said = (0..10_000).take_while(|_| claimant.greet()).count();
    claimant.talk(Duration::from_millis(50));
    std::mem::forget(claimant);
    (said > 1).then_some(()).ok_or("nothing could be said")
}

/// A bad message ends its channel, so each has one of its own.
pub fn every_kind_and_length(scene: &mut Scene) -> Outcome {
    let claimant = Claimant::new(scene).ok_or("no offer")?;
    let page = memory::page();
    for kind in (0..=KINDS).chain([0x7fff, u16::MAX]) {
        for length in (0..=LONGEST + 2).chain([100, 4000]) {
            let mut bytes = wire::message(kind, &[&vec![0; length]]);
            bytes
                .iter_mut()
                .skip(2)
                .for_each(|byte| *byte = scene.rng.bits() as u8);
            let fds = [page.as_raw_fd()];
            let count = scene.rng.below(2);
            say_on_new_channel(&claimant, &bytes, &fds[..count]);
        }
        claimant.talk(Duration::from_millis(2));
    }
    std::mem::forget(claimant);
    Ok(())
}

pub fn too_many_descriptors(scene: &mut Scene) -> Outcome {
    let claimant = Claimant::new(scene).ok_or("no offer")?;
    let page = memory::page();
    let hello = wire::hello(wire::VERSION, 1);
    for count in [2, 3, 100, 253] {
        say_on_new_channel(&claimant, &hello, &vec![page.as_raw_fd(); count]);
        let claim = wire::claim(1, 2, 0, 0);
        say_on_new_channel(&claimant, &claim, &vec![page.as_raw_fd(); count]);
        claimant.talk(Duration::from_millis(5));
    }
    std::mem::forget(claimant);
    Ok(())
}

/// What only a claiming side may say, or a daemon, is said to the side that claims.
pub fn to_who_claims(scene: &mut Scene) -> Outcome {
    let page = memory::page();
    for kind in 2..KINDS {
        let mut suitor = Suitor::connect(scene);
        suitor.be_found().then_some(()).ok_or("nobody knocked")?;
        suitor.greet();
        for length in [4, 6, 8, 9, 10, 16, 20, 24, 54] {
            let bytes = wire::message(kind, &[&vec![1; length]]);
            suitor.say(&bytes, &[]);
            suitor.say(&bytes, &[page.as_raw_fd()]);
        }
        suitor.rounds(5);
    }
    Ok(())
}

/// More channels than anybody needs, and each is kept open.
pub fn channels_without_end(scene: &mut Scene) -> Outcome {
    let claimant = Claimant::new(scene).ok_or("no offer")?;
    let hello = wire::hello(wire::VERSION, std::process::id());
    let page = memory::page();
    let mut kept = Vec::new();
    let (pid, random) = claimant.offer.mailbox;
    let file = scene.run_dir.join(wire::mailbox_name(pid, random));
    for number in 0..600 {
        let channel = match number % 2 {
            0 => knock(&claimant.offer),
            _ => wire::Channel::to_file(&file).ok(),
        };
        match channel {
            Some(channel) => {
                channel.send(&hello, &[page.as_raw_fd()]);
                kept.push(channel);
            }
            None => claimant.talk(Duration::from_millis(1)),
        }
    }
    claimant.talk(Duration::from_millis(50));
    std::mem::forget((claimant, kept));
    Ok(())
}
