//! Streams and listeners. Any thread may use a stream; tasks wait for it as tasks do.

use std::cell::UnsafeCell;
use std::ffi::{c_char, c_int, c_void};
use std::mem::MaybeUninit;
use std::net::{Shutdown, SocketAddr, ToSocketAddrs};
use std::sync::atomic::{AtomicI32, Ordering};

use native::future::{TcpListener, TcpStream};

use crate::edge::{self, Address, give, give_object, object};
use crate::fiber::wait;
use crate::status::{Error, Result, Status, told};

/// Accepts connections.
pub struct Listener(TcpListener);

/// A connection.
pub struct Stream {
    stream: UnsafeCell<TcpStream>,
    users: Users,
}

// SAFETY: the stream itself may be shared; whoever changes it has it for himself, by `users`.
unsafe impl Sync for Stream {}

impl Stream {
    pub fn new(stream: TcpStream) -> Stream {
        Stream {
            stream: UnsafeCell::new(stream),
            users: Users::default(),
        }
    }

    fn shared<R>(&self, call: impl FnOnce(&TcpStream) -> Result<R>) -> Result<R> {
        if !self.users.join() {
            return Err(Error::busy());
        }
        // SAFETY: as long as there are users nobody changes it.
        let done = call(unsafe { &*self.stream.get() });
        self.users.leave();
        done
    }

    /// For a room or a view, which gives it back with [`Stream::give_back`].
    pub fn take(&self) -> Result<*mut TcpStream> {
        match self.users.take() {
            true => Ok(self.stream.get()),
            false => Err(Error::busy()),
        }
    }

    pub fn give_back(&self) {
        self.users.give_back();
    }
}

/// Calls that are at work with a stream; -1: one has it for itself. A refused call leaves the number as it is, for what it is even
/// for a moment others act on.
#[derive(Default)]
struct Users(AtomicI32);

impl Users {
    fn join(&self) -> bool {
        let one_more = |users| (users >= 0).then_some(users + 1);
        let joined = self
            .0
            .fetch_update(Ordering::Acquire, Ordering::Relaxed, one_more);
        joined.is_ok()
    }

    fn leave(&self) {
        self.0.fetch_sub(1, Ordering::Release);
    }

    fn take(&self) -> bool {
        let taken = self
            .0
            .compare_exchange(0, -1, Ordering::Acquire, Ordering::Relaxed);
        taken.is_ok()
    }

    fn give_back(&self) {
        self.0.store(0, Ordering::Release);
    }

    fn is_idle(&self) -> bool {
        self.0.load(Ordering::Acquire) == 0
    }
}

/// Listens at an address, `192.0.2.1:80`, `[::]:0` or `name:80`.
///
/// # Safety
/// `at` is a text.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ulsock_listener_bind(
    at: *const c_char,
    listener: Option<&mut MaybeUninit<*mut Listener>>,
) -> Status {
    told(|| {
        give_object(listener, || {
            // SAFETY: the caller's word.
            let at = unsafe { edge::text(at)? };
            Ok(Listener(TcpListener::bind(at)?))
        })
    })
}

/// Where it listens.
#[unsafe(no_mangle)]
pub extern "C" fn ulsock_listener_address(
    listener: Option<&Listener>,
    address: Option<&mut MaybeUninit<Address>>,
) -> Status {
    told(|| {
        give(address, Address::new(object(listener)?.0.local_addr()?));
        Ok(())
    })
}

/// Waits for the next connection.
#[unsafe(no_mangle)]
pub extern "C" fn ulsock_listener_accept(
    listener: Option<&Listener>,
    stream: Option<&mut MaybeUninit<*mut Stream>>,
) -> Status {
    told(|| {
        give_object(stream, || {
            let (stream, _) = wait(object(listener)?.0.accept())??;
            Ok(Stream::new(stream))
        })
    })
}

#[unsafe(no_mangle)]
pub extern "C" fn ulsock_listener_free(listener: Option<Box<Listener>>) {
    drop(listener);
}

/// Connects to an address; of a name, to the first of its addresses that answers.
///
/// # Safety
/// `to` is a text.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ulsock_stream_connect(
    to: *const c_char,
    stream: Option<&mut MaybeUninit<*mut Stream>>,
) -> Status {
    told(|| {
        give_object(stream, || {
            // SAFETY: the caller's word.
            let to = unsafe { edge::text(to)? };
            let mut last = Error::bad_argument("the name has no address");
            for address in to.to_socket_addrs()? {
                match wait(TcpStream::connect(address))? {
                    Ok(stream) => return Ok(Stream::new(stream)),
                    Err(error) => last = error.into(),
                }
            }
            Err(last)
        })
    })
}

