//! Go programs: they call the kernel past libc, from a handful of functions. A jump at the entry of each leads to us
//! before the program begins; what is ours takes the same way as libc's calls do, all else goes on where it was.
//!
//! Whatever is not exactly as expected: nothing is written, and the program runs on kernel TCP.

mod calls;
mod exports;
mod patch;
mod patience;
mod program;
mod stack;
mod stub;

use os::log;
use sockets::api;

/// Load time, after everything else.
pub fn serve() {
    if !api::is_on() || !program::is_go() {
        return;
    }
    if !api::serves_go() {
        return log::info(format_args!(
            "a Go program, and ULSOCK_GO=0: it stays on kernel TCP"
        ));
    }
    match program::examine() {
        Ok(_) if !stack::init() => log::info(format_args!(
            "a Go program, but libc gives no key: it stays on kernel TCP"
        )),
        Ok((program, base)) => match patch::write(&program, base) {
            Ok(()) => log::debug(format_args!(
                "a Go program ({}): its calls come here",
                program.version
            )),
            Err(error) => log::info(format_args!(
                "a Go program that cannot be changed ({error}): it stays on kernel TCP"
            )),
        },
        Err(why) => log::info(format_args!(
            "a Go program, but {why}: it stays on kernel TCP"
        )),
    }
}
