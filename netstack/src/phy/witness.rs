//! Which sockets are the two ends of one connection: how far TCP is at each, in whichever network namespace.
//!
//! Addresses prove nothing between two namespaces, for unrelated networks may use the same ones. Sequence
//! numbers do: they begin at a random place, and if all that each end has sent is what the other has received,
//! at one moment, to the byte, in both directions, the two are one connection. No system call tells them of a live
//! socket; a BPF program may read them, and disturbs nothing. Ours is never attached: we run it. Needs CAP_BPF
//! and CAP_NET_ADMIN, also over the namespace of the socket.

use std::net::{IpAddr, SocketAddr};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd};
use std::vec::Vec;

use rustix::io::{self, Errno};

use super::route::message::NetlinkRequest;
use super::route::netlink::Netlink;
use super::sys::{Fd, syscall};
use super::xdp::assembler::{Assembler, Instruction, Register, Size};
use super::xdp::bpf;
use Register::{R0, R1, R2, R3, R4, R5, R6, R7, R8, R9, R10};

/// How far a connection is at one of its ends: the next byte to be sent, and to be received.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Position {
    pub send: u32,
    pub receive: u32,
}

impl Position {
    /// All that either end has sent is what the other has received.
    pub fn meets(self, other: Position) -> bool {
        self.send == other.receive && self.receive == other.send
    }

    /// More is missing at one of them than can be under way: no window is larger than 1 GiB (RFC 7323, 2.3).
    pub fn is_far_from(self, other: Position) -> bool {
        const LARGEST_WINDOW: u32 = 1 << 30;
        let apart = |sent: u32, received: u32| {
            let ahead = sent.wrapping_sub(received);
            ahead.min(ahead.wrapping_neg()) > LARGEST_WINDOW
        };
        apart(self.send, other.receive) || apart(other.send, self.receive)
    }
}

/// A network namespace, by its number in ours.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Space(i32);

impl Space {
    /// The one that we are in.
    pub const OWN: Space = Space(-1);
}

#[derive(Debug)]
pub struct Witness {
    ipv4: Fd,
    ipv6: Fd,
    netlink: Netlink,
}

/// The bytes of struct bpf_sock_tuple (linux/bpf.h) that name a connection.
const TUPLE_4: usize = 12;
const TUPLE_6: usize = 36;
/// A question behind an Ethernet header: the tuple, and the namespace's number. The answer takes its place:
/// state and position.
const HEADER: usize = 14;
const QUESTION: usize = TUPLE_6 + 4;
const ANSWER: usize = 12;
/// include/net/tcp_states.h
const ESTABLISHED: u32 = 1;

impl Witness {
    pub fn open() -> io::Result<Witness> {
        Ok(Witness {
            ipv4: bpf::load_to_run(&program(TUPLE_4))?,
            ipv6: bpf::load_to_run(&program(TUPLE_6))?,
            netlink: Netlink::open(0)?,
        })
    }

    /// The namespace of a socket, which gets a number in ours if it has none.
    pub fn space_of(&mut self, socket: BorrowedFd<'_>) -> io::Result<Space> {
        let namespace = namespace_of(socket)?;
        match self.number_of(&namespace)? {
            number @ 0.. => Ok(Space(number)),
            _ => {
                self.give_number(&namespace)?;
                let number = self.number_of(&namespace)?;
                (number >= 0).then_some(Space(number)).ok_or(Errno::NOENT)
            }
        }
    }

    fn number_of(&mut self, namespace: &Fd) -> io::Result<i32> {
        let request = about(libc::RTM_GETNSID, 0, namespace);
        let number = |body: Option<u32>| body.map(|number| number as i32);
        let answer = self.netlink.ask(request, |answer| {
            number(answer.attributes(RTGENMSG).number(NETNSA_NSID))
        })?;
        answer.ok_or(Errno::PROTO)
    }

    fn give_number(&mut self, namespace: &Fd) -> io::Result<()> {
        let any = (-1i32).to_ne_bytes();
        let request = about(libc::RTM_NEWNSID, libc::NLM_F_ACK, namespace);
        self.netlink.ask(request.with(NETNSA_NSID, &any), |_| ())
    }

    /// How far an established connection is at its end with these addresses; `None`: there is none.
    pub fn ask(
        &self,
        space: Space,
        local: SocketAddr,
        remote: SocketAddr,
    ) -> io::Result<Option<Position>> {
        let (program, question) = match question(space, local, remote) {
            Some((TUPLE_4, question)) => (&self.ipv4, question),
            Some((_, question)) => (&self.ipv6, question),
            None => return Err(Errno::INVAL),
        };
        let mut answer = [0; HEADER + QUESTION];
        let found = bpf::run(program.as_fd(), &question, &mut answer)?;
        let word = |number: usize| {
            let mut word = [0; 4];
            word.copy_from_slice(&answer[HEADER + 4 * number..][..4]);
            u32::from_ne_bytes(word)
        };
        let position = Position {
            send: word(1),
            receive: word(2),
        };
        Ok((found == 1 && word(0) == ESTABLISHED).then_some(position))
    }
}

