//! Where one can be connected to: the addresses of mailboxes and daemons.

use std::os::fd::{AsFd, AsRawFd};

use rustix::io;
use rustix::net::SocketAddrUnix;

use crate::mailbox_name::MailboxName;
use crate::rundir::{HOST, HOST_DOOR, RunDir};
use os::text::Text;

/// There is no bindat(2): /proc stands in, and keeps the path short.
pub fn of_file(dir: &RunDir, name: &str) -> io::Result<SocketAddrUnix> {
    let dir = dir.as_fd().as_raw_fd();
    let path = Text::format(format_args!("/proc/self/fd/{dir}/{name}"))?;
    SocketAddrUnix::new(&*path)
}

pub fn of_mailbox(dir: &RunDir, name: &MailboxName) -> io::Result<SocketAddrUnix> {
    of_file(dir, &name.file()?)
}

/// Names there are free for all to take, but nobody can guess ours before it is taken.
pub fn of_twin(name: &MailboxName) -> io::Result<SocketAddrUnix> {
    let name = Text::format(format_args!("ulsock.{}", &*name.file()?))?;
    SocketAddrUnix::new_abstract_name(name.as_bytes())
}

/// Where the daemon of a network namespace listens.
pub fn of_daemon(dir: &RunDir, netns: u64) -> io::Result<SocketAddrUnix> {
    of_file(dir, &daemon_file(netns)?)
}

/// The name of its socket.
pub fn daemon_file(netns: u64) -> io::Result<Text> {
    Text::format(format_args!("nicd.{netns:016x}"))
}

/// Where the daemon of the host listens that we are a container of.
pub fn of_host(dir: &RunDir) -> io::Result<SocketAddrUnix> {
    let door = Text::format(format_args!("{HOST}/{HOST_DOOR}"))?;
    of_file(dir, &door)
}
