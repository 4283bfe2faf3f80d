//! The calls that move one message: vectors of buffers, with control data. Those that move many are in
//! [`super::many`].

use libc::{c_int, msghdr};
use rustix::io::Errno;

use super::sender;
use super::vectors::list;
use super::{Quick, Way, awake, inq, receive_into, transmit_from, until_done};
use crate::calls::passing;
use crate::conn::buffers::{Buffers, ControlData};
use crate::conn::{self, Handle};
use crate::state::table::{self, Slot};
use crate::state::verdict::Verdict;
use os::access;
use rendezvous::reason::Reason;

/// # Safety
/// As libc's `recvmsg`.
pub unsafe fn recvmsg(fd: c_int, msg: *mut msghdr, flags: c_int) -> Verdict {
    if table::attended(fd).is_none() && !awake::concerns(fd) {
        return Verdict::Bypass;
    }
    // SAFETY: the program's own header; what it names is checked before it is used.
    until_done(|| unsafe { receive_message(fd, msg, flags) })
}

/// `None`: the call begins again.
///
/// # Safety
/// As libc's `recvmsg`.
pub(super) unsafe fn receive_message(fd: c_int, msg: *mut msghdr, flags: c_int) -> Option<Verdict> {
    let Some(header) = header(msg) else {
        return Some(crate::state::verdict::guard(fd));
    };
    // SAFETY: the program's vector, for the length of the call, as recvmsg wants it.
    let Some(list) = (unsafe { list(header.msg_iov, header.msg_iovlen) }) else {
        return Some(Verdict::Bypass);
    };
    let mut control = control(&header);
    control.asked = flags & libc::MSG_CMSG_CLOEXEC;
    let mut room = Buffers::with_control(list, &mut control);
    let verdict = receive_into(fd, &mut room, Buffers::total(list), flags, Quick::Try);
    let Some(Verdict::Done(n)) = verdict else {
        return verdict;
    };
    inq::tell(fd, &mut control);
    if !received(fd, msg, &header, &control, (flags, Buffers::total(list), n)) {
        return Some(Verdict::Fail(libc::EFAULT));
    }
    if control.written > 0 && sender::is_unix(fd) {
        let channel = (flags & libc::MSG_PEEK == 0).then_some(fd);
        // SAFETY: the kernel has filled the control data, and the header says how much of it.
        unsafe { passing::received_fds(channel, msg) };
    }
    verdict
}

/// Says what has been received, in the program's own message; `false` if that cannot be written: as in the kernel, what has
/// been received is gone then.
fn received(
    fd: c_int,
    msg: *mut msghdr,
    header: &msghdr,
    control: &ControlData,
    (flags, asked, n): (c_int, usize, isize),
) -> bool {
    let flags = control.flags | flags & libc::MSG_CMSG_CLOEXEC;
    // SAFETY: only the places are named.
    unsafe {
        let name_length = &raw mut (*msg).msg_namelen;
        (header.msg_name.is_null()
            || sender::tell(
                fd,
                (asked, n),
                header.msg_name.cast(),
                header.msg_namelen,
                name_length,
            ))
            && access::store(&raw mut (*msg).msg_controllen, control.written)
            && access::store(&raw mut (*msg).msg_flags, flags)
    }
}

/// One of many messages, on a connection that the call keeps, though its number means something else by now. `None`:
/// it cannot be moved.
///
/// # Safety
/// As libc's `recvmsg` or `sendmsg`.
pub(super) unsafe fn on_kept(
    handle: Handle,
    way: Way,
    msg: *mut msghdr,
    flags: c_int,
) -> Option<Result<usize, Errno>> {
    // SAFETY: any bytes are a header.
    let Some(header) = (unsafe { access::load(msg) }) else {
        return Some(Err(Errno::FAULT));
    };
    // SAFETY: the program's vector, for the length of the call, as its message wants it.
    let list = unsafe { list(header.msg_iov, header.msg_iovlen) }?;
    let (mut control, len) = (control(&header), Buffers::total(list));
    let mut buffers = Buffers::with_control(list, &mut control);
    if buffers.sound().is_err() {
        return Some(Err(Errno::FAULT));
    }
    let result = match way {
        Way::In => conn::recv::recv(handle, &mut buffers, len, flags),
        Way::Out => conn::send::send(handle, &mut buffers, len, flags),
    };
    match (way, &result) {
        (Way::In, Some(Ok(n)))
            if !received(handle.fd, msg, &header, &control, (flags, len, *n as isize)) =>
        {
            Some(Err(Errno::FAULT))
        }
        _ => result,
    }
}

/// # Safety
/// As libc's `sendmsg`.
pub unsafe fn sendmsg(fd: c_int, msg: *const msghdr, flags: c_int) -> Verdict {
    if table::attended(fd).is_none() {
        awake::note_send(fd);
        return Verdict::Bypass;
    }
    // SAFETY: the program's own header; what it names is checked before it is used.
    until_done(|| unsafe { send_message(fd, msg, flags) })
}

/// `None`: the call begins again.
///
/// # Safety
/// As libc's `sendmsg`.
pub(super) unsafe fn send_message(fd: c_int, msg: *const msghdr, flags: c_int) -> Option<Verdict> {
    let Some(header) = header(msg) else {
        return Some(crate::state::verdict::guard(fd));
    };
    let is_unix = sender::is_unix(fd);
    if is_unix && !header.msg_name.is_null() && header.msg_namelen > 0 {
        // Connected already: the kernel refuses it.
        return Some(Verdict::Bypass);
    }
    if header.msg_controllen != 0 && !is_unix {
        // Time stamps and the like belong to the kernel's stream.
        if let Slot::Record(_) = table::get(fd) {
            crate::conn::handover::to_kernel(fd, Reason::Call);
        }
    }
    // SAFETY: the program's vector, for the length of the call, as sendmsg wants it.
    let Some(list) = (unsafe { list(header.msg_iov, header.msg_iovlen) }) else {
        return Some(Verdict::Bypass);
    };
    let mut control = control(&header);
    // Descriptors and credentials travel by the kernel, behind what a ring has carried.
    let quick = match control.len {
        0 => Quick::Try,
        _ => Quick::Refused,
    };
    let mut bytes = Buffers::with_control(list, &mut control);
    transmit_from(fd, &mut bytes, Buffers::total(list), flags, quick)
}

/// The control data of a message, none yet written.
fn control(header: &msghdr) -> ControlData {
    ControlData {
        at: header.msg_control,
        len: header.msg_controllen,
        written: 0,
        flags: 0,
        asked: 0,
    }
}

/// `None`: the kernel refuses it, also for a name of negative length, before it looks at the socket.
fn header(msg: *const msghdr) -> Option<msghdr> {
    // SAFETY: any bytes are a header.
    let header = unsafe { access::load(msg) };
    header.filter(|header| header.msg_name.is_null() || header.msg_namelen <= i32::MAX as u32)
}
