//! The name of a mailbox. Channels, messages and offers carry it; who has it can connect to the
//! [mailbox](crate::mailbox) and see whether its owner lives.

use rustix::io;

use crate::rundir::{LOCK, MAIL};
use os::text::Text;

/// Names a process's mailbox in the run directory.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct MailboxName {
    /// As its owner sees itself; other pid namespaces may know it by another number.
    pub pid: u32,
    pub random: u64,
}

impl MailboxName {
    /// The socket's file name.
    pub fn file(&self) -> io::Result<Text> {
        Text::format(format_args!("{MAIL}.{}.{:016x}", self.pid, self.random))
    }

    /// The name of the file whose lock says that the owner lives.
    pub fn lock_file(&self) -> io::Result<Text> {
        Text::format(format_args!(
            "{MAIL}.{}.{:016x}{LOCK}",
            self.pid, self.random
        ))
    }
}
