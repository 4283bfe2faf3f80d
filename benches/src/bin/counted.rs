//! Calls that find their ring ready, each in a function of its own whose name callgrind can be told to
//! collect in: `valgrind --tool=callgrind --toggle-collect=counted_send counted send 100`; and the same calls
//! on a connection that stays on the kernel, with `kept_send`.
//! Both ends of the connection are in this process, which is to be started on ulsock.

use std::error::Error;
use std::fs::File;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::os::fd::AsRawFd;

use benches::epoll::Epoll;
use benches::pair::Pair;
use benches::ring::{self, RingEnd};

const SIZE: usize = 64;
const EVENTS: usize = 64;
type Events = [libc::epoll_event; EVENTS];

/// One call of each kind; never inlined, so that the name stays.
mod calls {
    use libc::{c_int, c_void};

    #[unsafe(no_mangle)]
    #[inline(never)]
    pub extern "C" fn counted_send(fd: c_int, bytes: &[u8; super::SIZE]) -> isize {
        // SAFETY: the bytes outlive the call.
        unsafe { libc::send(fd, bytes.as_ptr().cast::<c_void>(), super::SIZE, 0) }
    }

    #[unsafe(no_mangle)]
    #[inline(never)]
    pub extern "C" fn counted_recv(fd: c_int, bytes: &mut [u8; super::SIZE]) -> isize {
        // SAFETY: there is room for as many bytes, and it outlives the call.
        unsafe { libc::recv(fd, bytes.as_mut_ptr().cast::<c_void>(), super::SIZE, 0) }
    }

    #[unsafe(no_mangle)]
    #[inline(never)]
    pub fn counted_push(end: &mut super::RingEnd, bytes: &[u8; super::SIZE]) -> usize {
        end.push(bytes).unwrap_or(0)
    }

    #[unsafe(no_mangle)]
    #[inline(never)]
    pub fn counted_pull(end: &mut super::RingEnd, bytes: &mut [u8; super::SIZE]) -> usize {
        end.pull(bytes).unwrap_or(0)
    }

    #[unsafe(no_mangle)]
    #[inline(never)]
    pub extern "C" fn counted_write(fd: c_int, bytes: &[u8; super::SIZE]) -> isize {
        // SAFETY: the bytes outlive the call.
        unsafe { libc::write(fd, bytes.as_ptr().cast::<c_void>(), super::SIZE) }
    }

    #[unsafe(no_mangle)]
    #[inline(never)]
    pub extern "C" fn counted_poll(poll: &mut libc::pollfd) -> c_int {
        // SAFETY: one entry, which outlives the call.
        unsafe { libc::poll(poll, 1, -1) }
    }

    #[unsafe(no_mangle)]
    #[inline(never)]
    pub extern "C" fn counted_epoll_wait(set: c_int, events: &mut super::Events) -> c_int {
        // SAFETY: there is room for as many events, and it outlives the call.
        unsafe { libc::epoll_wait(set, events.as_mut_ptr(), super::EVENTS as c_int, -1) }
    }

    #[unsafe(no_mangle)]
    #[inline(never)]
    pub extern "C" fn counted_epoll_ctl(set: c_int, fd: c_int) -> c_int {
        let mut event = libc::epoll_event {
            events: libc::EPOLLIN as u32,
            u64: fd as u64,
        };
        // SAFETY: the event outlives the call.
        unsafe { libc::epoll_ctl(set, libc::EPOLL_CTL_MOD, fd, &mut event) }
    }
}

fn main() -> Result<(), Box<dyn Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [call, count] = arguments.as_slice() else {
        return Err("wanted: counted CALL COUNT".into());
    };
    let kept = call.strip_prefix("kept_");
    let mut pair = match kept {
        Some(_) => Pair::kept_on_kernel()?,
        None => Pair::on_rings()?,
    };
    let call = kept.unwrap_or(call);
    let set = pair.watched()?;
    let file = File::options().write(true).open("/dev/null")?;
    let mut ends = ring::pair()?;
    for _ in 0..count.parse()? {
        match call {
            "push" | "pull" => over_ring(call, &mut ends)?,
            "write" => check(call, calls::counted_write(file.as_raw_fd(), &[7; SIZE]))?,
            _ => once(call, &pair, &set)?,
        }
    }
    match kept {
        Some(_) => Ok(()),
        None => pair.still_on_rings(),
    }
}

/// The call, and around it what it needs.
fn once(call: &str, pair: &Pair, set: &Epoll) -> Result<(), Box<dyn Error>> {
    let (mut from, mut to): (&TcpStream, &TcpStream) = (&pair.client, &pair.server);
    let mut bytes = [7; SIZE];
    match call {
        "send" => {
            let sent = calls::counted_send(from.as_raw_fd(), &bytes);
            check(call, sent)?;
            to.read_exact(&mut bytes)?;
        }
        "recv" => {
            from.write_all(&bytes)?;
            check(call, calls::counted_recv(to.as_raw_fd(), &mut bytes))?;
        }
        "poll" => {
            from.write_all(&bytes)?;
            let mut poll = libc::pollfd {
                fd: to.as_raw_fd(),
                events: libc::POLLIN,
                revents: 0,
            };
            check_ready(call, calls::counted_poll(&mut poll))?;
            to.read_exact(&mut bytes)?;
        }
        "epoll_wait" => {
            from.write_all(&bytes)?;
            let mut events = [libc::epoll_event { events: 0, u64: 0 }; EVENTS];
            check_ready(
                call,
                calls::counted_epoll_wait(set.as_raw_fd(), &mut events),
            )?;
            to.read_exact(&mut bytes)?;
        }
        "epoll_ctl" => {
            let changed = calls::counted_epoll_ctl(set.as_raw_fd(), to.as_raw_fd());
            check_result(call, changed, 0)?;
        }
        _ => return Err(format!("no such call: {call}").into()),
    }
    Ok(())
}

/// The ring's own part of a send and a receive.
fn over_ring(call: &str, (from, to): &mut (RingEnd, RingEnd)) -> Result<(), Box<dyn Error>> {
    let mut bytes = [7; SIZE];
    if call == "push" {
        check(call, calls::counted_push(from, &bytes) as isize)?;
        to.read_exact(&mut bytes)?;
    } else {
        from.write_all(&bytes)?;
        check(call, calls::counted_pull(to, &mut bytes) as isize)?;
    }
    Ok(())
}

fn check(call: &str, result: isize) -> Result<(), Box<dyn Error>> {
    match result == SIZE as isize {
        true => Ok(()),
        false => Err(format!("{call}: {result}, {}", std::io::Error::last_os_error()).into()),
    }
}

fn check_ready(call: &str, result: i32) -> Result<(), Box<dyn Error>> {
    check_result(call, result, 1)
}

fn check_result(call: &str, result: i32, wanted: i32) -> Result<(), Box<dyn Error>> {
    match result == wanted {
        true => Ok(()),
        false => Err(format!("{call}: {result}, {}", std::io::Error::last_os_error()).into()),
    }
}
