//! Waiting for a condition, with a limit, where no program's end would tell that it is in vain
//! ([`crate::program::Running::until`] also notices that).

use std::time::{Duration, Instant};

/// What nothing takes that works, on a machine that is busy.
const LIMIT: Duration = Duration::from_secs(60);
/// Between two looks.
const PAUSE: Duration = Duration::from_millis(5);

/// Waits until `done` holds.
#[track_caller]
pub fn until(what: &str, mut done: impl FnMut() -> bool) {
    until_some(what, || done().then_some(()));
}

/// Waits until `found` gives something.
#[track_caller]
pub fn until_some<T>(what: &str, mut found: impl FnMut() -> Option<T>) -> T {
    let start = Instant::now();
    loop {
        if let Some(result) = found() {
            return result;
        }
        assert!(start.elapsed() < LIMIT, "waited in vain until {what}");
        std::thread::sleep(PAUSE);
    }
}

/// Demands that `holds` does, at every look, for so long.
#[track_caller]
pub fn throughout(time: Duration, what: &str, mut holds: impl FnMut() -> Result<(), String>) {
    let start = Instant::now();
    while start.elapsed() < time {
        if let Err(seen) = holds() {
            panic!("after {:?} not any more: {what}: {seen}", start.elapsed());
        }
        std::thread::sleep(PAUSE);
    }
}
