//! The built library exports exactly the symbols of `symbols.txt`: a hook that is lost in a
//! refactoring would be noticed by no compiler, and a stray export would interpose on the program.

use std::collections::BTreeSet;
use std::process::Command;

#[path = "library/mod.rs"]
mod library;

#[test]
fn exports_are_the_listed_ones() {
    let listed: BTreeSet<&str> = include_str!("symbols.txt").lines().collect();
    let nm = Command::new("nm")
        .args(["-D", "--defined-only", "--format=posix"])
        .arg(library::build())
        .output()
        .expect("nm runs");
    assert!(nm.status.success());
    let table = String::from_utf8(nm.stdout).expect("symbol names are ASCII");
    let exported: BTreeSet<&str> = table
        .lines()
        .filter_map(|line| line.split(' ').next())
        .collect();
    let lost: Vec<_> = listed.difference(&exported).collect();
    let stray: Vec<_> = exported.difference(&listed).collect();
    assert!(
        lost.is_empty() && stray.is_empty(),
        "lost {lost:?}, stray {stray:?}"
    );
}
