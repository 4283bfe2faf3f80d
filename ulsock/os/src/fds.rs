//! Our own file descriptors: kept away from the numbers that the program uses.
//!
//! Everything of ours that lives longer than one call is an [`InternalFd`]; what lives for one call
//! is a [`Transient`]. Both close by a raw system call: the std types would call libc's `close`,
//! which is one of our hooks.

use std::mem::{self, ManuallyDrop};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, IntoRawFd, OwnedFd, RawFd};
use std::ptr;
use std::sync::atomic::{AtomicPtr, Ordering};

use rustix::io::{self, Errno, FdFlags, fcntl_dupfd_cloexec, fcntl_setfd};
use rustix::process::{Resource, getrlimit};

/// Never at a number that programs expect stdio at.
const LOWEST: RawFd = 3;

/// Not higher than this, however large the limit: the kernel sizes a process's fd table by its
/// highest number and copies it at every fork (8 bytes each, fs/file.c).
const HIGHEST_FLOOR: u64 = 4096;

/// With a lower limit we keep to our quarter: the rest may be just what the program needs.
const SCARCE: u64 = 256;

/// Called with `(fd, true)` when an internal fd is born, `(fd, false)` just before it is closed.
pub type Observer = fn(RawFd, bool);

crate::process_wide! {
    static OBSERVER: AtomicPtr<()> = AtomicPtr::new(ptr::null_mut());
}

/// Sets the one observer of internal fds. Those born earlier are not reported again.
pub fn on_internal(observer: Observer) {
    OBSERVER.store(observer as *mut (), Ordering::Release);
}

fn tell(fd: RawFd, born: bool) {
    let observer = OBSERVER.load(Ordering::Acquire);
    if !observer.is_null() {
        // SAFETY: only `on_internal` stores here, and only values of this very type.
        let observer = unsafe { mem::transmute::<*mut (), Observer>(observer) };
        observer(fd, born);
    }
}

/// A descriptor that lives for one call; closed by a raw system call.
#[derive(Debug)]
pub struct Transient(ManuallyDrop<OwnedFd>);

impl Transient {
    pub fn new(fd: OwnedFd) -> Transient {
        Transient(ManuallyDrop::new(fd))
    }

    /// Keeps it after all: see [`to_high`].
    pub fn into_high(self) -> io::Result<InternalFd> {
        if self.as_raw_fd() < floor() {
            match duplicate_high(self.as_fd()) {
                Ok(high) => return Ok(high),
                Err(Errno::MFILE) if self.as_raw_fd() >= LOWEST && !are_scarce() => {}
                Err(errno) => return Err(errno),
            }
        }
        fcntl_setfd(&self, FdFlags::CLOEXEC)?;
        // SAFETY: `into_raw` gave up ownership of an open descriptor.
        Ok(InternalFd::born(unsafe {
            OwnedFd::from_raw_fd(self.into_raw())
        }))
    }

    fn into_raw(self) -> RawFd {
        ManuallyDrop::new(self).as_raw_fd()
    }
}

impl AsFd for Transient {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

impl AsRawFd for Transient {
    fn as_raw_fd(&self) -> RawFd {
        self.0.as_raw_fd()
    }
}

impl Drop for Transient {
    fn drop(&mut self) {
        // SAFETY: the field is not used again, and we are the number's only owner.
        unsafe { io::close(ManuallyDrop::take(&mut self.0).into_raw_fd()) };
    }
}

/// A long-lived descriptor of ours, at a high number, close-on-exec, known to the observer.
#[derive(Debug)]
pub struct InternalFd(Transient);

impl InternalFd {
    fn born(fd: OwnedFd) -> InternalFd {
        tell(fd.as_raw_fd(), true);
        InternalFd(Transient::new(fd))
    }

    /// Leaves it to whoever calls [`InternalFd::left_open`].
    pub fn leave_open(self) {
        mem::forget(self);
    }

    /// # Safety
    /// The number was left open and is taken up again only here.
    pub unsafe fn left_open(fd: RawFd) -> InternalFd {
        // SAFETY: the number is open, and its owner has left it to us, as the caller promises.
        InternalFd(Transient::new(unsafe { OwnedFd::from_raw_fd(fd) }))
    }

