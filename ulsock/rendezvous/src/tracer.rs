//! What libulsock_trace.so and libulsock_preload.so say to each other within one process. Both come from one build, but a
//! user can name another library (`ULSOCK_LIB`): whoever hears of another version says no.
//!
//! Everything here is called within the program's own calls: it never blocks, allocates or changes `errno`.

use std::ffi::{CStr, c_int};

/// What the recorder looks up in the library.
pub const ATTACH: &CStr = c"ulsock_trace_attach";
pub const VERSION: u32 = 2;

/// Hands over the recorder, which stays; null if the library cannot serve it.
pub type Attach = unsafe extern "C" fn(&'static Recorder) -> Option<LookFn>;
/// What a descriptor is now.
pub type LookFn = extern "C" fn(c_int) -> Look;

/// What the library tells whoever records.
#[repr(C)]
pub struct Recorder {
    pub version: u32,
    /// One of the words of [`mark`], at the time of the call.
    pub mark: extern "C" fn(u32),
    pub happened: extern "C" fn(&Happened),
}

/// How a thread spends a call.
pub mod mark {
    /// What it waited for has come while it was awake.
    pub const AWAKE: u32 = 1;
    /// It has waited awake, and nothing came.
    pub const IN_VAIN: u32 = 2;
    /// It goes to sleep.
    pub const ASLEEP: u32 = 3;
    /// It is awake again.
    pub const UP: u32 = 4;
    /// It has woken somebody.
    pub const WOKE: u32 = 5;
    /// Not of a call: this process makes no system calls from here on that its program does not make.
    pub const STOP: u32 = 6;
}

/// What a descriptor is: the first byte of [`Look::what`].
pub mod kind {
    pub const FOREIGN: u8 = 0;
    pub const CONNECTION: u8 = 1;
    /// A TCP socket that is no connection yet, or listens.
    pub const SOCKET: u8 = 2;
    pub const EPOLL: u8 = 3;
    /// ulsock is off in this process: nobody knows.
    pub const UNKNOWN: u8 = 4;
}

/// Small enough for two registers.
#[derive(Clone, Copy, Debug, Default)]
#[repr(C)]
pub struct Look {
    /// Kind, carrier that it sends by, carrier that it receives by (as `journal` numbers them), reason.
    pub what: [u8; 4],
    /// Together they name the connection within its program.
    pub record: u32,
    pub generation: u32,
    pub unused: u32,
}

/// What has become of a connection: the numbers of the library's own journal.
#[derive(Clone, Copy, Debug, Default)]
#[repr(C)]
pub struct Happened {
    pub record: u32,
    pub generation: u32,
    pub happening: u32,
    pub reason: u32,
    pub offset: u64,
    pub local: End,
    pub peer: End,
}

/// An address, IPv4 mapped into IPv6; port 0: not known.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(C)]
pub struct End {
    pub ip: [u64; 2],
    pub port: u64,
}
