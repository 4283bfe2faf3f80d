//! The data calls: who carries this one, the kernel as it is, or we?

use std::os::fd::BorrowedFd;
use std::sync::atomic::Ordering;

use libc::{c_int, c_void, iovec, mmsghdr, msghdr, off64_t, sockaddr, socklen_t, timespec};
use rustix::io::Errno;

use crate::api::{InFlight, Verdict};
use crate::cancel;
use crate::conn::buffers::{Buffers, Control, File};
use crate::conn::wait::Deadline;
use crate::conn::{self, Handle};
use crate::family::Family;
use crate::options;
use crate::process;
use crate::reason::Reason;
use crate::record::{flag, Record, State};
use crate::table::{self, Slot};
use crate::upgrade;

/// Which way the bytes go.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Way {
    Out,
    In,
}

/// Who carries a call.
enum Carry {
    Verdict(Verdict),
    Ours(Handle),
}

/// Flags that only the kernel's own stream can honour.
const KERNEL_ONLY: c_int = libc::MSG_OOB | libc::MSG_ZEROCOPY | libc::MSG_FASTOPEN;

#[inline]
fn carry(fd: c_int, way: Way, flags: c_int) -> Carry {
    match table::get(fd) {
        Slot::Foreign | Slot::Fresh | Slot::Listener | Slot::Epoll(_) => {
            Carry::Verdict(Verdict::Bypass)
        }
        Slot::Internal => Carry::Verdict(Verdict::Fail(libc::EBADF)),
        Slot::Record(number) => match process::family() {
            Some(family) => carry_record(family, number, fd, way, flags),
            None => Carry::Verdict(Verdict::Bypass),
        },
    }
}

#[inline]
fn carry_record(family: &'static Family, number: u32, fd: c_int, way: Way, flags: c_int) -> Carry {
    let record = family.record(number);
    if flags & KERNEL_ONLY != 0 {
        options::to_kernel(
            fd,
            if flags & libc::MSG_OOB != 0 {
                Reason::Urgent
            } else {
                Reason::Call
            },
        );
    }
    match record.state() {
        State::Plain => {
            upgrade::note_call(family, number, record, fd);
            if record.state() != State::Managed {
                return by_kernel(record, Handle::new(family, number, fd), way);
            }
        }
        State::Managed => {}
        State::Free | State::Out => return Carry::Verdict(Verdict::Bypass),
    }
    Carry::Ours(Handle::new(family, number, fd))
}

/// Through the gate as it is; if it has just been closed, the call is ours after all.
fn by_kernel(record: &'static Record, handle: Handle, way: Way) -> Carry {
    let gate = if way == Way::Out {
        &record.tx.gate
    } else {
        &record.rx.gate
    };
    if gate.enter() {
        return Carry::Verdict(Verdict::Kernel(InFlight::new(record, way)));
    }
    Carry::Ours(handle)
}

fn verdict(fd: c_int, result: Option<Result<usize, Errno>>) -> Verdict {
    match result {
        Some(Ok(n)) => Verdict::Done(n as isize),
        Some(Err(error)) => Verdict::Fail(error.raw_os_error()),
        // Closed by another thread, which has opened another connection at this number: that one's
        // stream is none of this call's business.
        None if matches!(table::get(fd), Slot::Record(_)) => Verdict::Fail(libc::EBADF),
        // Closed, or not managed any more: the kernel has the word.
        None => Verdict::Bypass,
    }
}

#[inline]
fn after_call(handle: Handle) {
    if let Some(family) = process::family() {
        conn::part::note_call(family, handle);
    }
}

fn receive(fd: c_int, list: &[iovec], flags: c_int) -> Verdict {
    receive_into(fd, &mut Buffers::new(list), Buffers::total(list), flags)
}

