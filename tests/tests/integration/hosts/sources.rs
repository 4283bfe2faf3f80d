//! Peers from where clusters keep such things: etcd with three members of which one is killed, and then another; what somebody
//! has put there that makes no sense; an empty answer, and none.

mod etcd;

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

/// The file where a daemon keeps its last good peers is its owner's alone.
fn assert_private(file: &Path) {
    let mode = fs::metadata(file).expect("a saved state").permissions();
    assert_eq!(mode.mode() & 0o777, 0o600);
}
