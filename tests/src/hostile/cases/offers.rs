//! Offers that are forged, and tables that are none.

use std::fs;
use std::os::fd::AsRawFd;
use std::os::unix::fs::symlink;
use std::process::Command;

use super::super::offers::{SIZE, path};
use super::super::scene::Scene;
use super::super::suitor::Suitor;
use super::super::unix::cookie;
use super::Outcome;

/// The attacks that follow have a good table.
fn clean(scene: &Scene) -> Outcome {
    if scene.uid == scene.victim_uid {
        return Ok(());
    }
    fs::remove_file(path(&scene.run_dir, scene.uid)).map_err(|_| "no table")
}

/// Every port that the victim's clients could have.
pub fn for_others(scene: &mut Scene) -> Outcome {
    let mut suitor = Suitor::connect(scene);
    let true_offer = suitor.offer();
    for port in (32768..61000).step_by(3) {
        suitor
            .table
            .publish(&true_offer.for_others(port, scene.port));
    }
    suitor.rounds(50);
    std::mem::forget(suitor);
    clean(scene)
}

/// A table with a random byte at every place, and with slots that are half right.
pub fn of_nonsense(scene: &mut Scene) -> Outcome {
    // The table of the victim's own user is no stranger's to write.
    if scene.uid == scene.victim_uid {
        return Ok(());
    }
    let mut suitor = Suitor::connect(scene);
    let nonsense: Vec<u8> = (0..SIZE - 16).map(|_| scene.rng.bits() as u8).collect();
    suitor.table.write(16, &nonsense);
    suitor.rounds(20);
    suitor.table.publish(&suitor.offer());
    suitor.rounds(50);
    std::mem::forget(suitor);
    clean(scene)
}

/// It gets shorter, longer and empty, while the victim looks at it.
pub fn truncated(scene: &mut Scene) -> Outcome {
    if scene.uid == scene.victim_uid {
        return Ok(());
    }
    for length in [SIZE - 1, 4096, 100, 0, 2 * SIZE, 1 << 40] {
        let mut suitor = Suitor::connect(scene);
        suitor.table.publish(&suitor.offer());
        suitor.round();
        suitor.table.set_length(length);
        suitor.rounds(10);
        clean(scene)?;
    }
    Ok(())
}

/// In its place is what could make somebody wait, or leads elsewhere.
pub fn no_file(scene: &mut Scene) -> Outcome {
    if scene.uid == scene.victim_uid {
        return Ok(());
    }
    let path = path(&scene.run_dir, scene.uid);
    for what in 0..4 {
        let mut suitor = Suitor::connect(scene);
        fs::remove_file(&path)
            .or_else(|_| fs::remove_dir(&path))
            .ok();
        match what {
            0 => fs::create_dir(&path).map_err(|_| "no folder")?,
            1 => symlink("/dev/zero", &path).map_err(|_| "no link")?,
            2 => drop(Command::new("mkfifo").arg(&path).status()),
            _ => fs::write(&path, "").map_err(|_| "no file")?,
        }
        suitor.rounds(30);
        fs::remove_file(&path)
            .or_else(|_| fs::remove_dir(&path))
            .ok();
    }
    Ok(())
}

/// The connection is ours, and the cookie another's.
pub fn other_cookies(scene: &mut Scene) -> Outcome {
    let mut suitors = Vec::new();
    let true_cookie = |suitor: &Suitor| cookie(suitor.stream.as_raw_fd());
    for wrong in [0, 1, u64::MAX] {
        let mut suitor = Suitor::connect(scene);
        let cookie = true_cookie(&suitor).wrapping_add(1) & wrong;
        suitor.table.publish(&suitor.offer().with_cookie(cookie));
        suitor.rounds(30);
        if suitor.mailbox.accept().is_some() {
            return Err("the victim has knocked at a forged offer");
        }
        suitors.push(suitor);
    }
    std::mem::forget(suitors);
    Ok(())
}