fn receive_into(fd: c_int, room: &mut Buffers<'_>, len: usize, flags: c_int) -> Verdict {
    if flags & libc::MSG_ERRQUEUE != 0 {
        return crate::lifecycle::guard(fd);
    }
    if flags & libc::MSG_OOB != 0 {
        // Urgent bytes are in no ring and in no count of ours.
        options::to_kernel(fd, Reason::Urgent);
        return crate::lifecycle::guard(fd);
    }
    match carry(fd, Way::In, flags) {
        Carry::Verdict(verdict) => verdict,
        Carry::Ours(handle) => {
            cancel::point();
            if len == 0 {
                return verdict(fd, until_readable(handle, flags));
            }
            if flags & libc::MSG_TRUNC != 0 {
                let result = conn::recv::recv(handle, &mut conn::buffers::Bin, len, flags);
                return verdict(fd, result);
            }
            let result = conn::recv::recv(handle, room, len, flags);
            after_call(handle);
            verdict(fd, result)
        }
    }
}

/// A receive of no bytes waits, and fails, as one of some would; but whatever ends the wait, it has
/// then succeeded.
fn until_readable(handle: Handle, flags: c_int) -> Option<Result<usize, Errno>> {
    let patient = flags & libc::MSG_DONTWAIT == 0 && !handle.record()?.has(flag::NONBLOCK);
    let flags = flags & !libc::MSG_WAITALL | libc::MSG_PEEK;
    let mut room = conn::buffers::Bin;
    match conn::recv::until_interrupted(handle, &mut room, 1, flags)? {
        Err(Errno::AGAIN | Errno::INTR) if patient => Some(Ok(0)),
        result => Some(result.map(|_| 0)),
    }
}

fn transmit(fd: c_int, list: &[iovec], flags: c_int) -> Verdict {
    transmit_from(fd, &mut Buffers::new(list), Buffers::total(list), flags)
}

fn transmit_from(fd: c_int, bytes: &mut Buffers<'_>, len: usize, flags: c_int) -> Verdict {
    // No bytes are in nobody's way, and the kernel knows whether they fail.
    if len == 0 {
        return crate::lifecycle::guard(fd);
    }
    match carry(fd, Way::Out, flags) {
        Carry::Verdict(verdict) => verdict,
        Carry::Ours(handle) => {
            cancel::point();
            let result = conn::send::send(handle, bytes, len, flags);
            after_call(handle);
            verdict(fd, result)
        }
    }
}

/// # Safety
/// As libc's `read`.
#[inline]
pub unsafe fn read(fd: c_int, buf: *mut c_void, len: usize) -> Verdict {
    // Unlike recv, the kernel's read of no bytes does not look at the socket.
    if len == 0 {
        return crate::lifecycle::guard(fd);
    }
    // SAFETY: by contract.
    unsafe { recv(fd, buf, len, 0) }
}

/// # Safety
/// As libc's `recv`.
pub unsafe fn recv(fd: c_int, buf: *mut c_void, len: usize, flags: c_int) -> Verdict {
    receive(
        fd,
        &[iovec {
            iov_base: buf,
            iov_len: len,
        }],
        flags,
    )
}

/// # Safety
/// As libc's `send`.
pub unsafe fn send(fd: c_int, buf: *const c_void, len: usize, flags: c_int) -> Verdict {
    transmit(
        fd,
        &[iovec {
            iov_base: buf.cast_mut(),
            iov_len: len,
        }],
        flags,
    )
}

/// # Safety
/// `iov` has `count` entries.
unsafe fn list<'a>(iov: *const iovec, count: usize) -> Option<&'a [iovec]> {
    // 1024 is the kernel's own limit.
    if count > 1024 || (count > 0 && iov.is_null()) {
        return None;
    }
    if count == 0 {
        return Some(&[]);
    }
    // SAFETY: by contract.
    let list = unsafe { std::slice::from_raw_parts(iov, count) };
    // Lengths below zero the kernel refuses, before it looks at the socket.
    let sound = list
        .iter()
        .all(|piece| piece.iov_len <= isize::MAX as usize);
    sound.then_some(list)
}

/// # Safety
/// As libc's `readv`, with `MSG_DONTWAIT` or without.
pub unsafe fn readv(fd: c_int, iov: *const iovec, count: usize, flags: c_int) -> Verdict {
    // SAFETY: by contract.
    match unsafe { list(iov, count) } {
        Some(list) if Buffers::total(list) > 0 => receive(fd, list, flags),
        _ => crate::lifecycle::guard(fd),
    }
}

