//! How a stream socket gets its record, the place for all that is known about it.
//!
//! Most get it when they connect or are accepted. A socket that is not connected yet gets it as soon as it can
//! be reached in a second way: by an epoll set, another number or another process. What was said of it
//! before the connection existed must hold for the connection. Until then it is not a connection: nobody tries to
//! upgrade it, counts it or shows it. One that listens instead gives its record back.

mod unix;
mod young;

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
use crate::state;
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

pub use unix::pair_opened;
pub use young::{grow_up, may_grow};

/// After a successful `socket`.
pub fn socket_opened(fd: RawFd, domain: c_int, kind: c_int, protocol: c_int) {
    let kind = kind & !(libc::SOCK_NONBLOCK | libc::SOCK_CLOEXEC);
    let tcp = matches!(domain, libc::AF_INET | libc::AF_INET6)
        && kind == libc::SOCK_STREAM
        && matches!(protocol, 0 | libc::IPPROTO_TCP);
    let ours = tcp || unix::is_ours(domain, kind, protocol);
    fd_opened(fd);
    table::set(
        fd,
        if ours && process::is_on() {
            Slot::Fresh
        } else {
            Slot::Foreign
        },
    );
}

/// Before fork: the child will hold these sockets too.
pub fn give_records_to_all() {
    state::young::before_fork();
    for (fd, _) in table::unrecorded() {
        give_record(fd);
    }
}

/// In the child of a fork: connections that became young while it was under way are its parent's. No count knows of what the
/// child moves.
pub fn leave_young_to_parent() {
    let is_young = |(_, slot): &(RawFd, Slot)| matches!(slot, Slot::Young(_));
    let young = table::unrecorded().filter(is_young);
    state::young::forget(young.map(|(fd, slot)| {
        table::change(fd, slot, Slot::Foreign);
        fd
    }));
}

/// Before a new program is started that gets those of the sockets without a record which `stays_open` names: none of them
/// is ours any more, for we would not see what it does with them.
pub fn leave_to_program(stays_open: impl Fn(RawFd) -> bool) {
    for (fd, slot) in table::unrecorded().filter(|(fd, _)| stays_open(*fd)) {
        table::change(fd, slot, Slot::Foreign);
    }
}

