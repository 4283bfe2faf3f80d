//! A stand-in: a socket that takes the place of a connection whose unread bytes are in the ring
//! alone, for a reader that knows no ring.
//!
//! It is one end of a connection of our own, filled with those bytes. What the two programs have to
//! say to each other later goes through a relay (see [`crate::calls::splice_process`]).

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, RawFd};
use std::sync::atomic::Ordering;

use libc::{MSG_DONTWAIT, iovec};
use rustix::io::{self, Errno, FdFlags};
use rustix::net::{
    AddressFamily, SendFlags, SocketFlags, SocketType, accept_with, bind, connect, listen, send,
    socket_with, socketpair, sockopt,
};
use rustix::process::{getegid, geteuid};

use crate::calls::descriptors;
use crate::calls::life;
use crate::calls::options;
use crate::calls::splice_process::{self, Relay};
use crate::conn::buffers::Buffers;
use crate::conn::handover::is_gone;
use crate::conn::{Handle, recv};
use crate::ready::epoll;
use crate::state::table::{self, Slot};
use os::fds::Transient;
use os::log;
use os::tcp;
use os::unix;

/// Puts a stand-in at every number of the connection. If that fails, the bytes stay in the ring and
/// the connection as it was: a peer that lives sends them again at its next call.
pub fn replace(handle: Handle) {
    // SAFETY: the program's own number.
    let socket = unsafe { BorrowedFd::borrow_raw(handle.fd) };
    let replaced = pair(socket).and_then(|(near, far)| replace_by(handle, socket, &near, &far));
    if let Err(error) = replaced {
        let then = if is_gone(socket) {
            "only this program can read them"
        } else {
            "they come through the kernel at the peer's next call"
        };
        log::always(format_args!(
            "fd {}: bytes are left in the ring, and no socket could take their place ({error}): {then}",
            handle.fd
        ));
    }
}

fn replace_by(
    handle: Handle,
    socket: BorrowedFd<'_>,
    near: &Transient,
    far: &Transient,
) -> io::Result<()> {
    options::copy(socket, near.as_fd())?;
    let record = crate::state::process_group::own()
        .ok_or(Errno::BADF)?
        .record(handle.number);
    // The relay holds the connection from now on, and knows it as we do: bytes may be on their way
    // that we have read already. It is there before the first byte is taken.
    record.share();
    let relay = splice_process::start(Relay {
        ends: [socket, far.as_fd()],
        begin: &life::note_new_process,
        receive: &|into| receive(handle, into),
    });
    if relay.is_err() {
        record.procs.fetch_sub(1, Ordering::AcqRel);
    }
    // A peer that says nothing more leaves nothing to be relayed but our own answers.
    if let Some(error) = relay.as_ref().err().filter(|_| !is_gone(socket)) {
        return Err(*error);
    }
    let Filled { unsent, broken } = fill(handle, far.as_fd());
    match relay {
        Ok(relay) => relay.begin(&unsent, broken),
        Err(error) => log::always(format_args!(
            "fd {}: no process could be started to relay the connection ({error}): it ends after \
             what the peer has sent{}",
            handle.fd,
            if unsent.is_empty() {
                ""
            } else {
                ", and not all of that fits"
            }
        )),
    }
    let mut moved = epoll::take_out_moved(handle.number);
    for fd in numbers(handle.number) {
        let registrations = epoll::take_out(fd);
        put(near, fd)?;
        descriptors::let_number_go(fd);
        epoll::put_back(fd, registrations);
        epoll::put_back(fd, std::mem::take(&mut moved));
    }
    Ok(())
}

struct Filled {
    /// The rest of the last piece, which did not fit.
    unsent: Vec<u8>,
    /// The connection has ended with an error, which it tells once: we have heard it.
    broken: bool,
}

/// Moves what can be read into the new connection, as far as it fits; what is behind the last piece stays for
/// the relay.
fn fill(handle: Handle, far: BorrowedFd<'_>) -> Filled {
    let mut buffer = vec![0u8; splice_process::FIRST];
    let filled = |unsent, broken| Filled { unsent, broken };
    loop {
        let n = match receive(handle, &mut buffer) {
            Ok(n @ 1..) => n,
            Ok(0) | Err(Errno::AGAIN | Errno::NOTCONN) => return filled(Vec::new(), false),
            Err(_) => return filled(Vec::new(), true),
        };
        let mut bytes = &buffer[..n];
        while !bytes.is_empty() {
            match send(far, bytes, SendFlags::DONTWAIT | SendFlags::NOSIGNAL) {
                Ok(n) => bytes = &bytes[n..],
                Err(_) => return filled(bytes.to_vec(), false),
            }
        }
    }
}

fn receive(handle: Handle, into: &mut [u8]) -> io::Result<usize> {
    let list = [iovec {
        iov_base: into.as_mut_ptr().cast(),
        iov_len: into.len(),
    }];
    let mut buffers = Buffers::new(&list);
    recv::recv(handle, &mut buffers, into.len(), MSG_DONTWAIT).unwrap_or(Err(Errno::NOTCONN))
}

fn numbers(record: u32) -> Vec<RawFd> {
    let all = table::all().filter(|(_, slot)| *slot == Slot::Record(record));
    all.map(|(fd, _)| fd).collect()
}

/// As dup3, which keeps a number's own flag.
fn put(near: &Transient, fd: RawFd) -> io::Result<()> {
    // SAFETY: one of the program's own numbers.
    let flags = io::fcntl_getfd(unsafe { BorrowedFd::borrow_raw(fd) })?;
    let cloexec = if flags.contains(FdFlags::CLOEXEC) {
        libc::O_CLOEXEC
    } else {
        0
    };
    let args = [near.as_raw_fd() as usize, fd as usize, cloexec as usize];
    // SAFETY: takes no pointers; the program's number changes its meaning on purpose.
    unsafe { os::raw::syscall(libc::SYS_dup3, args) }.map(drop)
}

/// A connection with ourselves, of the same family as `like`.
fn pair(like: BorrowedFd<'_>) -> io::Result<(Transient, Transient)> {
    if unix::is_stream(like) {
        // It would say that we are at the other end: no lie only about our own user.
        let other = sockopt::socket_peercred(like)?;
        if other.uid != geteuid() || other.gid != getegid() {
            return Err(Errno::PERM);
        }
        let kind = (SocketType::STREAM, SocketFlags::CLOEXEC);
        let (near, far) = socketpair(AddressFamily::UNIX, kind.0, kind.1, None)?;
        return Ok((Transient::new(near), Transient::new(far)));
    }
    let (family, ip) = match tcp::local_addr(like)? {
        SocketAddr::V4(_) => (AddressFamily::INET, IpAddr::V4(Ipv4Addr::LOCALHOST)),
        SocketAddr::V6(_) => (AddressFamily::INET6, IpAddr::V6(Ipv6Addr::LOCALHOST)),
    };
    let new = || socket_with(family, SocketType::STREAM, SocketFlags::CLOEXEC, None);
    let listener = Transient::new(new()?);
    bind(&listener, &SocketAddr::new(ip, 0))?;
    listen(&listener, 1)?;
    let far = Transient::new(new()?);
    connect(&far, &tcp::local_addr(listener.as_fd())?)?;
    let ours = tcp::local_addr(far.as_fd())?;
    // Anybody on this host may have come first.
    for _ in 0..16 {
        let near = Transient::new(accept_with(&listener, SocketFlags::CLOEXEC)?);
        if tcp::peer_addr(near.as_fd())? == ours {
            return Ok((near, far));
        }
    }
    Err(Errno::CONNABORTED)
}
