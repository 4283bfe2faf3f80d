//! How a TCP socket gets its record, the place for all that is known about it.
//!
//! Most get it when they connect or are accepted. A socket that is not connected yet gets it as soon as it can
//! be reached in a second way: by an epoll set, another number or another process. What was said of it
//! before the connection existed must hold for the connection. Until then it is not a connection: nobody tries to
//! upgrade it, counts it or shows it. One that listens instead gives its record back.

use std::net::SocketAddr;
use std::os::fd::{BorrowedFd, RawFd};
use std::sync::atomic::Ordering;

use libc::{c_int, sa_family_t, sockaddr, socklen_t};

use crate::calls::descriptors::fd_opened;
use crate::conn::release::let_go;
use crate::promote;
use crate::ready::epoll;
use crate::runtime::process;
use crate::runtime::signal::fault;
use crate::runtime::thread::Thread;
use crate::state::begin::begin as begin_process;
use crate::state::give_record::{claim, give_back, give_record, note_number};
use crate::state::journal::Happening;
use crate::state::process_group::{self, ProcessGroup};
use crate::state::record::{Record, Role, State, flag};
use crate::state::table::{self, Slot};
use crate::state::upgrade_history;
use crate::state::verdict::Verdict;
use os::access;
use os::tcp;
use rendezvous::reason::Reason;
use rendezvous::rundir::RunDir;
use shm::order;

/// After a successful `socket`.
pub fn socket_opened(fd: RawFd, domain: c_int, kind: c_int, protocol: c_int) {
    let kind = kind & !(libc::SOCK_NONBLOCK | libc::SOCK_CLOEXEC);
    let tcp = matches!(domain, libc::AF_INET | libc::AF_INET6)
        && kind == libc::SOCK_STREAM
        && matches!(protocol, 0 | libc::IPPROTO_TCP);
    fd_opened(fd);
    table::set(
        fd,
        if tcp && process::is_on() {
            Slot::Fresh
        } else {
            Slot::Foreign
        },
    );
}

/// Before fork: the child will hold these sockets too.
pub fn give_records_to_all() {
    for fd in table::fresh() {
        give_record(fd);
    }
}

/// Before a new program is started that gets those of the sockets without a record which `stays_open` names: none of them
/// is ours any more, for we would not see what it does with them.
pub fn leave_to_program(stays_open: impl Fn(RawFd) -> bool) {
    for fd in table::fresh().filter(|fd| stays_open(*fd)) {
        table::change(fd, Slot::Fresh, Slot::Foreign);
    }
}

/// After a successful `listen`: a listener has no record.
pub fn listening(fd: RawFd) {
    if table::change(fd, Slot::Fresh, Slot::Listener) {
        // Who accepts names memory for the address.
        fault::catch();
        return;
    }
    let Some((family, number, record)) = crate::state::process_group::record_of(fd) else {
        return;
    };
    if record.state() != State::Plain {
        return;
    }
    let is_it = |(_, slot): &(RawFd, Slot)| *slot == Slot::Record(number);
    let numbers: Vec<RawFd> = table::all().filter(is_it).map(|(fd, _)| fd).collect();
    for fd in numbers {
        table::set(fd, Slot::Listener);
        epoll::is_no_connection(fd);
    }
    family.refs(number).store(0, Ordering::Relaxed);
    let_go(family, number);
}

/// Is it known to be TCP's?
pub fn is_listener(fd: RawFd) -> bool {
    table::get(fd) == Slot::Listener
}

/// Before an `accept`, which may sleep: what the process needs for its first connection is there when that comes. Otherwise its
/// first bytes would wait for it, by which the kernel judges how large a buffer the program needs. Who may never accept
/// anything does not create the run directory, which is its creator's.
#[inline]
pub fn before_accept(listener: RawFd) {
    if process_group::own().is_none() && is_listener(listener) && process::is_on() {
        begin_if_others_have();
    }
}

#[cold]
fn begin_if_others_have() {
    if RunDir::exists(&process::config().run_dir) {
        begin_process();
    }
}