/// Length of struct rtgenmsg (linux/rtnetlink.h), and attributes of linux/net_namespace.h.
const RTGENMSG: usize = 1;
const NETNSA_NSID: u16 = 1;
const NETNSA_FD: u16 = 3;

fn about(kind: u16, flags: i32, namespace: &Fd) -> NetlinkRequest {
    let number = namespace.as_fd().as_raw_fd().to_ne_bytes();
    NetlinkRequest::new(kind, flags, &[0; RTGENMSG]).with(NETNSA_FD, &number)
}

fn namespace_of(socket: BorrowedFd<'_>) -> io::Result<Fd> {
    /// linux/sockios.h
    const SIOCGSKNS: usize = 0x894c;
    let args = [socket.as_raw_fd() as usize, SIOCGSKNS];
    // SAFETY: no pointers.
    let fd = unsafe { syscall(libc::SYS_ioctl, args)? };
    // SAFETY: the kernel has just given it to us; close-on-exec.
    Ok(Fd::from(unsafe { OwnedFd::from_raw_fd(fd as i32) }))
}

/// With the length of its tuple. The connection is named as a segment that arrives there: from the remote end.
fn question(
    Space(space): Space,
    local: SocketAddr,
    remote: SocketAddr,
) -> Option<(usize, [u8; HEADER + QUESTION])> {
    let mut bytes = [0; HEADER + QUESTION];
    let mut at = HEADER;
    let mut put = |field: &[u8]| {
        bytes[at..at + field.len()].copy_from_slice(field);
        at += field.len();
    };
    match (remote.ip().to_canonical(), local.ip().to_canonical()) {
        (IpAddr::V4(from), IpAddr::V4(to)) => {
            put(&from.octets());
            put(&to.octets());
        }
        (IpAddr::V6(from), IpAddr::V6(to)) => {
            put(&from.octets());
            put(&to.octets());
        }
        _ => return None,
    }
    put(&remote.port().to_be_bytes());
    put(&local.port().to_be_bytes());
    let length = at - HEADER;
    bytes[HEADER + TUPLE_6..].copy_from_slice(&space.to_ne_bytes());
    Some((length, bytes))
}

/// Functions of the kernel, and fields of struct bpf_sock and struct bpf_tcp_sock (linux/bpf.h).
const STORE_BYTES: i32 = 9;
const LOAD_BYTES: i32 = 26;
const LOOKUP_TCP: i32 = 84;
const RELEASE: i32 = 86;
const TCP_SOCK: i32 = 96;
const STATE: u32 = 72;
const RCV_NXT: u32 = 16;
const SND_NXT: u32 = 20;

/// Says 1 if it has written an answer into the frame, else 0.
fn program(tuple: usize) -> Vec<Instruction> {
    let mut code = Assembler::default();
    let (release, end) = (code.label(), code.label());
    code.copy(R6, R1);
    // Memory for the question, and then for the answer.
    code.copy(R7, R10);
    code.increase(R7, -(QUESTION as i32));
    code.set(R9, 0);
    code.set(R2, HEADER as i32);
    code.copy(R3, R7);
    code.set(R4, QUESTION as i32);
    code.call(LOAD_BYTES);
    code.if_not_equal(R0, 0, end);
    code.copy(R1, R6);
    code.copy(R2, R7);
    code.set(R3, tuple as i32);
    code.load(Size::Word, R4, R7, TUPLE_6 as u32);
    code.set(R5, 0);
    code.call(LOOKUP_TCP);
    code.if_null(R0, end);
    code.copy(R8, R0);
    code.load(Size::Word, R1, R8, STATE);
    code.store(R7, 0, R1);
    code.copy(R1, R8);
    code.call(TCP_SOCK);
    code.if_null(R0, release);
    code.load(Size::Word, R1, R0, SND_NXT);
    code.store(R7, 4, R1);
    code.load(Size::Word, R1, R0, RCV_NXT);
    code.store(R7, 8, R1);
    code.copy(R1, R6);
    code.set(R2, HEADER as i32);
    code.copy(R3, R7);
    code.set(R4, ANSWER as i32);
    code.set(R5, 0);
    code.call(STORE_BYTES);
    code.if_not_equal(R0, 0, release);
    code.set(R9, 1);
    code.place(release);
    code.copy(R1, R8);
    code.call(RELEASE);
    code.place(end);
    code.copy(R0, R9);
    code.exit();
    code.finish()
}

#[cfg(test)]
mod tests {
    use super::Position;

    #[test]
    fn what_is_under_way_is_not_far() {
        let near = Position {
            send: 5,
            receive: u32::MAX,
        };
        for (send, receive, far) in [
            (u32::MAX, 5, false),
            (u32::MAX, u32::MAX - 100, false),
            (u32::MAX, 5u32.wrapping_sub((1 << 30) + 1), true),
            (u32::MAX.wrapping_add((1 << 30) + 1), 5, true),
        ] {
            let other = Position { send, receive };
            assert_eq!(near.is_far_from(other), far, "{other:?}");
            assert_eq!(other.is_far_from(near), far, "{other:?}");
        }
    }
}
