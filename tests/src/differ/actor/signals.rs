//! Handlers that count, thread by thread.

use std::cell::Cell;

use super::outcome::Outcome;
use crate::differ::names;

/// Those that interrupt calls, and those that restart them.
const INTERRUPTING: [i32; 1] = [libc::SIGUSR1];
const RESTARTING: [i32; 4] = [libc::SIGUSR2, libc::SIGPIPE, libc::SIGIO, libc::SIGURG];

thread_local! {
    static SEEN: [Cell<u32>; 65] = const { [const { Cell::new(0) }; 65] };
}

extern "C" fn count(signal: i32) {
    SEEN.with(|seen| seen[signal as usize].set(seen[signal as usize].get() + 1));
}

pub fn install() {
    for (signals, flags) in [(&INTERRUPTING[..], 0), (&RESTARTING[..], libc::SA_RESTART)] {
        for signal in signals {
            // SAFETY: the handler only counts, in const-initialised thread-local memory.
            unsafe {
                let mut action: libc::sigaction = std::mem::zeroed();
                action.sa_sigaction = count as *const () as usize;
                action.sa_flags = flags;
                libc::sigaction(*signal, &action, std::ptr::null_mut());
            }
        }
    }
}

/// Adds the signals that this thread has handled since the last time.
pub fn drain(outcome: &mut Outcome) {
    for signal in INTERRUPTING.iter().chain(&RESTARTING) {
        let times = SEEN.with(|seen| seen[*signal as usize].replace(0));
        if times > 0 {
            outcome.word(format!("{}*{times}", names::signal(*signal)));
        }
    }
}
