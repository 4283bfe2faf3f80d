//! A socket to the kernel's routing tables. It never blocks: the kernel answers a question about one
//! thing within the call that asks.

use std::os::fd::{AsFd, BorrowedFd};
use std::vec;
use std::vec::Vec;

use rustix::io::{self, Errno};
use rustix::net::netlink::{GENERIC, NETFILTER, SocketAddrNetlink};
use rustix::net::{AddressFamily, Protocol, RecvFlags, SendFlags, SocketFlags, SocketType};
use rustix::net::{bind, recvfrom, sendto, socket_with};

use super::message::{Message, NetlinkRequest, messages, u32_at};
use crate::phy::sys::Fd;

/// More than any message about one thing.
const BUFFER: usize = 32 << 10;

#[derive(Debug)]
pub struct Netlink {
    fd: Fd,
    buffer: Vec<u8>,
    sequence: u32,
}

impl Netlink {
    /// In the network namespace of the calling thread. Hears of these groups.
    pub fn open(groups: u32) -> io::Result<Netlink> {
        // NETLINK_ROUTE is protocol zero.
        Netlink::to(None, groups)
    }

    /// To what is not about routes.
    pub fn generic() -> io::Result<Netlink> {
        Netlink::to(Some(GENERIC), 0)
    }

    /// To connection tracking.
    pub fn netfilter() -> io::Result<Netlink> {
        Netlink::to(Some(NETFILTER), 0)
    }

    fn to(protocol: Option<Protocol>, groups: u32) -> io::Result<Netlink> {
        let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
        let fd = socket_with(AddressFamily::NETLINK, SocketType::RAW, flags, protocol)?;
        let fd = Fd::from(fd);
        bind(&fd, &SocketAddrNetlink::new(0, groups))?;
        Ok(Netlink {
            fd,
            buffer: vec![0; BUFFER],
            sequence: 0,
        })
    }

    pub fn fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }

    /// The next datagram of the kernel's, if there is one.
    pub fn read(&mut self) -> io::Result<Option<&[u8]>> {
        loop {
            let flags = RecvFlags::DONTWAIT;
            let (length, _, from) = match recvfrom(&self.fd, &mut self.buffer[..], flags) {
                Ok(received) => received,
                Err(Errno::AGAIN) => return Ok(None),
                Err(Errno::INTR) => continue,
                Err(errno) => return Err(errno),
            };
            let from = from.and_then(|from| SocketAddrNetlink::try_from(from).ok());
            // Other programs can write to us too.
            if from.is_some_and(|from| from.pid() == 0) {
                return Ok(Some(&self.buffer[..length]));
            }
        }
    }

    /// Asks, and gives the answer to `take`. An error is the kernel's answer, too.
    pub fn ask<T>(
        &mut self,
        request: NetlinkRequest,
        take: impl FnOnce(Message<'_>) -> T,
    ) -> io::Result<T> {
        self.sequence = self.sequence.wrapping_add(1);
        let sequence = self.sequence;
        let kernel = SocketAddrNetlink::new(0, 0);
        sendto(
            &self.fd,
            &request.finish(sequence),
            SendFlags::empty(),
            &kernel,
        )?;
        while let Some(bytes) = self.read()? {
            for message in messages(bytes) {
                if message.sequence != sequence {
                    continue;
                }
                if message.kind == libc::NLMSG_ERROR as u16 {
                    error_of(&message)?;
                }
                return Ok(take(message));
            }
        }
        Err(Errno::PROTO)
    }
}

/// An error of zero says that all went well.
fn error_of(message: &Message<'_>) -> io::Result<()> {
    match u32_at(message.body, 0).map(|number| number as i32) {
        Some(0) => Ok(()),
        Some(number) => Err(Errno::from_raw_os_error(number.wrapping_neg())),
        None => Err(Errno::PROTO),
    }
}
