//! Short text in a fixed buffer: file names in the run directory and paths below /proc.
//!
//! Used where the program may be in a state in which allocating is unwise (a forked child, a call
//! from a signal handler). It never allocates and never cuts a name short.

use std::fmt::{self, Write};
use std::ops::Deref;

use rustix::io::{self, Errno};

const CAPACITY: usize = 96;

/// At most 96 bytes of UTF-8.
#[derive(Clone, Copy)]
pub struct Text {
    bytes: [u8; CAPACITY],
    len: usize,
}

impl Text {
    /// Formats `args`; ENAMETOOLONG when they do not fit.
    pub fn format(args: fmt::Arguments<'_>) -> io::Result<Text> {
        let mut text = Text {
            bytes: [0; CAPACITY],
            len: 0,
        };
        text.write_fmt(args).map_err(|_| Errno::NAMETOOLONG)?;
        Ok(text)
    }
}

impl Write for Text {
    fn write_str(&mut self, part: &str) -> fmt::Result {
        let end = self.len + part.len();
        let room = self.bytes.get_mut(self.len..end).ok_or(fmt::Error)?;
        room.copy_from_slice(part.as_bytes());
        self.len = end;
        Ok(())
    }
}

impl Deref for Text {
    type Target = str;

    fn deref(&self) -> &str {
        // Only whole `str`s were ever written, so this cannot fail.
        std::str::from_utf8(&self.bytes[..self.len]).unwrap_or_default()
    }
}

impl fmt::Debug for Text {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&**self, f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn formats_or_refuses() {
        assert_eq!(
            &*Text::format(format_args!("mail.{}", 7)).unwrap(),
            "mail.7"
        );
        let long = "x".repeat(CAPACITY + 1);
        assert!(matches!(
            Text::format(format_args!("{long}")),
            Err(Errno::NAMETOOLONG)
        ));
    }
}
