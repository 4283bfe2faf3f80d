//! Calls that are asleep in their middle: some of their bytes have moved, or some of their time has passed. Only
//! who knows that can finish them, so meanwhile the connection does not part from its ring pair.
//!
//! Such a call says so within the critical section in which the bytes have moved: who finds nobody in one finds it
//! here. Who leaves the sleep by a jump or by cancellation leaves the count too high, and the connection where it is.

use std::sync::atomic::{AtomicU32, Ordering};

use super::Handle;

/// Of one call. No guard: a cancelled thread drops nothing.
#[derive(Clone, Copy, Default)]
pub struct PinnedCall(Option<&'static AtomicU32>);

impl PinnedCall {
    /// The call goes on; from here on it may be in its middle. Within a critical section.
    #[inline]
    pub fn note(&mut self, is: bool, handle: Handle) {
        if is && self.0.is_none() {
            self.begin(handle);
        }
    }

    #[cold]
    fn begin(&mut self, handle: Handle) {
        self.0 = handle.record_now().map(|record| &record.midway);
        if let Some(count) = self.0 {
            count.fetch_add(1, Ordering::AcqRel);
        }
    }

    /// The call is done.
    #[inline]
    pub fn end(self) {
        if let Some(count) = self.0 {
            count.fetch_sub(1, Ordering::AcqRel);
        }
    }
}
