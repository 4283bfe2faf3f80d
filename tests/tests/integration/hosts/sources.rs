//! Peers from where clusters keep such things, etcd, Kubernetes and DNS: hosts come and go; servers are killed and come back;
//! somebody has put there what makes no sense; an answer is empty, or there is none.

mod dns;
mod etcd;
mod kubernetes;

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use tests::hosts::Hosts;

/// The file where a daemon keeps its last good peers is its owner's alone.
fn assert_private(file: &Path) {
    let mode = fs::metadata(file).expect("a saved state").permissions();
    assert_eq!(mode.mode() & 0o777, 0o600);
}

/// As of a peers file.
fn line(hosts: &Hosts, host: usize) -> String {
    format!(
        "{} keys={}",
        hosts.host(host).address(),
        hosts.public_key(host)
    )
}
