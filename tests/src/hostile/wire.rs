//! What goes over a control channel, made by hand: so a peer can say what the product never would, and the
//! product's own encoding is compared with a second one.

use std::ffi::c_int;
use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};
use std::path::Path;

use super::unix::{Address, check};

/// The version of messages and shared memory that the product speaks.
pub const VERSION: u16 = 5;

/// Kinds of messages; see `ulsock/rendezvous/src/message.rs`.
pub const HELLO: u16 = 1;
pub const SEGMENT: u16 = 2;
pub const CLAIM: u16 = 3;
pub const DOORBELL: u16 = 4;
/// Beyond the last one.
pub const KINDS: u16 = 17;

/// The longest message.
pub const LONGEST: usize = 56;

/// A doorbell of each kind: an eventfd, or one end of a pair of datagram sockets.
pub const EVENT: u8 = 0;
pub const PAIR: u8 = 1;

/// The bytes of a message: its kind, and its fields.
pub fn message(kind: u16, fields: &[&[u8]]) -> Vec<u8> {
    let mut bytes = kind.to_le_bytes().to_vec();
    fields
        .iter()
        .for_each(|field| bytes.extend_from_slice(field));
    bytes
}

pub fn hello(version: u16, pid: u32) -> Vec<u8> {
    message(HELLO, &[&version.to_le_bytes(), &pid.to_le_bytes()])
}

pub fn segment(number: u32, conns: u32) -> Vec<u8> {
    message(SEGMENT, &[&number.to_le_bytes(), &conns.to_le_bytes()])
}

pub fn claim(offered: u64, claiming: u64, segment: u32, conn: u32) -> Vec<u8> {
    let cookies = [offered.to_le_bytes(), claiming.to_le_bytes()].concat();
    let place = [segment.to_le_bytes(), conn.to_le_bytes()].concat();
    message(CLAIM, &[&cookies, &place])
}

pub fn doorbell(waiter: u32, kind: u8) -> Vec<u8> {
    message(DOORBELL, &[&waiter.to_le_bytes(), &[kind]])
}

/// A message that has come, and its descriptors.
pub struct Letter {
    pub bytes: Vec<u8>,
    pub fds: Vec<OwnedFd>,
}

impl Letter {
    pub fn kind(&self) -> u16 {
        self.bytes
            .first_chunk()
            .map_or(0, |kind| u16::from_le_bytes(*kind))
    }

    /// The 32-bit field at this place.
    pub fn word(&self, at: usize) -> u32 {
        let field = self.bytes.get(at..at + 4);
        field.map_or(0, |field| {
            u32::from_le_bytes(field.try_into().expect("four bytes"))
        })
    }
}

/// One end of a control channel; nothing on it waits.
pub struct Channel(OwnedFd);

impl Channel {
    /// To the mailbox of this name, by its twin in the abstract namespace.
    pub fn to_mailbox(name: &str) -> io::Result<Channel> {
        let fd = socket()?;
        Address::abstract_name(&format!("ulsock.{name}")).connect(fd.as_raw_fd())?;
        Ok(Channel(fd))
    }

    /// The same, by its file.
    pub fn to_file(path: &Path) -> io::Result<Channel> {
        let fd = socket()?;
        Address::file(path).connect(fd.as_raw_fd())?;
        Ok(Channel(fd))
    }

    /// Sends bytes with descriptors; `false`: it is full or closed.
    pub fn send(&self, bytes: &[u8], fds: &[RawFd]) -> bool {
        send_with(self.0.as_raw_fd(), bytes, fds).is_ok()
    }

    /// What has come, if anything has.
    pub fn receive(&self) -> Option<Letter> {
        receive_with(self.0.as_raw_fd()).ok()
    }
}

impl AsRawFd for Channel {
    fn as_raw_fd(&self) -> RawFd {
        self.0.as_raw_fd()
    }
}

/// Where a peer is knocked at: a mailbox as the product has one, its file and its twin.
pub struct Mailbox {
    pub pid: u32,
    pub random: u64,
    sockets: [OwnedFd; 2],
}

/// The name of a mailbox.
pub fn mailbox_name(pid: u32, random: u64) -> String {
    format!("mail.{pid}.{random:016x}")
}

impl Mailbox {
    pub fn open(run_dir: &Path, random: u64) -> io::Result<Mailbox> {
        let pid = std::process::id();
        let name = mailbox_name(pid, random);
        let twin = listening(&Address::abstract_name(&format!("ulsock.{name}")))?;
        let file = listening(&Address::file(&run_dir.join(name)))?;
        Ok(Mailbox {
            pid,
            random,
            sockets: [twin, file],
        })
    }

