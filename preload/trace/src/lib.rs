//! libulsock_trace.so: stands before libulsock_preload.so, and records each socket call that goes through.
//!
//! A function looks at the clock, makes the call, looks again, and hands both to `trace::write`. It changes nothing of the
//! call, and prints nothing. What goes past libc (io_uring, `syscall`) is not seen.

#[cfg(not(all(target_os = "linux", target_arch = "x86_64", target_env = "gnu")))]
compile_error!("the functions mirror glibc's on x86_64 Linux");

#[path = "../../src/errno.rs"]
mod errno;
#[path = "../../src/real.rs"]
mod real;

mod calls;
mod messages;
mod record;

use rendezvous::tracer::{ATTACH, Attach};
use trace::write::{self, RECORDER};

#[used]
#[unsafe(link_section = ".init_array")]
static LOAD: extern "C" fn() = load;

/// Real functions are looked up here: later a signal handler or a forked child would do it.
extern "C" fn load() {
    calls::RESOLVE.iter().for_each(|resolve| resolve());
    messages::RESOLVE.iter().for_each(|resolve| resolve());
    if !write::start() {
        return;
    }
    // SAFETY: a C string; the library that is asked for is loaded behind this one.
    let attach = unsafe { libc::dlsym(libc::RTLD_NEXT, ATTACH.as_ptr()) };
    if attach.is_null() {
        // SAFETY: no arguments; it takes back the message that the program must not find.
        unsafe { libc::dlerror() };
        return;
    }
    // SAFETY: the library's function of this name is an `Attach`, in all versions.
    let attach = unsafe { std::mem::transmute::<*mut libc::c_void, Attach>(attach) };
    // SAFETY: the recorder is a static.
    if let Some(look) = unsafe { attach(&RECORDER) } {
        write::attached(look);
    }
}
