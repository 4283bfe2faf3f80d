//! What is registered in an epoll set, as the kernel says it (proc_pid_fdinfo(5)): also what was registered by a number that
//! has been closed since.

use std::os::fd::RawFd;

use rustix::io;

use crate::proc;

/// One registration.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Registered {
    /// The number that it was made by.
    pub fd: RawFd,
    pub events: u32,
    pub data: u64,
    /// Of the file that it is for.
    pub inode: u64,
}

/// All of them. It takes as long as the set is large.
pub fn registered(epfd: RawFd) -> io::Result<Vec<Registered>> {
    let text = proc::text_of(format_args!("fdinfo/{epfd}"))?;
    Ok(text.lines().filter_map(parse).collect())
}

/// "tfd: 5 events: 19 data: 7  pos:0 ino:1c3 sdev:8" (fs/eventpoll.c, ep_show_fdinfo).
fn parse(line: &str) -> Option<Registered> {
    let after = |key: &str| {
        let rest = line.split_once(key)?.1.trim_start();
        rest.split_whitespace().next()
    };
    let hexadecimal = |key| u64::from_str_radix(after(key)?, 16).ok();
    Some(Registered {
        fd: after("tfd:")?.parse().ok()?,
        events: hexadecimal("events:")? as u32,
        data: hexadecimal("data:")?,
        inode: hexadecimal("ino:")?,
    })
}

#[cfg(test)]
mod tests {
    use std::os::fd::AsRawFd;

    use rustix::event::epoll::{CreateFlags, create};
    use rustix::fs::fstat;
    use rustix::io::dup;
    use rustix::pipe::pipe;

    use super::*;

    #[test]
    fn a_registration_outlives_its_number() {
        let set = create(CreateFlags::CLOEXEC).unwrap();
        let (reader, _writer) = pipe().unwrap();
        let second = dup(&reader).unwrap();
        let expected = Registered {
            fd: second.as_raw_fd(),
            events: libc::EPOLLIN as u32,
            data: 0xfeed_0000_0000_0007,
            inode: fstat(&reader).unwrap().st_ino,
        };
        let (epfd, fd) = (set.as_raw_fd(), second.as_raw_fd());
        crate::epoll::add(epfd, fd, expected.events, expected.data).unwrap();
        drop(second);
        let found = registered(epfd).unwrap();
        assert_eq!(found.len(), 1);
        // Errors and ends are always told.
        let always = (libc::EPOLLERR | libc::EPOLLHUP) as u32;
        assert_eq!(
            found[0],
            Registered {
                events: expected.events | always,
                ..expected
            }
        );
        drop(reader);
        assert_eq!(registered(epfd).unwrap(), []);
    }
}