    /// For an owner that closes it by itself, and tells before ([`is_over`]).
    pub fn lend(self) -> OwnedFd {
        // SAFETY: its number is open, and nobody else's from here on.
        unsafe { OwnedFd::from_raw_fd(ManuallyDrop::new(self).as_raw_fd()) }
    }

    /// Another descriptor for the same open file, with the same care.
    pub fn duplicate(&self) -> io::Result<InternalFd> {
        duplicate_high(self.as_fd())
    }
}

impl AsFd for InternalFd {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

impl AsRawFd for InternalFd {
    fn as_raw_fd(&self) -> RawFd {
        self.0.as_raw_fd()
    }
}

impl Drop for InternalFd {
    fn drop(&mut self) {
        // Told before the close: afterwards another thread may already own the number, and its fd
        // must not pass for ours.
        tell(self.as_raw_fd(), false);
    }
}

/// A number that was [lent](InternalFd::lend) is about to be closed.
pub fn is_over(fd: RawFd) {
    tell(fd, false);
}

/// Moves `fd` out of the program's way. A full high range is no failure, unless numbers are scarce: lower
/// ones are tried, and in the end the number stays as it is.
pub fn to_high(fd: OwnedFd) -> io::Result<InternalFd> {
    Transient::new(fd).into_high()
}

/// Load time: makes the kernel's fd table large enough for our numbers while there is one thread.
/// Later the kernel would wait for all CPUs to notice (synchronize_rcu), on a busy host for seconds.
pub fn make_room() {
    let flags = rustix::event::EventfdFlags::CLOEXEC;
    drop(rustix::event::eventfd(0, flags).and_then(to_high));
}

/// Duplicates `fd` at the highest floor that has room.
pub fn duplicate_high(fd: BorrowedFd<'_>) -> io::Result<InternalFd> {
    let mut floor = floor();
    loop {
        match fcntl_dupfd_cloexec(fd, floor) {
            Err(Errno::MFILE) if are_scarce() => return Err(Errno::MFILE),
            // EINVAL: the limit has meanwhile sunk below this floor.
            Err(Errno::MFILE | Errno::INVAL) if floor > LOWEST => floor = (floor / 2).max(LOWEST),
            other => return other.map(InternalFd::born),
        }
    }
}

fn limit() -> u64 {
    getrlimit(Resource::Nofile).current.unwrap_or(u64::MAX)
}

fn are_scarce() -> bool {
    limit() < SCARCE
}

/// Where the numbers begin that we keep for ourselves.
pub fn own_range_begins() -> RawFd {
    floor()
}

/// How many they are.
pub fn own_range() -> u32 {
    let most = limit().saturating_sub(floor() as u64);
    u32::try_from(most).unwrap_or(u32::MAX)
}

/// The last quarter below the soft limit, within reason.
fn floor() -> RawFd {
    let limit = limit();
    let floor = (limit - limit / 4).min(HIGHEST_FLOOR);
    RawFd::try_from(floor).unwrap_or(LOWEST).max(LOWEST)
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::io::fcntl_getfd;
    use std::fs::File;
    use std::sync::atomic::{AtomicBool, AtomicI32};

    fn null() -> OwnedFd {
        File::open("/dev/null").unwrap().into()
    }

    #[test]
    fn lands_high_and_close_on_exec() {
        let fd = to_high(null()).unwrap();
        assert!(fd.as_raw_fd() >= floor());
        assert_eq!(fcntl_getfd(&fd), Ok(FdFlags::CLOEXEC));
        let twin = fd.duplicate().unwrap();
        assert_ne!(fd.as_raw_fd(), twin.as_raw_fd());
        assert!(twin.as_raw_fd() >= floor());
    }

    #[test]
    fn the_observer_hears_of_a_death() {
        static DIED: AtomicBool = AtomicBool::new(false);
        static WATCHED: AtomicI32 = AtomicI32::new(-1);
        // Other tests make internal fds at the same time: judge by one number that this test owns.
        on_internal(|fd, born| {
            if fd == WATCHED.load(Ordering::SeqCst) && !born {
                DIED.store(true, Ordering::SeqCst);
            }
        });
        let fd = to_high(null()).unwrap();
        WATCHED.store(fd.as_raw_fd(), Ordering::SeqCst);
        drop(fd);
        assert!(DIED.load(Ordering::SeqCst));
    }
}
