//! One case for each symbol of the preload library: `symbols kind=KIND [case=NAME]`. Each case runs
//! in a process of its own on two descriptors of that kind and prints what its calls returned; the
//! test compares that with and without ulsock. With ulsock it also demands what the table says of
//! the symbol: that the connection is still accelerated afterwards, or has returned to the kernel.
//! Scenarios of several calls follow, which need no row in the table.

mod data;
mod exec;
mod files;
mod lifecycle;
mod messages;
mod options;
mod process;
mod raw;
mod readiness;
mod scenarios;
mod scene;
mod signals;
mod special;
mod streams;
mod uring;

use std::collections::BTreeMap;
use std::io::Write;

use scenarios::SCENARIOS;
use scene::{Kind, Scene};
use tests::args::Args;

/// A symbol and what to do with it.
pub type Case = (&'static str, fn(&mut Scene, &'static str));

const GROUPS: &[&[Case]] = &[
    data::CASES,
    messages::CASES,
    lifecycle::CASES,
    options::CASES,
    readiness::CASES,
    files::CASES,
    streams::CASES,
    exec::CASES,
    process::CASES,
    signals::CASES,
    special::CASES,
    uring::CASES,
];

/// A case takes no longer.
const SECONDS: u32 = 30;

/// What the table says that a symbol does to an accelerated connection.
fn effects() -> BTreeMap<&'static str, &'static str> {
    let table = include_str!("../../../../preload/symbols.txt");
    let rows = table
        .lines()
        .filter(|line| !line.is_empty() && !line.starts_with('#'));
    rows.map(|row| row.split_once(' ').expect("name and effect"))
        .collect()
}

pub fn under_ulsock() -> bool {
    std::env::var("LD_PRELOAD").is_ok_and(|list| list.contains("ulsock"))
}

fn main() {
    let args = Args::from_env();
    let name: String = args.get("kind");
    let kind = Kind::ALL
        .into_iter()
        .find(|kind| format!("{kind:?}").to_lowercase() == name)
        .expect("kind");
    let only: String = args.get_or("case", String::new());
    let effects = effects();
    let mut cases: BTreeMap<_, _> = GROUPS.iter().copied().flatten().copied().collect();
    let untested: Vec<_> = effects
        .keys()
        .filter(|name| !cases.contains_key(*name))
        .collect();
    let unknown: Vec<_> = cases
        .keys()
        .filter(|name| !effects.contains_key(*name))
        .collect();
    assert!(
        untested.is_empty() && unknown.is_empty(),
        "symbols without a case: {untested:?}; cases without a symbol: {unknown:?}"
    );
    cases.retain(|name, _| only.is_empty() || *name == only);
    let mut failed: Vec<_> = cases
        .into_iter()
        .filter(|(name, run)| !in_a_child(|| play_symbol(kind, name, *run, effects[name])))
        .map(|(name, _)| name)
        .collect();
    if matches!(kind, Kind::Tcp | Kind::Kernel) {
        let wanted = SCENARIOS
            .iter()
            .filter(|(name, ..)| only.is_empty() || *name == only);
        let played =
            wanted.filter(|(name, effect, run)| !in_a_child(|| play(kind, name, effect, run)));
        failed.extend(played.map(|(name, ..)| name));
    }
    assert!(failed.is_empty(), "failed: {failed:?}");
}

/// Runs `play` in a child; did it end well?
fn in_a_child(play: impl FnOnce()) -> bool {
    // SAFETY: this process has one thread; the child runs the case and ends.
    unsafe {
        match libc::fork() {
            0 => {
                libc::alarm(SECONDS);
                play();
                std::process::exit(0)
            }
            child => {
                let mut status = 0;
                libc::waitpid(child, &mut status, 0);
                status == 0
            }
        }
    }
}

fn play_symbol(kind: Kind, name: &'static str, run: fn(&mut Scene, &'static str), effect: &str) {
    if under_ulsock() && !scene::address(name).is_null() {
        let ours = library_of(name).contains("ulsock");
        assert_eq!(
            ours,
            effect != "kernel",
            "{name} comes from the right library"
        );
    }
    play(kind, name, effect, |scene| run(scene, name));
}

fn play(kind: Kind, name: &str, effect: &str, run: impl FnOnce(&mut Scene)) {
    // SAFETY: no handler.
    unsafe { libc::signal(libc::SIGPIPE, libc::SIG_IGN) };
    let mut scene = Scene::new(kind);
    run(&mut scene);
    if !scene.ended {
        scene.exchange();
    }
    if kind == Kind::Tcp && under_ulsock() && !scene.ended {
        let rings = effect != "returns";
        let reached = scene.reaches_rings(rings);
        assert!(reached, "{name}: {effect}, but rings are used: {}", !rings);
    }
    let text = format!("{name}\n{}", scene.lines());
    std::io::stdout()
        .write_all(text.as_bytes())
        .expect("stdout");
}

/// The library that a symbol is found in.
fn library_of(name: &str) -> String {
    // SAFETY: an address that dlsym gave, and room for what is known about it.
    unsafe {
        let mut info: libc::Dl_info = std::mem::zeroed();
        libc::dladdr(scene::address(name), &mut info);
        std::ffi::CStr::from_ptr(info.dli_fname)
            .to_string_lossy()
            .into_owned()
    }
}
