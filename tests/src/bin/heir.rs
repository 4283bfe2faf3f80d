//! A connection that changes hands in the middle of its stream.
//!
//! `heir giver port=P rounds=N unread=BYTES read=BYTES how=exec|stdin|pass kin=BOOL done=FILE more=N`
//! accepts, answers `rounds` messages, waits for `unread` further bytes, reads `read` of them, and
//! hands the connection over: by exec, by exec with the socket as standard input, or over a Unix
//! socket to a child. The heir is `heir taker` (or the program `taker=PATH`), with the giver's
//! environment (`kin`) or none at all. It takes the rest, writes the file, and answers `more` messages.
//! With `processes=N` the giver limits its user's processes first.
//!
//! `heir speaker port=P rounds=N unread=BYTES then=alive|polls|busy|stopped|shut|closed|killed
//! done=FILE more=N` is the other end. Busy, it makes no call until the file is there; stopped, it stops itself.

use std::ffi::{CString, OsString};
use std::io::{Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::os::fd::{AsRawFd, FromRawFd, RawFd};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::thread::sleep;
use std::time::Duration;

use tests::args::Args;
use tests::passing;
use tests::pattern;
use tests::sock::{self, Forked};

const MESSAGE: usize = 64;
/// The kernel surely queues as many.
const QUEUED: usize = 16 << 10;
/// Long enough for every machine; whoever waits so long waits for ever.
const PATIENCE: usize = 20_000;

fn main() {
    let args = Args::from_env();
    match args.role() {
        "giver" => give(&args),
        "taker" => take(&args),
        "speaker" => speak(&args),
        other => panic!("{other:?}: giver, taker or speaker"),
    }
}

/// Reads `n` bytes of the questions from `at` on.
fn read_questions(stream: &mut TcpStream, at: u64, n: usize) {
    let mut bytes = vec![0; n];
    stream.read_exact(&mut bytes).expect("a question");
    pattern::check(0, at, &bytes).unwrap_or_else(|wrong| panic!("{wrong}"));
}

fn answer(stream: &mut TcpStream, number: u64) {
    let mut bytes = [0; MESSAGE];
    pattern::fill(1, number * MESSAGE as u64, &mut bytes);
    stream.write_all(&bytes).expect("an answer");
}

fn give(args: &Args) {
    let listener = TcpListener::bind(args.address()).expect("bind");
    let (mut stream, _) = listener.accept().expect("accept");
    drop(listener);
    let rounds = args.get::<u64>("rounds");
    for number in 0..rounds {
        read_questions(&mut stream, number * MESSAGE as u64, MESSAGE);
        answer(&mut stream, number);
    }
    let (unread, read) = (args.get::<usize>("unread"), args.get::<usize>("read"));
    until("the unread bytes", || {
        sock::available(stream.as_raw_fd()).expect("FIONREAD") >= unread.min(QUEUED)
    });
    sleep(Duration::from_millis(10));
    read_questions(&mut stream, rounds * MESSAGE as u64, read);
    hand_over(args, &stream);
}

fn until(what: &str, mut done: impl FnMut() -> bool) {
    for _ in 0..PATIENCE {
        if done() {
            return;
        }
        sleep(Duration::from_millis(1));
    }
    panic!("waited in vain for {what}");
}

fn hand_over(args: &Args, stream: &TcpStream) {
    if let Some(processes) = args.find::<u64>("processes") {
        sock::limit(libc::RLIMIT_NPROC, processes).expect("the limit of processes");
    }
    match args.get::<String>("how").as_str() {
        "exec" => {
            keep_across_exec(stream.as_raw_fd());
            exec_taker(args, "fd", stream.as_raw_fd());
        }
        "stdin" => {
            // SAFETY: plain numbers.
            assert_eq!(unsafe { libc::dup2(stream.as_raw_fd(), 0) }, 0);
            exec_taker(args, "fd", 0);
        }
        "pass" => pass(args, stream),
        other => panic!("how={other}"),
    }
}

fn pass(args: &Args, stream: &TcpStream) {
    let (ours, theirs) = UnixStream::pair().expect("socketpair");
    match sock::fork().expect("fork") {
        Forked::Child => {
            // SAFETY: the child's own copy is not used again.
            unsafe { libc::close(stream.as_raw_fd()) };
            keep_across_exec(theirs.as_raw_fd());
            exec_taker(args, "from", theirs.as_raw_fd());
        }
        Forked::Parent(pid) => {
            drop(theirs);
            passing::send_fd(ours.as_raw_fd(), stream.as_raw_fd()).expect("pass the socket");
            // SAFETY: not used again.
            unsafe { libc::close(stream.as_raw_fd()) };
            assert_eq!(sock::wait_child(pid).expect("wait"), 0);
            std::process::exit(0);
        }
    }
}

fn keep_across_exec(fd: RawFd) {
    // SAFETY: plain numbers.
    assert_eq!(unsafe { libc::fcntl(fd, libc::F_SETFD, 0) }, 0);
}

fn exec_taker(args: &Args, name: &str, fd: RawFd) -> ! {
    let own = || std::env::current_exe().expect("our own program");
    let exe = args.find::<PathBuf>("taker").unwrap_or_else(own);
    let mut words = vec![
        "taker".to_owned(),
        format!("{name}={fd}"),
        format!(
            "at={}",
            args.get::<u64>("rounds") * MESSAGE as u64 + args.get::<u64>("read")
        ),
        format!(
            "left={}",
            args.get::<u64>("unread") - args.get::<u64>("read")
        ),
        format!("answered={}", args.get::<u64>("rounds")),
    ];
    for key in ["done", "more", "port"] {
        words.push(format!("{key}={}", args.get::<String>(key)));
    }
    let kin = args.get::<bool>("kin");
    let string = |text: OsString| CString::new(text.into_encoded_bytes()).expect("no NUL");
    let argv: Vec<_> = [exe.into_os_string()]
        .into_iter()
        .chain(words.into_iter().map(OsString::from))
        .map(string)
        .collect();
    let environment: Vec<_> = std::env::vars_os()
        .filter(|_| kin)
        .map(|(mut line, value)| {
            line.push("=");
            line.push(value);
            string(line)
        })
        .collect();
    // Not std's, which would put back its own signal handling and standard input.
    // SAFETY: all strings and lists live until the call fails.
    unsafe {
        libc::execve(
            argv[0].as_ptr(),
            pointers(&argv).as_ptr(),
            pointers(&environment).as_ptr(),
        )
    };
    panic!("exec: {}", std::io::Error::last_os_error());
}

fn pointers(list: &[CString]) -> Vec<*const libc::c_char> {
    list.iter()
        .map(|text| text.as_ptr())
        .chain([std::ptr::null()])
        .collect()
}

fn take(args: &Args) {
    let fd = match args.get_or::<RawFd>("from", -1) {
        -1 => args.get("fd"),
        from => passing::recv_fd(from).expect("the passed socket"),
    };
    // SAFETY: handed over to us, and nobody else's.
    let mut stream = unsafe { TcpStream::from_raw_fd(fd) };
    let (at, left) = (args.get::<u64>("at"), args.get::<usize>("left"));
    read_questions(&mut stream, at, left);
    std::fs::write(args.get::<PathBuf>("done"), b"done").expect("the file");
    let local = stream.local_addr().expect("an address").port();
    let stood_in = local != args.get::<u16>("port");
    println!(
        "taken {}",
        if stood_in {
            "from a stand-in"
        } else {
            "itself"
        }
    );
    let (at, answered) = (at + left as u64, args.get::<u64>("answered"));
    for number in 0..args.get::<u64>("more") {
        answer(&mut stream, answered + number);
        read_questions(&mut stream, at + number * MESSAGE as u64, MESSAGE);
    }
    assert_eq!(stream.read(&mut [0]).expect("the end"), 0);
}

fn speak(args: &Args) {
    let mut stream = TcpStream::connect(args.address()).expect("connect");
    let (rounds, unread) = (args.get::<u64>("rounds"), args.get::<usize>("unread"));
    for number in 0..rounds {
        ask(&mut stream, number * MESSAGE as u64, MESSAGE);
        hear(&mut stream, number);
    }
    ask(&mut stream, rounds * MESSAGE as u64, unread);
    let done = args.get::<PathBuf>("done");
    if !go_on(&args.get::<String>("then"), &done, &stream) {
        return;
    }
    let at = rounds * MESSAGE as u64 + unread as u64;
    for number in 0..args.get::<u64>("more") {
        hear(&mut stream, rounds + number);
        ask(&mut stream, at + number * MESSAGE as u64, MESSAGE);
    }
}

/// `false`: nothing more is said.
fn go_on(then: &str, done: &Path, stream: &TcpStream) -> bool {
    match then {
        "alive" => true,
        "polls" => {
            sock::wait(stream.as_raw_fd(), libc::POLLIN).expect("poll");
            true
        }
        "busy" => {
            until("the heir", || done.exists());
            true
        }
        "stopped" => {
            // SAFETY: stops this process.
            unsafe { libc::raise(libc::SIGSTOP) };
            true
        }
        "shut" => {
            stream.shutdown(Shutdown::Write).expect("shutdown");
            until("the heir", || done.exists());
            false
        }
        "closed" => false,
        // SAFETY: ends this process at once.
        "killed" => unsafe {
            libc::kill(libc::getpid(), libc::SIGKILL);
            false
        },
        other => panic!("then={other}"),
    }
}

fn ask(stream: &mut TcpStream, at: u64, n: usize) {
    let mut bytes = vec![0; n];
    pattern::fill(0, at, &mut bytes);
    stream.write_all(&bytes).expect("a question");
}

fn hear(stream: &mut TcpStream, number: u64) {
    let mut bytes = [0; MESSAGE];
    stream.read_exact(&mut bytes).expect("an answer");
    pattern::check(1, number * MESSAGE as u64, &bytes).unwrap_or_else(|wrong| panic!("{wrong}"));
}
