//! Sockets that are passed to other processes by SCM_RIGHTS, and received.
//!
//! Who passes a connection has it handed over to the kernel, for the receiver may not know us, and both hold it from then
//! on. It may come back to rings when one process is left that holds it. That is known only if all who do are counted, by a
//! [slip](crate::state::slips): the sender counts before it sends, the receiver goes on with the share of the message, and
//! who closes it gives its share back. So a process without ulsock that gets it, or was killed with it, keeps it on the kernel.
//!
//! A receiver must know that its message is the one which was counted: a stranger may have received that one, and have passed a
//! copy on. So the slip names the one Unix socket that the sender's leads to. (Processes with and without ulsock that
//! receive from the same end of it could still deceive each other.)
//!
//! What a process has done with a socket can outlast its closing it, if others hold it: registrations in epoll sets
//! stay, and so do calls of other threads under way. Then its slip is void.

use std::os::fd::{BorrowedFd, RawFd};
use std::sync::atomic::{Ordering, fence};

use crate::calls::descriptors::fd_opened;
use crate::calls::opening;
use crate::conn::handover::Rest;
use crate::promote;
use crate::ready::epoll;
use crate::runtime::process;
use crate::runtime::thread::Thread;
use crate::state::holders;
use crate::state::record::{Record, State, flag};
use crate::state::slips::{self, Sent};
use crate::state::table::{self, Slot};
use os::access;
use os::tcp;
use os::unix;
use rendezvous::reason::Reason;

/// What one message carries that was counted. Further sockets in it stay on the kernel.
#[derive(Default)]
pub struct Passing {
    counted: [Option<Sent>; 4],
}

impl Passing {
    /// The call has failed: nothing was passed.
    pub fn failed(&self) {
        let Some(slips) = self.counted[0].and_then(|_| slips::open()) else {
            return;
        };
        let sent = self.counted.iter().flatten();
        sent.for_each(|sent| slips.take_back(*sent));
    }

    fn has_room(&self) -> bool {
        self.counted.iter().any(Option::is_none)
    }

    fn note(&mut self, sent: Sent) {
        if let Some(place) = self.counted.iter_mut().find(|place| place.is_none()) {
            *place = Some(sent);
        }
    }
}

/// Before `sendmsg` with control data on `channel`: connections that are passed on go back to the kernel. Without a channel it
/// is one of several messages, which are not counted.
///
/// # Safety
/// As libc's `sendmsg`.
pub unsafe fn passing_fds(channel: Option<RawFd>, msg: *const libc::msghdr) -> Passing {
    let mut passing = Passing::default();
    // SAFETY: any bytes are a header.
    let Some(msg) = (unsafe { access::load(msg) }) else {
        return passing;
    };
    if !access::is_readable(msg.msg_control, msg.msg_controllen) {
        return passing;
    }
    // SAFETY: all of it can be read.
    unsafe {
        each_passed(&msg, |fd| match table::get(fd) {
            Slot::Epoll(set) => epoll::only_by_kernel(set, fd, Rest::StandInIfAlone),
            Slot::Record(number) => {
                let channel = channel.filter(|_| passing.has_room());
                if let Some(sent) = pass(channel, number, fd) {
                    passing.note(sent);
                }
            }
            _ => crate::conn::handover::to_kernel(fd, Reason::Passed),
        })
    };
    passing
}

/// Passes one connection on; what was counted for it.
fn pass(channel: Option<RawFd>, number: u32, fd: RawFd) -> Option<Sent> {
    let family = crate::state::process_group::own()?;
    let record = family.record(number);
    let sent = channel.and_then(|channel| count(channel, record, fd));
    let sent = sent.filter(|_| promote::hold_back(family, number));
    let Some(sent) = sent else {
        // First the flag: another thread or process may be writing the first slip just now, and looks for it afterwards.
        record.set(flag::PINNED);
        fence(Ordering::SeqCst);
        holders::void(record);
        crate::conn::handover::to_kernel(fd, Reason::Passed);
        return None;
    };
    if record.state() == State::Managed {
        crate::conn::handover::to_kernel(fd, Reason::Passed);
    } else {
        record.set_reason(Reason::Passed);
    }
    // A stand-in that has taken its place is another socket.
    if table::get(fd) != Slot::Record(number)
        && let Some(slips) = slips::open()
    {
        slips.void(sent.cookie);
    }
    Some(sent)
}

