//! What a call does is what it does on kernel TCP: directed programs for single calls, and random ones for all of them.

mod calls;
mod differ;
mod heirs;
mod io_uring;
mod leaving;
mod passed;
mod pointers;
mod readiness;
mod regress;
mod sharing;
mod signals;
mod stress;
mod symbols;
mod threads;