/// # Safety
/// As libc's `writev`, with `MSG_DONTWAIT` or without.
pub unsafe fn writev(fd: c_int, iov: *const iovec, count: usize, flags: c_int) -> Verdict {
    // SAFETY: by contract.
    unsafe { list(iov, count) }.map_or(Verdict::Bypass, |list| transmit(fd, list, flags))
}

/// # Safety
/// As libc's `recvfrom`.
pub unsafe fn recvfrom(
    fd: c_int,
    buf: *mut c_void,
    len: usize,
    flags: c_int,
    addr: *mut sockaddr,
    addrlen: *mut socklen_t,
) -> Verdict {
    // SAFETY: by contract.
    let verdict = unsafe { recv(fd, buf, len, flags) };
    if matches!(verdict, Verdict::Done(_)) && !addr.is_null() && !addrlen.is_null() {
        // SAFETY: by contract; a TCP socket names no sender.
        unsafe { *addrlen = 0 };
    }
    verdict
}

/// # Safety
/// As libc's `recvmsg`.
pub unsafe fn recvmsg(fd: c_int, msg: *mut msghdr, flags: c_int) -> Verdict {
    // SAFETY: null or valid by contract.
    let Some(header) = (unsafe { msg.as_mut() }) else {
        return Verdict::Bypass;
    };
    // SAFETY: by contract.
    let Some(list) = (unsafe { list(header.msg_iov, header.msg_iovlen) }) else {
        return Verdict::Bypass;
    };
    let mut control = control(header);
    let mut room = Buffers::with_control(list, &mut control);
    let verdict = receive_into(fd, &mut room, Buffers::total(list), flags);
    if matches!(verdict, Verdict::Done(_)) {
        header.msg_namelen = 0;
        header.msg_controllen = control.written;
        header.msg_flags = control.flags | flags & libc::MSG_CMSG_CLOEXEC;
    }
    verdict
}

/// # Safety
/// As libc's `sendmsg`.
pub unsafe fn sendmsg(fd: c_int, msg: *const msghdr, flags: c_int) -> Verdict {
    // SAFETY: null or valid by contract.
    let Some(header) = (unsafe { msg.as_ref() }) else {
        return Verdict::Bypass;
    };
    if header.msg_controllen != 0 {
        // Time stamps and the like belong to the kernel's stream.
        if let Slot::Record(_) = table::get(fd) {
            options::to_kernel(fd, Reason::Call);
        }
    }
    // SAFETY: by contract.
    let Some(list) = (unsafe { list(header.msg_iov, header.msg_iovlen) }) else {
        return Verdict::Bypass;
    };
    let mut control = control(header);
    let mut bytes = Buffers::with_control(list, &mut control);
    transmit_from(fd, &mut bytes, Buffers::total(list), flags)
}

/// The control data of a message, none yet written.
fn control(header: &msghdr) -> Control {
    Control {
        at: header.msg_control,
        len: header.msg_controllen,
        written: 0,
        flags: 0,
    }
}

/// Runs one call per message until one moves nothing; the first decides the verdict.
///
/// # Safety
/// `vec` has `len` entries.
unsafe fn many(
    vec: *mut mmsghdr,
    len: u32,
    mut each: impl FnMut(&mut mmsghdr, u32) -> Option<Verdict>,
) -> Verdict {
    let mut done = 0;
    while done < len.min(1024) {
        // SAFETY: below `len`.
        let entry = unsafe { &mut *vec.add(done as usize) };
        match each(entry, done) {
            Some(Verdict::Done(n)) => entry.msg_len = n as u32,
            Some(first) if done == 0 => return first,
            _ => break,
        }
        done += 1;
    }
    Verdict::Done(done as isize)
}

