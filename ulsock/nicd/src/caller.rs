//! A daemon of another host that has called or was called, and has not proved yet who it is.

use super::secure::Secure;

/// A channel before it is one.
pub struct Caller {
    pub channel: Secure,
    /// Whom we have called.
    pub called: Option<usize>,
}