/// After a successful `listen`: a listener has no record.
pub fn listening(fd: RawFd) {
    if table::change(fd, Slot::Fresh, Slot::Listener) {
        // Who accepts names memory for the address.
        fault::catch();
        return;
    }
    if table::get(fd) == Slot::Foreign {
        listening_by_several_paths(fd);
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

/// A listener of multipath TCP, as Go makes them since 1.24, gives a plain TCP socket to a client that speaks plain TCP
/// (`mptcp_stream_accept` in net/mptcp/protocol.c). One that speaks multipath TCP stays on the kernel.
#[cold]
fn listening_by_several_paths(fd: RawFd) {
    // SAFETY: the program has just called listen on it.
    let socket = unsafe { BorrowedFd::borrow_raw(fd) };
    if process::is_on() && tcp::is_mptcp(socket) {
        table::change(fd, Slot::Foreign, Slot::Listener);
        fault::catch();
    }
}

/// Is it known to be one of ours?
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
    if !process::is_on() || !is_our_listener(listener) {
        return;
    }
    // SAFETY: the caller says that the address has so many bytes.
    let Some(peer) = (unsafe { far_end(fd, peer) }) else {
        return;
    };
    let nonblock = flags & libc::SOCK_NONBLOCK != 0;
    if matches!(peer, Far::Unix) && unix::accepted_young(listener, fd, nonblock) {
        return;
    }
    begin_as(fd, peer, Role::Accepted, listener as u32, |record| {
        record.put(flag::NONBLOCK, nonblock);
    });
}

/// Who is at the other end of a socket that was accepted; `None`: it is no stream of ours.
///
/// # Safety
/// The address has as many bytes as it says.
unsafe fn far_end(fd: RawFd, named: Option<(*const sockaddr, socklen_t)>) -> Option<Far> {
    // SAFETY: the program has just been given it.
    let socket = unsafe { BorrowedFd::borrow_raw(fd) };
    let named = match named {
        // SAFETY: the caller says that the address has so many bytes.
        Some((addr, len)) => match unsafe { family(addr, len) } {
            // No listener of ours has others of this family.
            Some(libc::AF_UNIX) => return Some(Far::Unix),
            None => return unix::accepted(socket),
            // SAFETY: as above.
            Some(_) => unsafe { address(addr, len) },
        },
        None => tcp::peer_addr(socket).ok(),
    };
    named.map(Far::Inet).or_else(|| unix::accepted(socket))
}

/// The family of an address.
///
/// # Safety
/// `addr` has `len` bytes.
unsafe fn family(addr: *const sockaddr, len: socklen_t) -> Option<c_int> {
    let long_enough = !addr.is_null() && len as usize >= size_of::<sa_family_t>();
    // SAFETY: long enough for the family.
    long_enough.then(|| c_int::from(unsafe { (*addr).sa_family }))
}

/// The other end of a connection.
#[derive(Clone, Copy)]
enum Far {
    Inet(SocketAddr),
    Unix,
    /// The other one of a socket pair, which may never be used.
    Twin,
}

/// It has accepted a connection. A listener that was inherited is not in our table yet, or as a socket that was shared by fork
/// before another process called listen.
fn is_our_listener(fd: RawFd) -> bool {
    match table::get(fd) {
        Slot::Listener | Slot::Fresh => true,
        Slot::Record(_) => {
            listening(fd);
            table::get(fd) == Slot::Listener
        }
        Slot::Foreign => {
            // SAFETY: the program has just called accept on it.
            let socket = unsafe { BorrowedFd::borrow_raw(fd) };
            let ours =
                tcp::is_tcp(socket) || tcp::is_mptcp(socket) || unix::is_ours_by_kernel(socket);
            if ours {
                fault::catch();
                table::set(fd, Slot::Listener);
            }
            ours
        }
        Slot::Internal | Slot::Epoll(_) | Slot::Uring(_) | Slot::Young(_) => false,
    }
}

/// Before `connect`: it has its record before it can be connected, so that who receives or polls meanwhile is counted.
///
/// # Safety
/// As libc's `connect`.
pub unsafe fn before_connect(fd: RawFd, addr: *const sockaddr, len: socklen_t) -> Verdict {
    match table::get(fd) {
        Slot::Internal => return Verdict::Fail(libc::EBADF),
        // SAFETY: as the caller promises.
        Slot::Fresh if unsafe { unix::connecting(fd, addr, len) } => {}
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
/// (SO_SNDTIMEO) one on a blocking socket can end under way, too. `done`: it has succeeded.
///
/// # Safety
/// `addr` has `len` bytes.
pub unsafe fn connected(fd: RawFd, addr: *const sockaddr, len: socklen_t, done: bool) {
    if let Slot::Young(life) = table::get(fd) {
        return young::connect_ended(fd, life, done);
    }
    let Some((family_of_ours, number, record)) =
        crate::state::process_group::record_of(fd).filter(|_| process::is_on())
    else {
        return;
    };
    if record.state() != State::Plain {
        return;
    }
    // SAFETY: the caller says that the address has so many bytes.
    if unsafe { family(addr, len) } == Some(libc::AF_UNIX) {
        if done {
            // SAFETY: as above.
            unsafe { unix::connected(family_of_ours, number, fd, addr, len) };
        }
        return;
    }
    // SAFETY: as above.
    let Some(named) = (unsafe { address(addr, len) }) else {
        return;
    };
    order::spoke_by_kernel();
    // The end of a connect that is under way goes by the address of its beginning.
    // SAFETY: the program is calling with this number.
    let socket = unsafe { BorrowedFd::borrow_raw(fd) };
    let known = record.is_connection().then(|| tcp::peer_addr(socket).ok());
    let peer = known.flatten().unwrap_or(named);
    become_connection(
        family_of_ours,
        number,
        fd,
        Far::Inet(peer),
        Role::Connected,
        peer.port().into(),
    );
}

/// After a `connect` that has failed.
pub fn not_connected(fd: RawFd) {
    if let Slot::Young(life) = table::get(fd) {
        young::connect_ended(fd, life, false);
    }
}

/// A connection that this process had before it became this program.
pub fn inherited(fd: RawFd, socket: BorrowedFd<'_>, connected: bool) {
    if let Ok(peer) = tcp::peer_addr(socket) {
        let role = match connected {
            true => Role::Connected,
            false => Role::Accepted,
        };
        begin(fd, Far::Inet(peer), role, peer.port().into());
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
    begin_as(fd, Far::Inet(peer), role, history_key.into(), |record| {
        record.cookie.store(cookie, Ordering::Release);
        record.set(flag::SLIP);
    });
}

/// A socket that is connected already gets its record.
fn begin(fd: RawFd, peer: Far, role: Role, history_key: u32) {
    begin_as(fd, peer, role, history_key, |_| {});
}

/// The same; `as_it_is` says what is known of it before anybody can look.
fn begin_as(fd: RawFd, peer: Far, role: Role, history_key: u32, as_it_is: impl FnOnce(&Record)) {
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
    peer: Far,
    role: Role,
    history_key: u32,
) {
    let record = family.record(number);
    if role == Role::Connected {
        record.set(flag::CONNECTED);
    }
    // A call that goes on with what another has begun opens nothing.
    let is_new = !record.is_connection();
    match peer {
        Far::Inet(peer) => record.set_peer(peer),
        Far::Unix | Far::Twin => record.set_unix(),
    }
    upgrade_history::born(record, upgrade_history::key(role, history_key), 0);
    if is_new {
        note_opened(family, number);
    }
    if let Far::Inet(peer) = peer
        && waits_awake(fd, peer)
    {
        record.set(flag::AWAKE);
    }
    promote::rules::begin(record, fd);
    if let Some(me) = Thread::known() {
        me.rhythm.note_opened();
    }
    // A thread that has both ends would wait for itself.
    if !matches!(peer, Far::Twin) {
        promote::at_once::begin(family, number, fd);
    }
}

/// A record has become one of a connection.
fn note_opened(family: &ProcessGroup, number: u32) {
    family.count_connection();
    family.note(number, Happening::Opened, 0, Reason::None);
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
