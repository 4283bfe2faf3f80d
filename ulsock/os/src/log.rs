//! Messages to the user: from a fixed buffer by one raw write, so that they are whole and can come
//! from anywhere, also from within a hook.

use std::fmt::{self, Write};
use std::os::fd::{AsFd, BorrowedFd};
use std::path::Path;
use std::sync::OnceLock;

use rustix::fs::{Mode, OFlags};

use crate::fds::InternalFd;

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd)]
pub enum Level {
    Off,
    Error,
    Info,
    Debug,
}

crate::process_wide! {
    static LEVEL: OnceLock<Level> = OnceLock::new();
    static FILE: OnceLock<InternalFd> = OnceLock::new();
}

/// Load time. Without a file, lines go to standard error.
pub fn init(level: Level, file: Option<&Path>) {
    let _ = LEVEL.set(level);
    let Some(path) = file else { return };
    let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::APPEND | OFlags::CLOEXEC;
    let opened =
        rustix::fs::open(path, flags, Mode::from_raw_mode(0o644)).and_then(crate::fds::to_high);
    match opened {
        Ok(file) => drop(FILE.set(file)),
        Err(error) => always(format_args!("ULSOCK_LOG_FILE: {}: {error}", path.display())),
    }
}

/// One line, whatever the level: something the user must know.
pub fn always(what: fmt::Arguments<'_>) {
    let mut line = Line {
        bytes: [0; 512],
        used: 0,
    };
    let _ = writeln!(line, "ulsock: {what}");
    // SAFETY: standard error, if it is open; a closed one makes the write fail, which is ignored.
    let stderr = unsafe { BorrowedFd::borrow_raw(2) };
    let to = FILE.get().map_or(stderr, |file| file.as_fd());
    let _ = crate::write(to, &line.bytes[..line.used]);
}

pub fn info(what: fmt::Arguments<'_>) {
    at(Level::Info, what);
}

pub fn debug(what: fmt::Arguments<'_>) {
    at(Level::Debug, what);
}

fn at(level: Level, what: fmt::Arguments<'_>) {
    if LEVEL.get().is_some_and(|set| *set >= level) {
        always(format_args!("[{}] {what}", crate::pid::get()));
    }
}

struct Line {
    bytes: [u8; 512],
    used: usize,
}

impl Write for Line {
    /// What does not fit is cut off, but the line still ends.
    fn write_str(&mut self, text: &str) -> fmt::Result {
        let room = self.bytes.len() - 1 - self.used;
        let n = text.len().min(room);
        self.bytes[self.used..self.used + n].copy_from_slice(&text.as_bytes()[..n]);
        self.used += n;
        if n < text.len() {
            self.bytes[self.used] = b'\n';
            self.used += 1;
        }
        Ok(())
    }
}
