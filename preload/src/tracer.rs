//! The way in for libulsock_trace.so, the recorder of `ulsock trace`: no hook, and no program calls it.

use rendezvous::tracer::{LookFn, Recorder};
use sockets::api;

/// `rendezvous::tracer::Attach`.
#[unsafe(no_mangle)]
pub extern "C" fn ulsock_trace_attach(recorder: &'static Recorder) -> Option<LookFn> {
    api::attach_recorder(recorder)
}
