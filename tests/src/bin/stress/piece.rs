//! One random piece at a time: the sending and the receiving half of a stream, each with every kind
//! of call that a program may use.

use std::ffi::CString;
use std::fs::File;
use std::io::{self, ErrorKind, IoSlice, IoSliceMut, Write};
use std::os::fd::{AsRawFd, FromRawFd, RawFd};
use std::sync::Arc;

use tests::pattern;
use tests::progress::{self, Gauge};
use tests::rng::Rng;
use tests::sock;

use crate::Link;

pub const MAX_PIECE: usize = 1 << 20;
/// So much of the start of a stream can go out by sendfile: the kernel sends the file's own pages,
/// so they must never be written again.
const FILE_BYTES: usize = 8 << 20;
const MAX_SLICES: usize = 8;

#[derive(Clone, Copy)]
enum SendCall {
    Send,
    Write,
    Writev,
    Sendmsg,
    DontWait,
    Sendfile,
}

const SEND_CALLS: [SendCall; 6] = [
    SendCall::Send,
    SendCall::Write,
    SendCall::Writev,
    SendCall::Sendmsg,
    SendCall::DontWait,
    SendCall::Sendfile,
];

/// The sending half.
pub struct Sender {
    fd: RawFd,
    direction: u8,
    position: u64,
    total: u64,
    rng: Rng,
    buffer: Vec<u8>,
    file: File,
    gauge: Arc<Gauge>,
}

impl Sender {
    pub fn new(link: &Link) -> Self {
        let direction = link.outgoing();
        Self {
            fd: link.fd(),
            direction,
            position: 0,
            total: link.bytes,
            rng: Rng::new(link.seed, link.stream_seed(1)),
            buffer: vec![0; MAX_PIECE],
            file: pattern_file(direction).expect("memfd"),
            gauge: progress::gauge(format!("sent, direction {direction}"), link.bytes),
        }
    }

    pub fn is_done(&self) -> bool {
        self.position == self.total
    }

    /// Sends one piece with one call; waits first only where the call itself would not.
    pub fn step_blocking(&mut self) -> io::Result<()> {
        match self.step() {
            Err(error) if error.kind() == ErrorKind::WouldBlock => {
                sock::wait(self.fd, libc::POLLOUT)
            }
            other => other,
        }
    }

    /// Sends one piece, or as much of it as the call takes.
    pub fn step(&mut self) -> io::Result<()> {
        let left = (self.total - self.position) as usize;
        let length = self.rng.size(MAX_PIECE).min(left);
        let call = self.rng.pick(&SEND_CALLS);
        let sent = self.send(call, length)?;
        assert!(0 < sent && sent <= length, "{sent} of {length} bytes sent");
        self.position += sent as u64;
        self.gauge.add(sent as u64);
        Ok(())
    }

    fn send(&mut self, call: SendCall, length: usize) -> io::Result<usize> {
        let fits = self.position as usize + length <= FILE_BYTES;
        if let (SendCall::Sendfile, true) = (call, fits) {
            return sock::sendfile(self.fd, self.file.as_raw_fd(), self.position, length);
        }
        let data = &mut self.buffer[..length];
        pattern::fill(self.direction, self.position, data);
        match call {
            SendCall::Send | SendCall::Sendfile => sock::send(self.fd, data, libc::MSG_NOSIGNAL),
            SendCall::Write => sock::write(self.fd, data),
            SendCall::DontWait => sock::send(self.fd, data, libc::MSG_DONTWAIT),
            SendCall::Writev => sock::writev(self.fd, &slices(data, &mut self.rng)),
            SendCall::Sendmsg => sock::sendmsg(self.fd, &slices(data, &mut self.rng), 0),
        }
    }
}

/// A memory file with the start of the pattern of `direction`.
fn pattern_file(direction: u8) -> io::Result<File> {
    let name = CString::new("pattern").expect("no NUL");
    // SAFETY: the name is a C string; the result is checked.
    let fd = unsafe { libc::memfd_create(name.as_ptr(), libc::MFD_CLOEXEC) };
    if fd < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: a new fd that nobody else owns.
    let mut file = unsafe { File::from_raw_fd(fd) };
    let mut bytes = vec![0; FILE_BYTES];
    pattern::fill(direction, 0, &mut bytes);
    file.write_all(&bytes)?;
    Ok(file)
}

/// Cuts `data` at random places, sometimes twice at the same, so that empty slices occur.
fn slices<'a>(mut data: &'a [u8], rng: &mut Rng) -> Vec<IoSlice<'a>> {
    let mut slices = Vec::new();
    for _ in 0..rng.below(MAX_SLICES) {
        let (slice, rest) = data.split_at(rng.below(data.len() + 1));
        slices.push(IoSlice::new(slice));
        data = rest;
    }
    slices.push(IoSlice::new(data));
    slices
}

fn slices_mut<'a>(mut data: &'a mut [u8], rng: &mut Rng) -> Vec<IoSliceMut<'a>> {
    let mut slices = Vec::new();
    for _ in 0..rng.below(MAX_SLICES) {
        let cut = rng.below(data.len() + 1);
        let (slice, rest) = data.split_at_mut(cut);
        slices.push(IoSliceMut::new(slice));
        data = rest;
    }
    slices.push(IoSliceMut::new(data));
    slices
}