/// After a successful `accept`, with the peer's address if that is known, and the flags of `accept4`.
///
/// # Safety
/// The address has as many bytes as it says.
pub unsafe fn accepted(
    listener: RawFd,
    fd: RawFd,
    peer: Option<(*const sockaddr, socklen_t)>,
    flags: c_int,
) {
    fd_opened(fd);
    if !process::is_on() || !is_tcp_listener(listener) {
        return;
    }
    let peer = match peer {
        // SAFETY: the caller says that the address has so many bytes.
        Some((addr, len)) => unsafe { address(addr, len) },
        // SAFETY: the program has just been given it.
        None => tcp::peer_addr(unsafe { BorrowedFd::borrow_raw(fd) }).ok(),
    };
    let Some(peer) = peer else { return };
    begin_as(fd, peer, Role::Accepted, listener as u32, |record| {
        if flags & libc::SOCK_NONBLOCK != 0 {
            record.set(flag::NONBLOCK);
        }
    });
}

/// It has accepted a connection. A listener that was inherited is not in our table yet, or as a socket that was shared by fork
/// before another process called listen.
fn is_tcp_listener(fd: RawFd) -> bool {
    match table::get(fd) {
        Slot::Listener | Slot::Fresh => true,
        Slot::Record(_) => {
            listening(fd);
            table::get(fd) == Slot::Listener
        }
        Slot::Foreign => {
            // SAFETY: the program has just called accept on it.
            let socket = unsafe { BorrowedFd::borrow_raw(fd) };
            let tcp = rustix::net::sockopt::socket_protocol(socket).ok().flatten()
                == Some(rustix::net::ipproto::TCP);
            if tcp {
                fault::catch();
                table::set(fd, Slot::Listener);
            }
            tcp
        }
        Slot::Internal | Slot::Epoll(_) | Slot::Uring(_) => false,
    }
}

/// Before `connect`: it has its record before it can be connected, so that who receives or polls meanwhile is counted.
///
/// # Safety
/// As libc's `connect`.
pub unsafe fn before_connect(fd: RawFd, addr: *const sockaddr, len: socklen_t) -> Verdict {
    match table::get(fd) {
        Slot::Internal => return Verdict::Fail(libc::EBADF),
        Slot::Fresh => drop(give_record(fd)),
        Slot::Record(_) if dissolves(addr, len) => {
            // The same socket may be connected elsewhere afterwards, with other counts.
            crate::conn::handover::to_kernel(fd, Reason::Call);
        }
        _ => {}
    }
    Verdict::Bypass
}

/// Does a `connect` to this address end the connection that there is?
fn dissolves(addr: *const sockaddr, len: socklen_t) -> bool {
    // SAFETY: any bytes are a family.
    let family = unsafe { access::load(addr.cast::<sa_family_t>()) };
    len as usize >= size_of::<sa_family_t>() && family == Some(libc::AF_UNSPEC as sa_family_t)
}

/// After `connect` succeeded or is under way. That tells nothing of how later calls wait: with a limit of time
/// (SO_SNDTIMEO) one on a blocking socket can end under way, too.
///
/// # Safety
/// `addr` has `len` bytes.
pub unsafe fn connected(fd: RawFd, addr: *const sockaddr, len: socklen_t) {
    let Some((family, number, record)) =
        crate::state::process_group::record_of(fd).filter(|_| process::is_on())
    else {
        return;
    };
    // SAFETY: the caller says that the address has so many bytes.
    let named = unsafe { address(addr, len) };
    let (Some(named), State::Plain) = (named, record.state()) else {
        return;
    };
    order::spoke_by_kernel();
    // The end of a connect that is under way goes by the address of its beginning.
    // SAFETY: the program is calling with this number.
    let socket = unsafe { BorrowedFd::borrow_raw(fd) };
    let known = record.is_connection().then(|| tcp::peer_addr(socket).ok());
    let peer = known.flatten().unwrap_or(named);
    become_connection(
        family,
        number,
        fd,
        peer,
        Role::Connected,
        peer.port().into(),
    );
}