/// Counts the message that the connection is about to travel in. `None`: nobody could know when one holder is left.
fn count(channel: RawFd, record: &Record, fd: RawFd) -> Option<Sent> {
    let pinned = record.has(flag::PINNED);
    let stays = record.has(flag::STAYS) || pinned && !record.has(flag::SLIP);
    let live = record.is_connection()
        && !record.is_unix()
        && matches!(record.state(), State::Plain | State::Managed);
    if stays || !live || is_watched(record, fd) || process::is_frozen() || in_handler() {
        return None;
    }
    // SAFETY: the program is calling with both; if it closes one meanwhile, the questions fail.
    let (channel, socket) =
        unsafe { (BorrowedFd::borrow_raw(channel), BorrowedFd::borrow_raw(fd)) };
    let to = unix::receiver_of(channel).ok().flatten()?;
    let sent = Sent::new(tcp::cookie(socket).ok()?, record.role(), to);
    let slips = slips::open()?;
    record.cookie.store(sent.cookie, Ordering::Release);
    if !record.begin(flag::SLIP) {
        return slips.add(sent).then_some(sent);
    }
    let counted = slips.begin(sent);
    fence(Ordering::SeqCst);
    (counted && record.has(flag::PINNED) == pinned).then_some(sent)
}

/// Is it in an epoll set, or was it in one that may have outlived its number here?
fn is_watched(record: &Record, fd: RawFd) -> bool {
    record.has(flag::IN_EPOLL) || epoll::is_noted(fd)
}

fn in_handler() -> bool {
    Thread::me().is_none_or(Thread::in_handler)
}

/// Before a number of it is closed: the kernel goes on telling the sets that it is in.
pub fn number_closes(record: &Record, fd: RawFd) {
    if record.has(flag::SLIP) && is_watched(record, fd) {
        holders::void(record);
    }
}

/// Before a receive that looks at messages without taking them, and can be given descriptors; whether it was noted.
pub fn peek_begins() -> bool {
    let slips = slips::open().filter(|_| process::is_on());
    slips.inspect(|slips| slips.peek_begins()).is_some()
}

/// After it; `noted` is what its beginning gave.
pub fn peek_ends(noted: bool) {
    if let Some(slips) = slips::open().filter(|_| noted) {
        slips.peek_ends();
    }
}

/// After `recvmsg` with control data on `channel`. `None`: the messages are not taken, only looked at.
///
/// # Safety
/// `msg` is a valid message header as the kernel filled it.
pub unsafe fn received_fds(channel: Option<RawFd>, msg: *const libc::msghdr) {
    // SAFETY: the kernel has filled the header and the control data that it names.
    unsafe {
        each_passed(msg, |fd| {
            fd_opened(fd);
            if process::is_on() {
                received(channel, fd);
            }
        })
    };
}

fn received(channel: Option<RawFd>, fd: RawFd) -> Option<()> {
    // SAFETY: the kernel has just given us the number, and the program does not know it yet.
    let socket = unsafe { BorrowedFd::borrow_raw(fd) };
    let cookie = tcp::cookie(socket).ok().filter(|_| tcp::is_tcp(socket))?;
    let slips = slips::open()?;
    let Some(channel) = channel else {
        slips.void(cookie);
        return None;
    };
    // SAFETY: the program is calling with it; if it closes it meanwhile, the question fails.
    let from = unix::inode(unsafe { BorrowedFd::borrow_raw(channel) }).ok()?;
    // Whatever fails from here on, the share is not given back.
    let role = slips.receive(cookie, from).filter(|_| !in_handler())?;
    opening::received(fd, socket, role, cookie);
    Some(())
}

/// # Safety
/// `msg` is a valid message header with valid control data.
unsafe fn each_passed(msg: *const libc::msghdr, mut each: impl FnMut(RawFd)) {
    // SAFETY: the walk stays within msg_controllen, as the CMSG macros guarantee.
    unsafe {
        let mut header = libc::CMSG_FIRSTHDR(msg);
        while !header.is_null() {
            if (*header).cmsg_level == libc::SOL_SOCKET && (*header).cmsg_type == libc::SCM_RIGHTS {
                let bytes = (*header)
                    .cmsg_len
                    .saturating_sub(libc::CMSG_LEN(0) as usize);
                let first = libc::CMSG_DATA(header).cast::<RawFd>();
                for index in 0..bytes / std::mem::size_of::<RawFd>() {
                    each(first.add(index).read_unaligned());
                }
            }
            header = libc::CMSG_NXTHDR(msg, header);
        }
    }
}
