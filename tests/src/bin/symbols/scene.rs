//! What one case plays with: two descriptors with a stream between them, or something that is none;
//! and the log of what its calls returned.

use std::ffi::{CString, c_int, c_void};
use std::fmt::Debug;
use std::os::fd::{IntoRawFd, RawFd};
use std::time::{Duration, Instant};

/// Set before each call: a call that succeeds must leave it.
const UNTOUCHED: c_int = 77;
/// Larger results are no counts; process ids begin at 300 again when they wrap.
const LARGEST: i64 = 99;
/// Every wait of a case ends by then.
const PATIENCE: Duration = Duration::from_secs(5);
/// As many exchanges bring a connection onto its rings, or show that it stays where it is.
const EXCHANGES: usize = 200;

/// What the two descriptors are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// A TCP connection that is accelerated, when ulsock is there.
    Tcp,
    /// One that is excluded.
    Kernel,
    Unix,
    Pipe,
    File,
    /// Numbers that are not open.
    Bad,
}

impl Kind {
    pub const ALL: [Kind; 6] = [
        Kind::Tcp,
        Kind::Kernel,
        Kind::Unix,
        Kind::Pipe,
        Kind::File,
        Kind::Bad,
    ];

    /// Bytes go both ways.
    pub fn is_stream(self) -> bool {
        matches!(self, Kind::Tcp | Kind::Kernel | Kind::Unix)
    }
}

pub struct Scene {
    pub kind: Kind,
    /// Bytes that are written here...
    pub a: RawFd,
    /// ...are read here.
    pub b: RawFd,
    /// The case has ended the stream.
    pub ended: bool,
    log: Vec<String>,
}

/// Calls a symbol by name, as the program's own references would find it, and logs the result.
macro_rules! call {
    ($scene:expr, $name:expr, fn($($ty:ty),* $(,)?) -> $ret:ty $(, $arg:expr)* $(,)?) => {{
        let function: unsafe extern "C" fn($($ty),*) -> $ret = crate::scene::symbol($name);
        crate::scene::set_errno();
        // SAFETY: libc's function of this name and type, with arguments that live across the call.
        let result = unsafe { function($($arg as $ty),*) };
        $scene.returned($name, result as i64);
        result
    }};
}
pub(crate) use call;

/// The function of this name. `F` must be its type.
pub fn symbol<F: Copy>(name: &str) -> F {
    let address = address(name);
    assert!(!address.is_null(), "{name} does not exist");
    assert_eq!(size_of::<F>(), size_of::<*mut c_void>());
    // SAFETY: a function pointer of the size of an address, and the address of that function.
    unsafe { std::mem::transmute_copy(&address) }
}

pub fn address(name: &str) -> *mut c_void {
    let name = CString::new(name).expect("a symbol's name");
    // SAFETY: a C string.
    unsafe { libc::dlsym(libc::RTLD_DEFAULT, name.as_ptr()) }
}

pub fn set_errno() {
    // SAFETY: this thread's own errno.
    unsafe { *libc::__errno_location() = UNTOUCHED };
}

fn errno() -> c_int {
    // SAFETY: as above.
    unsafe { *libc::__errno_location() }
}

impl Scene {
    pub fn new(kind: Kind) -> Scene {
        let (a, b) = descriptors(kind);
        let scene = Scene {
            kind,
            a,
            b,
            ended: false,
            log: Vec::new(),
        };
        if kind == Kind::Tcp && crate::under_ulsock() {
            assert!(scene.reaches_rings(true), "not accelerated to begin with");
        }
        scene
    }

    /// Notes a result, and errno if it is new.
    pub fn returned(&mut self, name: &str, value: i64) {
        let errno = errno();
        // Addresses and process ids differ from run to run.
        let value = if value > LARGEST { LARGEST } else { value };
        let error = if errno == UNTOUCHED {
            String::new()
        } else {
            format!(" errno {errno}")
        };
        self.log.push(format!("{name} = {value}{error}"));
    }

    pub fn note(&mut self, what: &str, value: impl Debug) {
        self.log.push(format!("{what}: {value:?}"));
    }

    pub fn lines(&self) -> String {
        self.log
            .iter()
            .map(|line| format!("    {line}\n"))
            .collect()
    }

    /// Writes to `a`, if that is possible.
    pub fn feed(&self, bytes: &[u8]) {
        write(self.a, bytes);
    }

    /// Notes what can be read at `b` now. On a stream `expected` bytes are waited for.
    pub fn drain(&mut self, expected: usize) {
        let expected = if self.kind.is_stream() { expected } else { 0 };
        let bytes = read_some(self.b, expected);
        self.note("read", String::from_utf8_lossy(&bytes).into_owned());
    }

