//! The calls of a program, each as the preload library makes it: first `api`, then the kernel if that says so.

use std::net::SocketAddr;
use std::os::fd::{BorrowedFd, IntoRawFd, OwnedFd, RawFd};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::ptr::null;

use libc::{MSG_DONTWAIT, MSG_NOSIGNAL, c_int, epoll_event, timespec};
use rustix::io::Errno;
use rustix::net::{self, AddressFamily, RecvFlags, SendFlags, SocketAddrUnix, SocketType};

use super::Program;
use crate::calls::api::{self, Begun};

/// A number of a program's.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Fd(pub RawFd);

impl Fd {
    fn kernel(self) -> BorrowedFd<'static> {
        // SAFETY: the test holds it open as long as it is used.
        unsafe { BorrowedFd::borrow_raw(self.0) }
    }
}

/// A call that waits for nothing.
const NOW: timespec = timespec {
    tv_sec: 0,
    tv_nsec: 0,
};

impl Program {
    pub fn adopt_listener(self, fd: RawFd) {
        self.adopt_listener_of(fd, libc::AF_INET);
    }

    pub fn adopt_listener_of(self, fd: RawFd, family: c_int) {
        self.run(|| {
            api::socket_opened(fd, family, libc::SOCK_STREAM, 0);
            api::listening(fd);
        });
    }

    pub fn connect(self, to: SocketAddr) -> Fd {
        let socket = net::socket(AddressFamily::INET, SocketType::STREAM, None).expect("a socket");
        let fd = socket.into_raw_fd();
        let SocketAddr::V4(v4) = to else {
            panic!("not IPv4")
        };
        let raw = libc::sockaddr_in {
            sin_family: libc::AF_INET as u16,
            sin_port: v4.port().to_be(),
            sin_addr: libc::in_addr {
                s_addr: u32::from(*v4.ip()).to_be(),
            },
            sin_zero: [0; 8],
        };
        let (addr, len) = ((&raw const raw).cast(), size_of_val(&raw) as u32);
        self.run(|| {
            api::socket_opened(fd, libc::AF_INET, libc::SOCK_STREAM, 0);
            // SAFETY: the address lives as long as the calls.
            let before = unsafe { api::before_connect(fd, addr, len) };
            before
                .answer(|| net::connect(Fd(fd).kernel(), &to).map(|()| 0))
                .expect("to connect");
            // SAFETY: the address lives as long as the calls.
            unsafe { api::connected(fd, addr, len, true) };
        });
        Fd(fd)
    }

    pub fn connect_unix(self, path: &Path) -> Fd {
        let socket = net::socket(AddressFamily::UNIX, SocketType::STREAM, None).expect("a socket");
        let (fd, to) = (socket.into_raw_fd(), SocketAddrUnix::new(path));
        let to = to.expect("a name");
        let mut raw = libc::sockaddr_un {
            sun_family: libc::AF_UNIX as u16,
            sun_path: [0; 108],
        };
        for (place, byte) in raw.sun_path.iter_mut().zip(path.as_os_str().as_bytes()) {
            *place = byte.cast_signed();
        }
        let (addr, len) = ((&raw const raw).cast(), size_of_val(&raw) as u32);
        self.run(|| {
            api::socket_opened(fd, libc::AF_UNIX, libc::SOCK_STREAM, 0);
            // SAFETY: the address lives as long as the calls.
            let before = unsafe { api::before_connect(fd, addr, len) };
            before
                .answer(|| net::connect(Fd(fd).kernel(), &to).map(|()| 0))
                .expect("to connect");
            // SAFETY: the address lives as long as the calls.
            unsafe { api::connected(fd, addr, len, true) };
        });
        Fd(fd)
    }

    /// Accepts as one who asks for the peer's address.
    pub fn accept_named(self, listener: RawFd, family: c_int) -> Fd {
        let (socket, _): (OwnedFd, _) = net::acceptfrom(Fd(listener).kernel()).expect("to accept");
        let fd = socket.into_raw_fd();
        let name = libc::sockaddr {
            sa_family: family as u16,
            sa_data: [0; 14],
        };
        let named = Some((&raw const name, size_of::<libc::sa_family_t>() as u32));
        // SAFETY: the name lives as long as the call.
        self.run(|| unsafe { api::accepted(listener, fd, named, 0) });
        Fd(fd)
    }

    pub fn accept(self, listener: RawFd) -> Fd {
        let (socket, _): (OwnedFd, _) = net::acceptfrom(Fd(listener).kernel()).expect("to accept");
        let fd = socket.into_raw_fd();
        // SAFETY: no address is named.
        self.run(|| unsafe { api::accepted(listener, fd, None, 0) });
        Fd(fd)
    }

    /// Sends without waiting.
    pub fn send(self, fd: Fd, bytes: &[u8]) -> Result<usize, Errno> {
        let flags = MSG_DONTWAIT | MSG_NOSIGNAL;
        self.run(|| {
            // SAFETY: the bytes live as long as the call.
            let verdict = unsafe { api::send(fd.0, bytes.as_ptr().cast(), bytes.len(), flags) };
            let flags = SendFlags::from_bits_retain(flags as u32);
            verdict.answer(|| net::send(fd.kernel(), bytes, flags))
        })
    }

