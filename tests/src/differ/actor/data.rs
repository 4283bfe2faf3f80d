//! The calls that move bytes.

use std::os::fd::AsRawFd;

use libc::{c_int, c_void};

use super::control::{self, Attached, Extras};
use super::number;
use super::outcome::Outcome;
use super::shapes::Shape;
use crate::differ::names;
use crate::differ::program::Step;

/// What receive buffers hold before.
const BLANK: u8 = 0xEE;

pub fn run(step: &Step, outcome: &mut Outcome) -> bool {
    match step.call.as_str() {
        "send" | "write" | "sendto" | "pwrite" => send(step, outcome),
        "writev" | "pwritev" | "pwritev2" => write_vector(step, outcome),
        "sendmsg" => send_message(step, outcome),
        "sendmmsg" => send_messages(step, outcome),
        "sendfile" => send_file(step, outcome),
        "splice_in" => splice_in(step, outcome),
        "recv" | "read" | "recvfrom" | "pread" => receive(step, outcome),
        "readv" | "preadv" | "preadv2" => read_vector(step, outcome),
        "recvmsg" => receive_message(step, outcome),
        "recvmmsg" => receive_messages(step, outcome),
        "splice_out" => splice_out(step, outcome),
        _ => return false,
    }
    true
}

/// The bytes that a step sends: they depend on its arguments alone.
fn content(step: &Step) -> Vec<u8> {
    let seed = step.get("seed") as u32;
    (0..step.get("len").max(0) as u32)
        .map(|i| (seed.wrapping_mul(0x9E37_79B1) >> 13).wrapping_add(i * 31) as u8)
        .collect()
}

fn blank(step: &Step) -> Vec<u8> {
    vec![BLANK; step.get("len").max(0) as usize]
}

/// For lengths that no buffer has: room for as much as a call moves at most, filled as far as bytes may come.
fn wide() -> &'static mut [u8] {
    const SIZE: usize = 3 << 30;
    const USED: usize = 8 << 20;
    // Far below the end of user space, and nobody else's; what was there before is gone.
    const PLACE: usize = 1 << 44;
    let (prot, anonymous) = (libc::PROT_READ | libc::PROT_WRITE, libc::MAP_ANONYMOUS);
    let kind = libc::MAP_PRIVATE | anonymous | libc::MAP_NORESERVE | libc::MAP_FIXED;
    // SAFETY: memory that only this function gives out, to one receive at a time.
    unsafe {
        let base = libc::mmap(PLACE as *mut c_void, SIZE, prot, kind, -1, 0);
        assert_ne!(base, libc::MAP_FAILED, "map a wide buffer");
        let wide = std::slice::from_raw_parts_mut(base.cast(), USED);
        wide.fill(BLANK);
        wide
    }
}

fn flags(step: &Step) -> c_int {
    step.get("flags") as c_int
}

fn send(step: &Step, outcome: &mut Outcome) {
    let (fd, data) = (number(step.get("fd")), content(step));
    let (base, length): (*const c_void, usize) = match data.len() {
        0 => (std::ptr::null(), 0),
        length => (data.as_ptr().cast(), length),
    };
    // SAFETY: base and length describe `data`, or nothing.
    outcome.call(|| unsafe {
        match step.call.as_str() {
            "write" => libc::write(fd, base, length) as i64,
            "pwrite" => libc::pwrite(fd, base, length, step.get("offset")) as i64,
            "sendto" => {
                let nowhere: libc::sockaddr_in = std::mem::zeroed();
                let address = &raw const nowhere;
                let room = step.find("room").unwrap_or(16) as libc::socklen_t;
                libc::sendto(fd, base, length, flags(step), address.cast(), room) as i64
            }
            _ => libc::send(fd, base, length, flags(step)) as i64,
        }
    });
}

fn write_vector(step: &Step, outcome: &mut Outcome) {
    let fd = number(step.get("fd"));
    let shape = Shape::new(step.get("shape"), content(step));
    let (vector, count) = (shape.vector.as_ptr(), shape.count as c_int);
    let offset = step.get("offset");
    // SAFETY: the shape owns what its vector describes; a bad one the kernel must refuse.
    outcome.call(|| unsafe {
        match step.call.as_str() {
            "pwritev" => libc::pwritev(fd, vector, count, offset) as i64,
            "pwritev2" => {
                libc::pwritev2(fd, vector, count, offset, step.get("rwf") as c_int) as i64
            }
            _ => libc::writev(fd, vector, count) as i64,
        }
    });
}