    /// The next channel, if somebody has knocked.
    pub fn accept(&self) -> Option<Channel> {
        self.sockets.iter().find_map(|socket| {
            let flags = libc::SOCK_CLOEXEC | libc::SOCK_NONBLOCK;
            let (nobody, nothing) = (std::ptr::null_mut(), std::ptr::null_mut());
            // SAFETY: no address is asked for.
            let fd = unsafe { libc::accept4(socket.as_raw_fd(), nobody, nothing, flags) };
            // SAFETY: the call has given us this descriptor.
            (fd >= 0).then(|| Channel(unsafe { OwnedFd::from_raw_fd(fd) }))
        })
    }
}

fn socket() -> io::Result<OwnedFd> {
    let kind = libc::SOCK_SEQPACKET | libc::SOCK_CLOEXEC | libc::SOCK_NONBLOCK;
    // SAFETY: plain integers.
    let fd = check(unsafe { libc::socket(libc::AF_UNIX, kind, 0) })?;
    // SAFETY: the call has given us this descriptor.
    Ok(unsafe { OwnedFd::from_raw_fd(fd) })
}

fn listening(address: &Address) -> io::Result<OwnedFd> {
    let fd = socket()?;
    address.bind(fd.as_raw_fd())?;
    // SAFETY: plain integers.
    check(unsafe { libc::listen(fd.as_raw_fd(), 128) })?;
    Ok(fd)
}

/// Room for as many descriptors as the kernel takes at once (SCM_MAX_FD is 253).
const CONTROL: usize = 1100;

#[repr(C, align(8))]
struct Control([u8; CONTROL]);

fn send_with(to: RawFd, bytes: &[u8], fds: &[RawFd]) -> io::Result<usize> {
    let mut control = Control([0; CONTROL]);
    let mut piece = libc::iovec {
        iov_base: bytes.as_ptr().cast_mut().cast(),
        iov_len: bytes.len(),
    };
    // SAFETY: all zero is a message without anything.
    let mut header: libc::msghdr = unsafe { std::mem::zeroed() };
    header.msg_iov = &mut piece;
    header.msg_iovlen = 1;
    if !fds.is_empty() {
        let length = std::mem::size_of_val(fds) as u32;
        header.msg_control = control.0.as_mut_ptr().cast();
        // SAFETY: it only computes.
        header.msg_controllen = unsafe { libc::CMSG_SPACE(length) } as usize;
        assert!(header.msg_controllen <= CONTROL, "too many descriptors");
        // SAFETY: the control buffer is as long as the header says, aligned, and ours.
        unsafe {
            let first = libc::CMSG_FIRSTHDR(&header);
            (*first).cmsg_level = libc::SOL_SOCKET;
            (*first).cmsg_type = libc::SCM_RIGHTS;
            (*first).cmsg_len = libc::CMSG_LEN(length) as usize;
            let data = libc::CMSG_DATA(first).cast::<RawFd>();
            std::ptr::copy_nonoverlapping(fds.as_ptr(), data, fds.len());
        }
    }
    let flags = libc::MSG_DONTWAIT | libc::MSG_NOSIGNAL;
    // SAFETY: the header describes buffers that live during the call.
    let sent = check(unsafe { libc::sendmsg(to, &header, flags) } as c_int)?;
    Ok(sent as usize)
}

fn receive_with(from: RawFd) -> io::Result<Letter> {
    let mut control = Control([0; CONTROL]);
    let mut bytes = vec![0; 2 * LONGEST];
    let mut piece = libc::iovec {
        iov_base: bytes.as_mut_ptr().cast(),
        iov_len: bytes.len(),
    };
    // SAFETY: all zero is a message without anything.
    let mut header: libc::msghdr = unsafe { std::mem::zeroed() };
    header.msg_iov = &mut piece;
    header.msg_iovlen = 1;
    header.msg_control = control.0.as_mut_ptr().cast();
    header.msg_controllen = CONTROL;
    let flags = libc::MSG_DONTWAIT | libc::MSG_CMSG_CLOEXEC;
    // SAFETY: the header describes buffers that live during the call.
    let got = check(unsafe { libc::recvmsg(from, &mut header, flags) } as c_int)?;
    bytes.truncate(got as usize);
    // SAFETY: the kernel has filled the header.
    let fds = unsafe { descriptors(&header) };
    Ok(Letter { bytes, fds })
}

/// # Safety
/// The kernel must have filled the header, and nobody may have taken its descriptors.
unsafe fn descriptors(header: &libc::msghdr) -> Vec<OwnedFd> {
    let mut fds = Vec::new();
    // SAFETY: as the caller says; the macros walk within the control buffer.
    unsafe {
        let mut next = libc::CMSG_FIRSTHDR(header);
        while let Some(item) = next.as_ref() {
            if item.cmsg_type == libc::SCM_RIGHTS {
                let length = item.cmsg_len - libc::CMSG_LEN(0) as usize;
                let data = libc::CMSG_DATA(item).cast::<RawFd>();
                let count = length / size_of::<RawFd>();
                fds.extend((0..count).map(|at| OwnedFd::from_raw_fd(data.add(at).read())));
            }
            next = libc::CMSG_NXTHDR(header, item);
        }
    }
    fds
}