/// # Safety
/// As libc's `recvmmsg`.
pub unsafe fn recvmmsg(
    fd: c_int,
    vec: *mut mmsghdr,
    len: u32,
    flags: c_int,
    timeout: *mut timespec,
) -> Verdict {
    if vec.is_null() || options::managed(fd).is_none() {
        return one_by_one(fd, Way::In);
    }
    // As in the kernel, a pending error comes before any bytes.
    if flags & libc::MSG_ERRQUEUE == 0 {
        if let Some(error) = options::take_error(fd) {
            return Verdict::Fail(error.raw_os_error());
        }
    }
    // SAFETY: null or valid by contract.
    let limit = unsafe { timeout.as_ref() };
    let limit = limit.map(|time| {
        Deadline::after(std::time::Duration::new(
            time.tv_sec.max(0) as u64,
            time.tv_nsec.clamp(0, 999_999_999) as u32,
        ))
    });
    let (wait_for_one, flags) = (
        flags & libc::MSG_WAITFORONE != 0,
        flags & !libc::MSG_WAITFORONE,
    );
    // SAFETY: by contract.
    unsafe {
        many(vec, len, |entry, done| {
            if done > 0 && limit.is_some_and(|limit| limit.passed()) {
                return None;
            }
            let flags = if wait_for_one && done > 0 {
                flags | libc::MSG_DONTWAIT
            } else {
                flags
            };
            Some(recvmsg(fd, &mut entry.msg_hdr, flags))
        })
    }
}

/// # Safety
/// As libc's `sendmmsg`.
pub unsafe fn sendmmsg(fd: c_int, vec: *mut mmsghdr, len: u32, flags: c_int) -> Verdict {
    if vec.is_null() || options::managed(fd).is_none() {
        return one_by_one(fd, Way::Out);
    }
    // SAFETY: by contract.
    unsafe {
        many(vec, len, |entry, _| {
            Some(sendmsg(fd, &entry.msg_hdr, flags))
        })
    }
}

/// Not managed: the kernel's own call, counted on its way.
fn one_by_one(fd: c_int, way: Way) -> Verdict {
    match carry(fd, way, 0) {
        Carry::Verdict(verdict) => verdict,
        // It has become managed just now: the next call is ours, this one finds the gate closed.
        Carry::Ours(handle) => {
            options::to_kernel(handle.fd, Reason::Call);
            Verdict::Bypass
        }
    }
}

/// # Safety
/// As libc's `sendfile`.
pub unsafe fn sendfile(out: c_int, input: c_int, offset: *mut off64_t, count: usize) -> Verdict {
    if table::get(input) == Slot::Internal {
        return Verdict::Fail(libc::EBADF);
    }
    if count == 0 {
        return crate::lifecycle::guard(out);
    }
    let handle = match carry(out, Way::Out, 0) {
        Carry::Verdict(verdict) => return verdict,
        Carry::Ours(handle) => handle,
    };
    // Rust has no place for this one; the kernel refuses all negative numbers alike.
    if input < 0 {
        return Verdict::Fail(libc::EBADF);
    }
    // SAFETY: the program's own number; a bad one makes the reads fail.
    let file = unsafe { BorrowedFd::borrow_raw(input) };
    // Only what can be read again at a position: the ring may take less than was asked for.
    if rustix::fs::tell(file).is_err() {
        options::to_kernel(out, Reason::Call);
        return Verdict::Bypass;
    }
    // SAFETY: null or valid by contract.
    let position = unsafe { offset.as_mut() };
    let begin = match &position {
        Some(at) if **at < 0 => return Verdict::Fail(libc::EINVAL),
        Some(at) => Some(**at as u64),
        None => None,
    };
    let mut source = File {
        file,
        offset: begin,
        error: None,
    };
    let result = conn::send::send(handle, &mut source, count.min(0x7fff_f000), 0);
    if let (Some(at), Some(end)) = (position, source.offset) {
        *at = end as off64_t;
    }
    match (result, source.error) {
        (Some(Ok(0)), Some(error)) => Verdict::Fail(error.raw_os_error()),
        (result, _) => verdict(out, result),
    }
}

/// Ends a kernel call on a plain connection.
pub fn ended(record: &Record, way: Way, result: isize) {
    let (gate, counts) = match way {
        Way::Out => (&record.tx.gate, &record.tx.counts),
        Way::In => (&record.rx.gate, &record.rx.counts),
    };
    if result > 0 {
        counts
            .kernel_bytes
            .fetch_add(result as u64, Ordering::Relaxed);
        counts.messages.fetch_add(1, Ordering::Relaxed);
    }
    gate.leave();
}