#[derive(Clone, Copy)]
enum RecvCall {
    Recv,
    Read,
    Readv,
    Recvmsg,
    DontWait,
    WaitAll,
    Peek,
    Available,
}

const RECV_CALLS: [RecvCall; 8] = [
    RecvCall::Recv,
    RecvCall::Read,
    RecvCall::Readv,
    RecvCall::Recvmsg,
    RecvCall::DontWait,
    RecvCall::WaitAll,
    RecvCall::Peek,
    RecvCall::Available,
];

/// The receiving half.
pub struct Receiver {
    fd: RawFd,
    blocking: bool,
    /// The peer half-closes when it has everything, not before.
    late: bool,
    direction: u8,
    position: u64,
    total: u64,
    rng: Rng,
    buffer: Vec<u8>,
    ended: bool,
    gauge: Arc<Gauge>,
}

impl Receiver {
    pub fn new(link: &Link, blocking: bool) -> Self {
        let direction = link.incoming();
        Self {
            fd: link.fd(),
            blocking,
            late: link.late,
            direction,
            position: 0,
            total: link.bytes,
            rng: Rng::new(link.seed, link.stream_seed(2)),
            buffer: vec![0; MAX_PIECE],
            ended: false,
            gauge: progress::gauge(format!("received, direction {direction}"), link.bytes),
        }
    }

    /// All but the end of the stream.
    pub fn has_all(&self) -> bool {
        self.position == self.total
    }

    /// EOF has come, at the right byte.
    pub fn is_done(&self) -> bool {
        self.ended
    }

    /// Receives with one call; waits first only where the call itself would not.
    pub fn step_blocking(&mut self) -> io::Result<()> {
        match self.step() {
            Err(error) if error.kind() == ErrorKind::WouldBlock => {
                sock::wait(self.fd, libc::POLLIN)
            }
            other => other,
        }
    }

    /// Receives a random amount and checks it.
    pub fn step(&mut self) -> io::Result<()> {
        let length = self.rng.size(MAX_PIECE);
        let call = self.rng.pick(&RECV_CALLS);
        let received = self.recv(call, length)?;
        self.check(received);
        self.position += received as u64;
        self.gauge.add(received as u64);
        if received == 0 {
            assert_eq!(
                self.position, self.total,
                "early EOF of direction {}",
                self.direction
            );
            self.ended = true;
        }
        Ok(())
    }

    fn check(&self, received: usize) {
        assert!(
            self.position + received as u64 <= self.total,
            "bytes beyond the end of direction {}",
            self.direction
        );
        let checked = pattern::check(self.direction, self.position, &self.buffer[..received]);
        if let Err(wrong) = checked {
            // Not by a panic, which aborts: the report then says what became of the connections.
            eprintln!("{wrong}");
            std::process::exit(1);
        }
    }

    fn recv(&mut self, call: RecvCall, length: usize) -> io::Result<usize> {
        let fd = self.fd;
        let data = &mut self.buffer[..length];
        match call {
            RecvCall::Recv => sock::recv(fd, data, 0),
            RecvCall::Read => sock::read(fd, data),
            RecvCall::Readv => sock::readv(fd, &mut slices_mut(data, &mut self.rng)),
            RecvCall::Recvmsg => sock::recvmsg(fd, &mut slices_mut(data, &mut self.rng), 0),
            RecvCall::DontWait => sock::recv(fd, data, libc::MSG_DONTWAIT),
            RecvCall::WaitAll => self.wait_all(length),
            RecvCall::Peek => self.peek(length),
            RecvCall::Available => self.available(length),
        }
    }

    fn wait_all(&mut self, length: usize) -> io::Result<usize> {
        let left = (self.total - self.position) as usize;
        // If both ends asked for more than there is, each would wait for an end of the stream that the
        // other sends when it has everything.
        let length = match self.late && left > 0 {
            true => length.min(left),
            false => length,
        };
        let received = sock::recv(self.fd, &mut self.buffer[..length], libc::MSG_WAITALL)?;
        if self.blocking {
            assert_eq!(received, length.min(left), "MSG_WAITALL of {length}");
        }
        Ok(received)
    }

    /// What a peek shows must be there for the next recv.
    fn peek(&mut self, length: usize) -> io::Result<usize> {
        let seen = sock::recv(self.fd, &mut self.buffer[..length], libc::MSG_PEEK)?;
        self.check(seen);
        self.buffer[..seen].fill(0);
        let taken = sock::recv(self.fd, &mut self.buffer[..length], libc::MSG_DONTWAIT)?;
        assert!(taken >= seen, "{seen} bytes peeked, then {taken} received");
        Ok(taken)
    }

    /// What FIONREAD promises must come without waiting.
    fn available(&mut self, length: usize) -> io::Result<usize> {
        let promised = sock::available(self.fd)?.min(length);
        let taken = sock::recv(self.fd, &mut self.buffer[..length], libc::MSG_DONTWAIT)?;
        assert!(
            taken >= promised,
            "{promised} bytes promised, then {taken} received"
        );
        Ok(taken)
    }
}
