//! What the tests of this crate share.

use std::future::Future;
use std::sync::Once;

use ulsock_native::run::block_on;

/// A run directory of this process's own, and upgrades at once. Before the first socket, by whichever test is first.
pub fn begin() {
    static BEGIN: Once = Once::new();
    BEGIN.call_once(|| {
        let folder = tempfile::tempdir().expect("a folder").keep();
        // SAFETY: every test comes by here first, and none reads its environment before.
        unsafe {
            std::env::set_var("ULSOCK_RUN_DIR", folder.join("run"));
            std::env::set_var("ULSOCK_UPGRADE_AFTER", "1");
        }
    });
}

pub fn run<T>(future: impl Future<Output = T>) -> T {
    begin();
    block_on(future).expect("a loop")
}
