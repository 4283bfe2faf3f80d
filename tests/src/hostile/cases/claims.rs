//! Claims of what is not one's own.

use std::os::fd::AsRawFd;
use std::time::{Duration, Instant};

use super::super::claimant::{Claimant, be_called};
use super::super::memory::{self, CONFIRMED, CONNS, OFFERER, Words};
use super::super::offers;
use super::super::scene::Scene;
use super::super::unix::{check, cookie};
use super::super::wire;
use super::Outcome;

/// A channel on which all is right but the claims.
fn prepared(scene: &Scene) -> Option<(Claimant, Words)> {
    let claimant = Claimant::new(scene)?;
    let segment = memory::segment();
    claimant.greet();
    claimant.give(&segment);
    Some((claimant, Words::of(segment)))
}

/// No block may be taken: the connection is another's, or the cookie was guessed.
pub fn guessed(scene: &mut Scene) -> Outcome {
    let mut kept = Vec::new();
    for guess in 0..6 {
        let (claimant, words) = prepared(scene).ok_or("no offer")?;
        let (theirs, ours) = (claimant.offer.cookie, cookie(claimant.stream.as_raw_fd()));
        let (offered, claiming) = match guess {
            0 => (theirs, 0),
            1 => (theirs, ours + 1),
            2 => (theirs, theirs),
            3 => (theirs + 1, ours),
            4 => (ours, theirs),
            _ => (0, 0),
        };
        claimant.say(&wire::claim(offered, claiming, 0, 0), &[]);
        claimant.talk(Duration::from_millis(30));
        if words.stage(0, OFFERER) == CONFIRMED {
            return Err("a guessed claim was believed");
        }
        kept.push((claimant, words));
    }
    std::mem::forget(kept);
    Ok(())
}

/// False ones by the thousand, for everything that is on offer.
pub fn without_end(scene: &mut Scene) -> Outcome {
    let (claimant, words) = prepared(scene).ok_or("no offer")?;
    let cookies: Vec<u64> = offers::read(&scene.run_dir, scene.victim_uid)
        .iter()
        .map(|offer| offer.cookie)
        .collect();
    let end = Instant::now() + Duration::from_millis(400);
    for round in (0_u32..).take_while(|_| Instant::now() < end) {
        let cookie = cookies[round as usize % cookies.len()];
        let claim = wire::claim(cookie, round.into(), 0, round % CONNS);
        if !claimant.say(&claim, &[]) {
            claimant.talk(Duration::from_millis(1));
        }
    }
    std::mem::forget((claimant, words));
    Ok(())
}

pub fn of_blocks_that_are_not(scene: &mut Scene) -> Outcome {
    let mut kept = Vec::new();
    for (segment, conn) in [(0, CONNS), (0, u32::MAX), (1, 0), (u32::MAX, 0)] {
        let (claimant, words) = prepared(scene).ok_or("no offer")?;
        let ours = cookie(claimant.stream.as_raw_fd());
        let claim = wire::claim(claimant.offer.cookie, ours, segment, conn);
        claimant.say(&claim, &[]);
        claimant.talk(Duration::from_millis(20));
        kept.push((claimant, words));
    }
    std::mem::forget(kept);
    Ok(())
}

/// One connection in two blocks, and two connections in one.
pub fn twice(scene: &mut Scene) -> Outcome {
    let (one, words) = prepared(scene).ok_or("no offer")?;
    one.claim(0);
    one.claim(0);
    one.claim(1);
    one.talk(Duration::from_millis(50));
    let (two, more) = prepared(scene).ok_or("no offer")?;
    two.claim(0);
    let ours = cookie(two.stream.as_raw_fd());
    one.say(&wire::claim(two.offer.cookie, ours, 0, 0), &[]);
    two.talk(Duration::from_millis(50));
    std::mem::forget((one, words, two, more));
    Ok(())
}

/// The claim is true in all it says, but comes out of another network namespace than that of the connection.
pub fn from_another_namespace(scene: &mut Scene) -> Outcome {
    let (stream, offer) = be_called(scene).ok_or("no offer")?;
    // SAFETY: it takes flags alone.
    check(unsafe { libc::unshare(libc::CLONE_NEWNET) }).map_err(|_| "no network namespace")?;
    scene.change_user();
    let (pid, random) = offer.mailbox;
    let file = scene.run_dir.join(wire::mailbox_name(pid, random));
    let claimant = Claimant {
        stream,
        offer,
        channel: wire::Channel::to_file(&file).map_err(|_| "no mailbox")?,
    };
    let segment = memory::segment();
    claimant.greet();
    claimant.give(&segment);
    claimant.claim(0);
    let words = Words::of(segment);
    let believed = claimant.is_confirmed(&words, 0);
    std::mem::forget((claimant, words));
    match believed {
        true => Err("a claim from another namespace was believed"),
        false => Ok(()),
    }
}