fn send_message(step: &Step, outcome: &mut Outcome) {
    let fd = number(step.get("fd"));
    let mut shape = Shape::new(step.get("shape"), content(step));
    let mut message = shape.message();
    let mut attached = Attached::new(step);
    if let Some(attached) = &mut attached {
        attached.attach(&mut message);
    }
    // SAFETY: as above; what is attached outlives the call, too.
    outcome.call(|| unsafe { libc::sendmsg(fd, &message, flags(step)) as i64 });
}

fn send_messages(step: &Step, outcome: &mut Outcome) {
    let fd = number(step.get("fd"));
    let mut shapes: Vec<Shape> = (0..step.get("count"))
        .map(|_| Shape::new(step.get("shape"), content(step)))
        .collect();
    let mut messages = headers(&mut shapes);
    let mut attached = Attached::new(step);
    if let (Some(attached), Some(last)) = (&mut attached, messages.last_mut()) {
        attached.attach(&mut last.msg_hdr);
    }
    // SAFETY: as above; the vector has that many messages.
    let sent = outcome.call(|| unsafe {
        libc::sendmmsg(
            fd,
            messages.as_mut_ptr(),
            messages.len() as u32,
            flags(step),
        ) as i64
    });
    for message in &messages[..sent.max(0) as usize] {
        outcome.word(format!("len={}", message.msg_len));
    }
}

fn headers(shapes: &mut [Shape]) -> Vec<libc::mmsghdr> {
    shapes
        .iter_mut()
        .map(|shape| libc::mmsghdr {
            msg_hdr: shape.message(),
            msg_len: 0,
        })
        .collect()
}

/// From a file of the step's content.
fn send_file(step: &Step, outcome: &mut Outcome) {
    let path = std::env::temp_dir().join(format!("differ-file-{}", std::process::id()));
    std::fs::write(&path, content(step)).expect("write a file");
    let file = std::fs::File::open(&path).expect("open it");
    let _ = std::fs::remove_file(&path);
    let mut offset = step.get("offset");
    let at: *mut i64 = if step.find("offset").is_some() {
        &raw mut offset
    } else {
        std::ptr::null_mut()
    };
    let (fd, count) = (number(step.get("fd")), step.get("count").max(0) as usize);
    // SAFETY: null or our own variable.
    outcome.call(|| unsafe { libc::sendfile(fd, file.as_raw_fd(), at, count) as i64 });
    // SAFETY: our own file.
    let position = unsafe { libc::lseek(file.as_raw_fd(), 0, libc::SEEK_CUR) };
    outcome.word(format!("offset={offset} position={position}"));
}

fn pipe() -> [c_int; 2] {
    let mut ends = [0; 2];
    // SAFETY: room for two.
    assert_eq!(unsafe { libc::pipe(ends.as_mut_ptr()) }, 0, "pipe");
    ends
}

fn close_both(ends: [c_int; 2]) {
    for end in ends {
        // SAFETY: made by `pipe` just before.
        unsafe { libc::close(end) };
    }
}

/// From a pipe into the socket.
fn splice_in(step: &Step, outcome: &mut Outcome) {
    let (ends, data) = (pipe(), content(step));
    let fd = number(step.get("fd"));
    let null = std::ptr::null_mut;
    // SAFETY: the data is shorter than a pipe's buffer.
    unsafe { libc::write(ends[1], data.as_ptr().cast(), data.len()) };
    let flags = libc::SPLICE_F_NONBLOCK;
    // SAFETY: no offsets.
    outcome.call(|| unsafe { libc::splice(ends[0], null(), fd, null(), data.len(), flags) as i64 });
    close_both(ends);
}

/// From the socket into a pipe, and out of that.
fn splice_out(step: &Step, outcome: &mut Outcome) {
    let ends = pipe();
    let (fd, mut data) = (number(step.get("fd")), blank(step));
    let null = std::ptr::null_mut;
    let flags = libc::SPLICE_F_NONBLOCK;
    // SAFETY: no offsets.
    let moved = outcome
        .call(|| unsafe { libc::splice(fd, null(), ends[1], null(), data.len(), flags) as i64 });
    if moved > 0 {
        // SAFETY: pointer and length describe `data`.
        let n = unsafe { libc::read(ends[0], data.as_mut_ptr().cast(), data.len()) };
        outcome.bytes(&data[..n.max(0) as usize]);
    }
    close_both(ends);
}

/// Adds what was received, and whether bytes behind it changed.
fn received(outcome: &mut Outcome, buffer: &[u8], result: i64) {
    let Ok(n) = usize::try_from(result) else {
        return;
    };
    let (new, rest) = buffer.split_at(n.min(buffer.len()));
    outcome.bytes(new);
    if rest.iter().any(|byte| *byte != BLANK) {
        outcome.word("beyond");
    }
}