/// A connection that this process had before it became this program.
pub fn inherited(fd: RawFd, socket: BorrowedFd<'_>, connected: bool) {
    if let Ok(peer) = tcp::peer_addr(socket) {
        let role = match connected {
            true => Role::Connected,
            false => Role::Accepted,
        };
        begin(fd, peer, role, peer.port().into());
    }
}

/// A connection that another process has passed to us, and that has a slip.
pub fn received(fd: RawFd, socket: BorrowedFd<'_>, role: Role, cookie: u64) {
    let (Ok(local), Ok(peer)) = (tcp::local_addr(socket), tcp::peer_addr(socket)) else {
        return;
    };
    let history_key = match role {
        Role::Connected => peer.port(),
        Role::Accepted => local.port(),
    };
    begin_as(fd, peer, role, history_key.into(), |record| {
        record.cookie.store(cookie, Ordering::Release);
        record.set(flag::SLIP);
    });
}

/// A socket that is connected already gets its record.
fn begin(fd: RawFd, peer: SocketAddr, role: Role, history_key: u32) {
    begin_as(fd, peer, role, history_key, |_| {});
}

/// The same; `as_it_is` says what is known of it before anybody can look.
fn begin_as(
    fd: RawFd,
    peer: SocketAddr,
    role: Role,
    history_key: u32,
    as_it_is: impl FnOnce(&Record),
) {
    let Some((family, number)) = claim() else {
        return;
    };
    as_it_is(family.record(number));
    note_number(family, number, fd);
    if !table::set(fd, Slot::Record(number)) {
        return give_back(family, number);
    }
    become_connection(family, number, fd, peer, role, history_key);
}

/// `kin`: what it has in common with those that are likely to be like it, its listener or the port that it is to.
fn become_connection(
    family: &'static ProcessGroup,
    number: u32,
    fd: RawFd,
    peer: SocketAddr,
    role: Role,
    history_key: u32,
) {
    let record = family.record(number);
    if role == Role::Connected {
        record.set(flag::CONNECTED);
    }
    // A call that goes on with what another has begun opens nothing.
    let is_new = !record.is_connection();
    record.set_peer(peer);
    if is_new {
        family.count_connection();
        family.note(number, Happening::Opened, 0, Reason::None);
    }
    if waits_awake(fd, peer) {
        record.set(flag::AWAKE);
    }
    upgrade_history::born(record, role, history_key);
    promote::rules::begin(record, fd, peer);
    if let Some(me) = Thread::known() {
        me.rhythm.note_opened();
    }
    promote::at_once::begin(family, number, fd);
}

fn waits_awake(fd: RawFd, peer: SocketAddr) -> bool {
    let scope = &process::config().scope;
    let local = scope.excludes_ports().then(|| {
        // SAFETY: the program is calling with this number.
        tcp::local_addr(unsafe { BorrowedFd::borrow_raw(fd) }).ok()
    });
    scope.waits_awake(local.flatten(), peer)
}

/// # Safety
/// `addr` has `len` bytes.
unsafe fn address(addr: *const sockaddr, len: socklen_t) -> Option<SocketAddr> {
    if addr.is_null() || (len as usize) < size_of::<sa_family_t>() {
        return None;
    }
    // SAFETY: long enough for the family, and for the rest as checked below.
    unsafe {
        match c_int::from((*addr).sa_family) {
            libc::AF_INET if len as usize >= size_of::<libc::sockaddr_in>() => {
                let addr = addr.cast::<libc::sockaddr_in>().read_unaligned();
                let ip = std::net::Ipv4Addr::from(u32::from_be(addr.sin_addr.s_addr));
                Some((ip, u16::from_be(addr.sin_port)).into())
            }
            libc::AF_INET6 if len as usize >= size_of::<libc::sockaddr_in6>() => {
                let addr = addr.cast::<libc::sockaddr_in6>().read_unaligned();
                let ip = std::net::Ipv6Addr::from(addr.sin6_addr.s6_addr).to_canonical();
                Some((ip, u16::from_be(addr.sin6_port)).into())
            }
            _ => None,
        }
    }
}
