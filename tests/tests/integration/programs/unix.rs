//! Programs that talk over Unix sockets: what they give on kernel sockets they must give with both ends under ulsock, and
//! with either end alone.

mod control;
mod desktop;
mod mariadb;
mod memcached;
mod pipes;
mod postgres;
mod processes;
mod redis;
mod runtimes;
mod ssh;
mod web;

use std::fs;
use std::os::unix::fs::chown;
use std::path::Path;
use std::process::Command;

use tests::ends::{Ends, kernel_only};
use tests::place::{Place, Rings};
use tests::program::user_ids;

/// Whether Unix sockets must be on rings where a test says so. While the sockets layer leaves them to the kernel, only
/// what the programs give is compared.
const ON_RINGS: bool = true;

/// Runs `scene` on kernel sockets, then under ulsock with default settings and with every connection moved at once, and
/// with one end alone under ulsock: the transcripts must be the same. `by_default` and `at_once` say how much of the bytes
/// rings must carry when both ends are under ulsock.
fn same_as_kernel_with(by_default: Rings, at_once: Rings, scene: impl Fn(&Place) -> String) {
    let kernel = transcript(Place::new(Ends::Kernel), Rings::Any, &scene);
    assert!(!kernel.is_empty(), "a transcript says what came of it");
    if kernel_only() {
        return;
    }
    for (place, rings) in [
        (Place::new(Ends::Both), by_default),
        (Place::new(Ends::Both).at_once(), at_once),
        (Place::new(Ends::Server).at_once(), at_once),
        (Place::new(Ends::Client).at_once(), at_once),
    ] {
        let ends = place.ends();
        same(&kernel, &transcript(place, rings, &scene), ends);
    }
}

/// The same for programs whose connections are too short for rings by default: without that run.
fn same_as_kernel(at_once: Rings, scene: impl Fn(&Place) -> String) {
    let kernel = transcript(Place::new(Ends::Kernel), Rings::Any, &scene);
    assert!(!kernel.is_empty(), "a transcript says what came of it");
    for &ends in Ends::all() {
        let place = Place::new(ends).at_once();
        same(&kernel, &transcript(place, at_once, &scene), ends);
    }
}

/// Runs `scene` in `place`, whose programs have all ended when it returns.
fn transcript(place: Place, rings: Rings, scene: impl Fn(&Place) -> String) -> String {
    let text = scene(&place);
    place.check_quiet();
    if ON_RINGS && rings != Rings::Any {
        place.check(rings);
    }
    text
}

fn same(kernel: &str, ours: &str, ends: Ends) {
    let differing: Vec<(&str, &str)> = kernel
        .lines()
        .zip(ours.lines())
        .filter(|(theirs, ours)| theirs != ours)
        .take(10)
        .collect();
    assert!(
        ours == kernel,
        "{ends:?}: {} and {} lines, kernel and ours {differing:#?}",
        kernel.lines().count(),
        ours.lines().count()
    );
}

/// Makes a folder that belongs to this user of the machine.
fn owned_folder(path: &Path, user: &str) {
    let (uid, gid) = user_ids(user);
    fs::create_dir(path).expect("a folder");
    chown(path, Some(uid), Some(gid)).expect("chown");
}

/// Copies a folder of one place into another, with its owners.
fn copy_folder(from: &Place, to: &Place, name: &str) {
    let [source, copy] = [from, to].map(|place| place.folder().join(name));
    let status = Command::new("cp").arg("-a").args([source, copy]).status();
    assert!(status.expect("cp runs").success(), "copy {name}");
}