fn receive(step: &Step, outcome: &mut Outcome) {
    let mut owned = blank(step);
    let claim = step.find("claim").map(|claim| claim as usize);
    let buffer = match claim {
        Some(_) => wide(),
        None => &mut owned[..],
    };
    let (fd, length) = (number(step.get("fd")), claim.unwrap_or(buffer.len()));
    let base: *mut c_void = if length == 0 {
        std::ptr::null_mut()
    } else {
        buffer.as_mut_ptr().cast()
    };
    // SAFETY: an address of zeroes is a valid one.
    let mut address: libc::sockaddr_storage = unsafe { std::mem::zeroed() };
    let mut address_length = step.find("room").unwrap_or(128) as libc::socklen_t;
    // SAFETY: base and length describe `buffer`, or nothing.
    let result = outcome.call(|| unsafe {
        match step.call.as_str() {
            "read" => libc::read(fd, base, length) as i64,
            "pread" => libc::pread(fd, base, length, step.get("offset")) as i64,
            "recvfrom" => {
                let to = (&raw mut address).cast();
                libc::recvfrom(fd, base, length, flags(step), to, &raw mut address_length) as i64
            }
            _ => libc::recv(fd, base, length, flags(step)) as i64,
        }
    });
    received(outcome, buffer, result);
    if step.call == "recvfrom" && result >= 0 {
        outcome.address(&address, address_length);
    }
}

fn read_vector(step: &Step, outcome: &mut Outcome) {
    let fd = number(step.get("fd"));
    let shape = Shape::new(step.get("shape"), blank(step));
    let (vector, count) = (shape.vector.as_ptr(), shape.count as c_int);
    let offset = step.get("offset");
    // SAFETY: the shape owns what its vector describes; a bad one the kernel must refuse.
    let result = outcome.call(|| unsafe {
        match step.call.as_str() {
            "preadv" => libc::preadv(fd, vector, count, offset) as i64,
            "preadv2" => libc::preadv2(fd, vector, count, offset, step.get("rwf") as c_int) as i64,
            _ => libc::readv(fd, vector, count) as i64,
        }
    });
    received(outcome, &shape.memory, result);
}

fn receive_message(step: &Step, outcome: &mut Outcome) {
    let fd = number(step.get("fd"));
    let mut shape = Shape::new(step.get("shape"), blank(step));
    let mut message = shape.message();
    let mut extras = Extras::boxed();
    extras.attach(&mut message, step.find("room"));
    // SAFETY: all that the message points to outlives the call.
    let result =
        outcome.call(|| unsafe { libc::recvmsg(fd, &raw mut message, flags(step)) as i64 });
    received(outcome, &shape.memory, result);
    if result >= 0 {
        describe(outcome, &message, step);
    }
}

/// Adds what came beside the bytes.
fn describe(outcome: &mut Outcome, message: &libc::msghdr, step: &Step) {
    outcome.word(format!(
        "name={} control={} back={}",
        message.msg_namelen,
        control::show(message, step),
        names::message_flags(i64::from(message.msg_flags))
    ));
}

fn receive_messages(step: &Step, outcome: &mut Outcome) {
    let fd = number(step.get("fd"));
    let mut shapes: Vec<Shape> = (0..step.get("count"))
        .map(|_| Shape::new(step.get("shape"), blank(step)))
        .collect();
    let mut messages = headers(&mut shapes);
    let mut extras: Vec<Extras> = shapes.iter().map(|_| *Extras::boxed()).collect();
    if let Some(room) = step.find("room") {
        for (extras, message) in extras.iter_mut().zip(&mut messages) {
            extras.attach(&mut message.msg_hdr, Some(room));
        }
    }
    let before = libc::timespec {
        tv_sec: step.get("sec"),
        tv_nsec: step.get("nsec"),
    };
    let mut limit = before;
    let timeout = if step.get("timed") != 0 {
        &raw mut limit
    } else {
        std::ptr::null_mut()
    };
    // SAFETY: all that the messages point to outlives the call.
    let count = outcome.call(|| unsafe {
        libc::recvmmsg(
            fd,
            messages.as_mut_ptr(),
            messages.len() as u32,
            flags(step),
            timeout,
        ) as i64
    });
    for (message, shape) in messages.iter().zip(&shapes).take(count.max(0) as usize) {
        received(outcome, &shape.memory, i64::from(message.msg_len));
        describe(outcome, &message.msg_hdr, step);
    }
    let left = [limit, before].map(|time| (time.tv_sec, time.tv_nsec));
    outcome.word(match left[0] {
        _ if left[0] == left[1] => "left=all",
        (0, 0) => "left=nothing",
        _ => "left=some",
    });
}