    /// Notes that bytes still go both ways.
    pub fn exchange(&mut self) {
        if !self.kind.is_stream() {
            return;
        }
        for (from, to) in [(self.a, self.b), (self.b, self.a)] {
            write(from, b"exchange");
            let bytes = read_some(to, 8);
            self.note("exchanged", String::from_utf8_lossy(&bytes).into_owned());
        }
    }

    /// Does the connection come to its rings (or to the kernel) within some exchanges?
    pub fn reaches_rings(&self, rings: bool) -> bool {
        let start = Instant::now();
        for _ in 0..EXCHANGES {
            let before = kernel_bytes(self.a) + kernel_bytes(self.b);
            for (from, to) in [(self.a, self.b), (self.b, self.a)] {
                write(from, b"exchange");
                if read_some(to, 8) != b"exchange" {
                    return false;
                }
            }
            let moved = kernel_bytes(self.a) + kernel_bytes(self.b) - before;
            if (moved == 0) == rings {
                return true;
            }
            if start.elapsed() > PATIENCE {
                return false;
            }
        }
        false
    }
}

/// Bytes that kernel TCP itself has received; asked past libc, which may know better.
fn kernel_bytes(fd: RawFd) -> u64 {
    const BYTES_RECEIVED: usize = 128 / 8;
    let mut info = [0_u64; 17];
    let mut len = size_of_val(&info);
    let args = [
        fd as usize,
        libc::IPPROTO_TCP as usize,
        libc::TCP_INFO as usize,
        info.as_mut_ptr() as usize,
        &raw mut len as usize,
    ];
    crate::raw::syscall(libc::SYS_getsockopt, args);
    info[BYTES_RECEIVED]
}

pub fn write(fd: RawFd, bytes: &[u8]) -> isize {
    // SAFETY: pointer and length describe `bytes`.
    unsafe { libc::write(fd, bytes.as_ptr().cast(), bytes.len()) }
}

/// Reads until there are `expected` bytes, or nothing more comes.
pub fn read_some(fd: RawFd, expected: usize) -> Vec<u8> {
    let mut bytes = Vec::new();
    loop {
        let wait = if bytes.len() < expected {
            PATIENCE.as_millis()
        } else {
            0
        };
        let mut entry = libc::pollfd {
            fd,
            events: libc::POLLIN,
            revents: 0,
        };
        // SAFETY: one entry.
        let ready = unsafe { libc::poll(&mut entry, 1, wait as c_int) };
        let mut room = [0_u8; 4096];
        if ready <= 0 || entry.revents & libc::POLLIN == 0 {
            return bytes;
        }
        // SAFETY: pointer and length describe `room`.
        let got = unsafe { libc::read(fd, room.as_mut_ptr().cast(), room.len()) };
        match usize::try_from(got) {
            Ok(got @ 1..) => bytes.extend_from_slice(&room[..got]),
            _ => return bytes,
        }
    }
}

fn descriptors(kind: Kind) -> (RawFd, RawFd) {
    let mut pair = [0; 2];
    let pointer = pair.as_mut_ptr();
    // SAFETY: both calls fill an array of two.
    let result = unsafe {
        match kind {
            Kind::Tcp => return tcp("127.0.0.1:0"),
            Kind::Kernel => return tcp("127.0.0.2:0"),
            Kind::Bad => return (900, 901),
            Kind::File => return file(),
            Kind::Unix => libc::socketpair(libc::AF_UNIX, libc::SOCK_STREAM, 0, pointer),
            Kind::Pipe => libc::pipe(pointer),
        }
    };
    assert_eq!(result, 0);
    match kind {
        Kind::Pipe => (pair[1], pair[0]),
        _ => (pair[0], pair[1]),
    }
}

/// The two ends of a connection; they survive exec.
pub fn tcp(address: &str) -> (RawFd, RawFd) {
    let listener = std::net::TcpListener::bind(address).expect("bind");
    let a = std::net::TcpStream::connect(listener.local_addr().expect("address")).expect("connect");
    let (b, _) = listener.accept().expect("accept");
    for end in [&a, &b] {
        end.set_nodelay(true).expect("TCP_NODELAY");
        let fd = std::os::fd::AsRawFd::as_raw_fd(end);
        // SAFETY: plain integers.
        unsafe { libc::fcntl(fd, libc::F_SETFD, 0) };
    }
    (a.into_raw_fd(), b.into_raw_fd())
}

fn file() -> (RawFd, RawFd) {
    // SAFETY: a C string and plain integers; the second number is a duplicate of the first.
    unsafe {
        let flags = libc::O_RDWR | libc::O_TMPFILE;
        let fd = libc::open(c"/tmp".as_ptr(), flags, 0o600);
        assert!(fd >= 0);
        (fd, libc::dup(fd))
    }
}
