//! Who records this run: the recorder of `ulsock trace`, if it is loaded. It hears how waits are spent, and what happens to
//! connections. Without one that costs a load where somebody waits, and nothing elsewhere.

use std::sync::atomic::{AtomicPtr, Ordering};

use rendezvous::tracer::{Happened, Recorder, VERSION};

os::process_wide! {
    static RECORDER: AtomicPtr<Recorder> = AtomicPtr::new(std::ptr::null_mut());
}

/// From now on it is told. `false`: it speaks another version.
pub fn attach(recorder: &'static Recorder) -> bool {
    if recorder.version != VERSION {
        return false;
    }
    RECORDER.store(std::ptr::from_ref(recorder).cast_mut(), Ordering::Release);
    true
}

#[inline]
fn recorder() -> Option<&'static Recorder> {
    // SAFETY: null, or there for good (`attach`).
    unsafe { RECORDER.load(Ordering::Acquire).as_ref() }
}

/// One of the words of [`rendezvous::tracer::mark`].
#[inline]
pub fn mark(word: u32) {
    if let Some(recorder) = recorder() {
        (recorder.mark)(word);
    }
}

/// `what` is asked for only if somebody listens.
#[inline]
pub fn happened(what: impl FnOnce() -> Happened) {
    if let Some(recorder) = recorder() {
        (recorder.happened)(&what());
    }
}
