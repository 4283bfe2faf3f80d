//! Leaves with bytes under way: `leave listen port=P bytes=N` reads slowly, to the end of the
//! stream, and checks every byte; `leave connect port=P bytes=N how=HOW` sends them and is gone, both after
//! so many `rounds=` of a ping-pong: by
//! exit, _exit, quick_exit, exec of another program with and without the socket, or exec in a thread. Who says
//! reset or reset-exit closes so that the connection is reset, and `leave listen end=reset` demands that.

use std::ffi::{CString, c_int};
use std::io::{ErrorKind, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::os::fd::AsRawFd;
use std::time::Duration;

use tests::args::Args;
use tests::echo::Caller;
use tests::pattern;

/// Enough for rings.
const ROUNDS: usize = 2000;
const MESSAGE: usize = 100;

unsafe extern "C" {
    fn quick_exit(status: c_int) -> !;
}

fn main() {
    let args = Args::from_env();
    match args.role() {
        "listen" => read(&args),
        "connect" => write(&args),
        other => panic!("{other:?}: listen or connect"),
    }
}

fn read(args: &Args) {
    let listener = TcpListener::bind(args.address()).expect("bind");
    let (mut stream, _) = listener.accept().expect("accept");
    for _ in 0..args.get_or("rounds", ROUNDS) {
        tests::echo::serve_one(&stream, MESSAGE).expect("echo");
    }
    std::thread::sleep(Duration::from_millis(100));
    let (mut piece, mut position) = (vec![0; 50_000], 0);
    let reset = args.get_or("end", String::new()) == "reset";
    loop {
        let n = match stream.read(&mut piece) {
            Err(error) if reset && error.kind() == ErrorKind::ConnectionReset => return,
            read => read.expect("read"),
        };
        if n == 0 {
            assert!(!reset, "a clean end");
            break;
        }
        pattern::check(1, position, &piece[..n]).unwrap_or_else(|wrong| panic!("{wrong}"));
        position += n as u64;
    }
    assert_eq!(position, args.get::<u64>("bytes"));
}

fn write(args: &Args) {
    let mut stream = TcpStream::connect(args.address()).expect("connect");
    stream.set_nodelay(true).expect("TCP_NODELAY");
    let mut caller = Caller::new(&stream, 0);
    let rounds = args.get_or("rounds", ROUNDS);
    (0..rounds).for_each(|_| caller.round_trip(MESSAGE).expect("round trip"));
    let mut bytes = vec![0; args.get("bytes")];
    pattern::fill(1, 0, &mut bytes);
    stream.write_all(&bytes).expect("write");
    let fd = stream.as_raw_fd();
    std::mem::forget(stream);
    let how: String = args.get("how");
    if how.starts_with("reset") {
        tests::sock::set_linger_zero(fd);
    }
    // SAFETY: each of these ends the program.
    unsafe {
        match how.as_str() {
            "reset" => drop(libc::close(fd)),
            "reset-exit" => libc::_exit(0),
            "exit" => libc::exit(0),
            "_exit" => libc::_exit(0),
            "quick_exit" => quick_exit(0),
            "kill" => drop(libc::raise(libc::SIGKILL)),
            "exec" => exec(),
            "exec-keeping" => {
                libc::fcntl(fd, libc::F_SETFD, 0);
                exec()
            }
            "exec-in-thread" => drop(std::thread::spawn(exec).join()),
            other => panic!("{other:?}: how?"),
        }
    }
}

fn exec() {
    let program = CString::new("/bin/true").expect("a path");
    let arguments = [program.as_ptr(), std::ptr::null()];
    // SAFETY: a path and a list of arguments that ends with null.
    unsafe { libc::execv(program.as_ptr(), arguments.as_ptr()) };
}