/// Reads some bytes, as soon as there are any; `n` is 0 at the end of the stream.
///
/// # Safety
/// `room` has `len` bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ulsock_stream_read(
    stream: Option<&Stream>,
    room: *mut c_void,
    len: usize,
    n: Option<&mut MaybeUninit<usize>>,
) -> Status {
    told(|| {
        // SAFETY: the caller's word.
        let room = unsafe { edge::room(room, len)? };
        let read = object(stream)?.shared(|stream| Ok(wait(stream.read(room))??))?;
        give(n, read);
        Ok(())
    })
}

/// Fills the room: ULSOCK_END_OF_STREAM if the stream ends before.
///
/// # Safety
/// `room` has `len` bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ulsock_stream_read_exact(
    stream: Option<&Stream>,
    room: *mut c_void,
    len: usize,
) -> Status {
    told(|| {
        // SAFETY: the caller's word.
        let room = unsafe { edge::room(room, len)? };
        object(stream)?.shared(|stream| Ok(wait(stream.read_exact(room))??))
    })
}

/// Looks at some bytes, as soon as there are any, which stay the next.
///
/// # Safety
/// `room` has `len` bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ulsock_stream_peek(
    stream: Option<&Stream>,
    room: *mut c_void,
    len: usize,
    n: Option<&mut MaybeUninit<usize>>,
) -> Status {
    told(|| {
        // SAFETY: the caller's word.
        let room = unsafe { edge::room(room, len)? };
        let seen = object(stream)?.shared(|stream| Ok(wait(stream.peek(room))??))?;
        give(n, seen);
        Ok(())
    })
}

/// Writes all of the bytes.
///
/// # Safety
/// `bytes` has `len` bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ulsock_stream_write(
    stream: Option<&Stream>,
    bytes: *const c_void,
    len: usize,
) -> Status {
    told(|| {
        // SAFETY: the caller's word.
        let bytes = unsafe { edge::bytes(bytes, len)? };
        object(stream)?.shared(|stream| Ok(wait(stream.write_all(bytes))??))
    })
}

/// Ends one direction or both: `how` is SHUT_RD, SHUT_WR or SHUT_RDWR.
#[unsafe(no_mangle)]
pub extern "C" fn ulsock_stream_shutdown(stream: Option<&Stream>, how: c_int) -> Status {
    told(|| {
        let how = match how {
            libc::SHUT_RD => Shutdown::Read,
            libc::SHUT_WR => Shutdown::Write,
            libc::SHUT_RDWR => Shutdown::Both,
            _ => return Err(Error::bad_argument("no way to shut down")),
        };
        object(stream)?.shared(|stream| Ok(stream.shutdown(how)?))
    })
}

/// Whether small pieces are sent at once on kernel TCP.
#[unsafe(no_mangle)]
pub extern "C" fn ulsock_stream_set_nodelay(stream: Option<&Stream>, yes: bool) -> Status {
    told(|| object(stream)?.shared(|stream| Ok(stream.set_nodelay(yes)?)))
}

#[unsafe(no_mangle)]
pub extern "C" fn ulsock_stream_local_address(
    stream: Option<&Stream>,
    address: Option<&mut MaybeUninit<Address>>,
) -> Status {
    tell_address(stream, address, |stream| Ok(stream.local_addr()?))
}

#[unsafe(no_mangle)]
pub extern "C" fn ulsock_stream_peer_address(
    stream: Option<&Stream>,
    address: Option<&mut MaybeUninit<Address>>,
) -> Status {
    tell_address(stream, address, |stream| Ok(stream.peer_addr()?))
}

fn tell_address(
    stream: Option<&Stream>,
    place: Option<&mut MaybeUninit<Address>>,
    which: impl FnOnce(&TcpStream) -> Result<SocketAddr>,
) -> Status {
    told(|| {
        let address = object(stream)?.shared(which)?;
        give(place, Address::new(address));
        Ok(())
    })
}

/// Closes the connection. No call may be at work with it.
#[unsafe(no_mangle)]
pub extern "C" fn ulsock_stream_free(stream: Option<Box<Stream>>) {
    if let Some(stream) = stream
        && !stream.users.is_idle()
    {
        // A room, a view, or another call has it: it is kept for good.
        std::mem::forget(stream);
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicBool, Ordering};
    use std::thread;

    use super::Users;

    /// Whoever has a stream for himself has it alone, however many others are refused meanwhile.
    #[test]
    fn who_takes_a_stream_has_it_alone() {
        let users = Users::default();
        let over = AtomicBool::new(false);
        assert!(users.take());
        thread::scope(|scope| {
            for _ in 0..2 {
                scope.spawn(|| {
                    while !over.load(Ordering::Relaxed) {
                        assert!(!users.join(), "joined what somebody has for himself");
                    }
                });
            }
            let again = (0..200_000).filter(|_| users.take()).count();
            over.store(true, Ordering::Relaxed);
            assert_eq!(again, 0, "taken twice");
        });
        users.give_back();
        assert!(users.join());
        assert!(!users.take());
    }
}