    /// Receives at most so many bytes, without waiting.
    pub fn receive(self, fd: Fd, most: usize) -> Result<Vec<u8>, Errno> {
        self.receive_with(fd, most, 0)
    }

    pub fn peek(self, fd: Fd, most: usize) -> Result<Vec<u8>, Errno> {
        self.receive_with(fd, most, libc::MSG_PEEK)
    }

    fn receive_with(self, fd: Fd, most: usize, flags: c_int) -> Result<Vec<u8>, Errno> {
        let (mut room, flags) = (vec![0; most], flags | MSG_DONTWAIT);
        let n = self.run(|| {
            // SAFETY: the room lives as long as the call.
            let verdict = unsafe { api::recv(fd.0, room.as_mut_ptr().cast(), most, flags) };
            let flags = RecvFlags::from_bits_retain(flags as u32);
            verdict.answer(|| net::recv(fd.kernel(), &mut room[..], flags).map(|(n, _)| n))
        })?;
        room.truncate(n);
        Ok(room)
    }

    pub fn shut_down_sending(self, fd: Fd) {
        self.shut_down(fd, libc::SHUT_WR, net::Shutdown::Write);
    }

    pub fn shut_down_receiving(self, fd: Fd) {
        self.shut_down(fd, libc::SHUT_RD, net::Shutdown::Read);
    }

    pub fn shut_down_both(self, fd: Fd) {
        self.shut_down(fd, libc::SHUT_RDWR, net::Shutdown::Both);
    }

    fn shut_down(self, fd: Fd, how: c_int, kernel: net::Shutdown) {
        self.run(|| {
            api::shutdown(fd.0, how)
                .answer(|| net::shutdown(fd.kernel(), kernel).map(|()| 0))
                .expect("to shut down");
        });
    }

    pub fn close(self, fd: Fd) {
        self.run(|| {
            let closed = api::close(fd.0).answer(|| {
                // SAFETY: the test does not use it any more.
                unsafe { rustix::io::close(fd.0) };
                Ok(0)
            });
            closed.expect("to close");
        });
    }

    /// Before a call that is not handled on rings.
    pub fn to_kernel(self, fd: Fd) {
        self.run(|| api::to_kernel(fd.0));
    }

    /// What `poll` says of these events.
    pub fn poll(self, fd: Fd, events: i16) -> i16 {
        let mut list = [libc::pollfd {
            fd: fd.0,
            events,
            revents: 0,
        }];
        self.run(|| {
            // SAFETY: the list lives as long as the call.
            let verdict = unsafe { api::poll(list.as_mut_ptr(), 1, &NOW, null()) };
            verdict
                .answer(|| os::poll::poll_now(&mut list))
                .expect("to poll");
        });
        list[0].revents
    }

    pub fn epoll(self) -> Fd {
        let set = rustix::event::epoll::create(rustix::event::epoll::CreateFlags::empty());
        let fd = set.expect("a set").into_raw_fd();
        self.run(|| api::epoll_opened(fd));
        Fd(fd)
    }

    pub fn epoll_add(self, set: Fd, fd: Fd, events: c_int) {
        let mut event = epoll_event {
            events: events as u32,
            u64: fd.0 as u64,
        };
        self.run(|| {
            // SAFETY: the event lives as long as the call.
            let verdict =
                unsafe { api::epoll_ctl(set.0, libc::EPOLL_CTL_ADD, fd.0, &raw mut event) };
            verdict
                .answer(|| os::epoll::add(set.0, fd.0, event.events, event.u64).map(|()| 0))
                .expect("to add");
        });
    }

    /// What the set tells now: numbers and events.
    pub fn epoll_wait(self, set: Fd) -> Vec<(Fd, u32)> {
        let mut room = [epoll_event { events: 0, u64: 0 }; 8];
        let (events, max) = (room.as_mut_ptr(), room.len() as c_int);
        let n = self.run(|| {
            let real = || {
                let door = os::door::Door::always_open();
                let room = &mut [epoll_event { events: 0, u64: 0 }; 8];
                os::epoll::raw_wait(door, set.0, room, Some(os::poll::NOT_AT_ALL), null()).inspect(
                    |n| {
                        for (index, event) in room[..*n].iter().enumerate() {
                            // SAFETY: the room of this very call has as many places.
                            unsafe { events.add(index).write(*event) };
                        }
                    },
                )
            };
            // SAFETY: the room lives as long as the call, and nobody refers to it meanwhile.
            match unsafe { api::epoll_wait(set.0, events, max, Some(&NOW), null()) } {
                Begun::Verdict(verdict) => verdict.answer(real),
                Begun::Plain(wait) => {
                    let n = real()?;
                    // SAFETY: the arguments of the wait.
                    let more = unsafe { wait.end(n as c_int, set.0, events, max, null()) };
                    more.map_or(Ok(n), |verdict| verdict.answer(real))
                }
            }
        });
        let told = &room[..n.expect("to wait")];
        told.iter()
            .map(|event| (Fd(event.u64 as RawFd), event.events))
            .collect()
    }
}
