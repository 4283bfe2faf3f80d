//! Deposits, in one process and between two.

use std::io::{BufRead, BufReader, Read};
use std::os::fd::AsFd;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::process::{Child, ChildStdout, Command, Stdio};
use std::time::{Duration, Instant};

use os::fds::{InternalFd, duplicate_high};
use rendezvous::channel::Channel;
use rendezvous::mailbox::Mailbox;
use rendezvous::rundir::RunDir;
use rendezvous::rundir::scratch::Scratch;
use rustix::fs::{MemfdFlags, fstat, memfd_create};
use rustix::io::Errno;

use super::counter::{Counter, Uses};
use super::error::FetchError;
use super::fetch::fetch;
use super::parcel;
use super::ticket::{Secret, Ticket};

fn counter(dir: &RunDir) -> &'static Counter {
    Box::leak(Box::new(Counter::open(dir).expect("a counter")))
}

fn memfd() -> InternalFd {
    let made = memfd_create(c"test", MemfdFlags::CLOEXEC).expect("a memfd");
    duplicate_high(made.as_fd()).expect("a descriptor")
}

fn inode(fd: &InternalFd) -> u64 {
    fstat(fd).expect("a file").st_ino
}

#[test]
fn who_knows_the_ticket_gets_the_descriptors() {
    let dir = Scratch::new();
    let fds = vec![memfd(), memfd()];
    let inodes: Vec<u64> = fds.iter().map(inode).collect();
    let deposit = counter(&dir).deposit(fds, Uses::Any).expect("deposited");
    for _ in 0..3 {
        let got = fetch(&dir, &deposit.ticket(), 2).expect("fetched");
        assert_eq!(got.iter().map(inode).collect::<Vec<_>>(), inodes);
    }
    assert_eq!(
        fetch(&dir, &deposit.ticket(), 1).unwrap_err(),
        FetchError::Nonsense
    );
    let ticket = deposit.ticket();
    drop(deposit);
    assert_eq!(fetch(&dir, &ticket, 2).unwrap_err(), FetchError::Refused);
}

#[test]
fn once_is_once() {
    let dir = Scratch::new();
    let deposit = counter(&dir).deposit(vec![memfd()], Uses::Once);
    let ticket = deposit.expect("deposited").ticket();
    assert_eq!(
        fetch(&dir, &ticket, 1).unwrap_err(),
        FetchError::Refused,
        "its deposit was dropped"
    );
    let deposit = counter(&dir).deposit(vec![memfd()], Uses::Once);
    let deposit = deposit.expect("deposited");
    assert!(deposit.is_left());
    fetch(&dir, &deposit.ticket(), 1).expect("the first");
    assert!(!deposit.is_left());
    assert_eq!(
        fetch(&dir, &deposit.ticket(), 1).unwrap_err(),
        FetchError::Refused
    );
}

#[test]
fn a_wrong_secret_gets_nothing() {
    let dir = Scratch::new();
    let counter = counter(&dir);
    let deposit = counter
        .deposit(vec![memfd()], Uses::Any)
        .expect("deposited");
    let mut ticket = deposit.ticket();
    ticket.secret.0[15] ^= 1;
    assert_eq!(fetch(&dir, &ticket, 1).unwrap_err(), FetchError::Refused);
    for count in [0, parcel::MOST + 1] {
        let fds = (0..count).map(|_| memfd()).collect();
        assert!(counter.deposit(fds, Uses::Any).is_err());
    }
}

#[test]
fn tickets_travel_as_bytes() {
    let dir = Scratch::new();
    let deposit = counter(&dir).deposit(vec![memfd()], Uses::Any);
    let ticket = deposit.expect("deposited").ticket();
    assert_eq!(Ticket::from_bytes(ticket.to_bytes()), Some(ticket));
    let shown = format!("{ticket:?}");
    assert!(!shown.contains("ecret"), "{shown}");
}

fn elsewhere() -> Ticket {
    Ticket {
        mailbox: rendezvous::mailbox::MailboxName { pid: 1, random: 7 },
        secret: Secret([0; 16]),
    }
}

#[test]
fn a_giver_that_is_not_here_is_known_at_once() {
    let dir = Scratch::new();
    let begun = Instant::now();
    assert_eq!(
        fetch(&dir, &elsewhere(), 1).unwrap_err(),
        FetchError::NotHere
    );
    // A file that is no socket, and one that is a link.
    let name = elsewhere().mailbox.file().expect("a name");
    std::fs::write(dir.path.join(&*name), "").expect("a file");
    assert_eq!(
        fetch(&dir, &elsewhere(), 1).unwrap_err(),
        FetchError::NotHere
    );
    assert!(begun.elapsed() < Duration::from_millis(500));
}

#[test]
fn one_that_never_answers_holds_nobody_up_for_long() {
    let dir = Scratch::new();
    let mailbox = Mailbox::create(&dir).expect("a mailbox");
    let ticket = Ticket {
        mailbox: mailbox.name(),
        secret: Secret([0; 16]),
    };
    let begun = Instant::now();
    assert_eq!(fetch(&dir, &ticket, 1).unwrap_err(), FetchError::TimedOut);
    assert!(begun.elapsed() < Duration::from_millis(1500));
}

/// Answers of a giver of ill will: their descriptors are closed.
#[test]
fn bad_answers_are_refused() {
    let dir = Scratch::new();
    let mailbox = Mailbox::create(&dir).expect("a mailbox");
    let ticket = Ticket {
        mailbox: mailbox.name(),
        secret: Secret([0; 16]),
    };
    let (mut watch, sent) = UnixStream::pair().expect("a pair");
    let sent = {
        let low = sent;
        duplicate_high(low.as_fd()).expect("a descriptor")
    };
    let giver = std::thread::spawn(move || {
        let copies = |count| -> Vec<InternalFd> {
            (0..count)
                .map(|_| sent.duplicate().expect("a copy"))
                .collect()
        };
        for count in [0, 2, parcel::MOST] {
            let channel = loop {
                match mailbox.accept().expect("a listener") {
                    Some(channel) => break channel,
                    None => std::thread::yield_now(),
                }
            };
            while parcel::asked(&channel).is_err_and(|errno| errno == Errno::AGAIN) {
                std::thread::yield_now();
            }
            let _ = parcel::give(&channel, &copies(count));
        }
    });
    for _ in 0..3 {
        assert_eq!(fetch(&dir, &ticket, 1).unwrap_err(), FetchError::Nonsense);
    }
    giver.join().expect("a giver");
    watch
        .set_read_timeout(Some(Duration::from_secs(5)))
        .expect("a time");
    assert_eq!(watch.read(&mut [0; 1]).expect("its end"), 0);
}

/// Whoever connects and says nothing, or nonsense, does not keep others from what is theirs.
#[test]
fn silent_ones_are_put_out() {
    let dir = Scratch::new();
    let deposit = counter(&dir).deposit(vec![memfd()], Uses::Any);
    let deposit = deposit.expect("deposited");
    let mut silent = Vec::new();
    for _ in 0..150 {
        match Channel::connect(&dir, deposit.ticket().mailbox) {
            Ok(channel) => silent.push(channel),
            Err(errno) => assert_eq!(errno, Errno::AGAIN),
        }
    }
    fetch(&dir, &deposit.ticket(), 1).expect("fetched");
    let talker = Channel::connect(&dir, deposit.ticket().mailbox).expect("a channel");
    rustix::net::send(&talker, &[7; 24], rustix::net::SendFlags::empty()).expect("sent");
    silent.push(talker);
    let begun = Instant::now();
    while !silent.iter().all(Channel::has_ended) {
        assert!(begun.elapsed() < Duration::from_secs(3));
        std::thread::sleep(Duration::from_millis(10));
    }
}

/// Even with the ticket.
#[test]
fn another_user_gets_nothing() {
    if !rustix::process::geteuid().is_root() {
        return;
    }
    let dir = Scratch::new();
    let deposit = counter(&dir).deposit(vec![memfd()], Uses::Any);
    let ticket = deposit.as_ref().expect("deposited").ticket();
    let as_another = || {
        // SAFETY: a system call of its own for this thread alone, as which it has another user.
        let changed = unsafe { os::raw::syscall(libc::SYS_setresuid, [12345; 3]) };
        assert_eq!(changed, Ok(0));
        assert_eq!(fetch(&dir, &ticket, 1).unwrap_err(), FetchError::Stranger);
        let channel = Channel::connect(&dir, ticket.mailbox).expect("a channel");
        // Put out before he can say it, or after.
        let _ = parcel::ask(&channel, &ticket.secret);
        loop {
            match parcel::take(&channel, 1) {
                Ok(None) => std::thread::yield_now(),
                Ok(Some(_)) => panic!("it was given"),
                Err(error) => return error,
            }
        }
    };
    let error = std::thread::scope(|scope| scope.spawn(as_another).join().expect("a thread"));
    assert_eq!(error, FetchError::Refused);
    fetch(&dir, &ticket, 1).expect("fetched by the same user");
}

const ROLE: &str = "TEST_OF_SHARING";

/// This test program once more, as one that deposits a memfd in that folder, prints the ticket, and waits for its end.
fn giver(dir: &Path, forks: bool) -> (Child, BufReader<ChildStdout>, Ticket) {
    let program = std::env::current_exe().expect("a program");
    let mut child = Command::new(program)
        .args(["share::tests::gives_to_another_process", "--exact"])
        .arg("--nocapture")
        .env(ROLE, if forks { "forks" } else { "gives" })
        .env("ULSOCK_RUN_DIR", dir)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .expect("a process");
    let mut output = BufReader::new(child.stdout.take().expect("its output"));
    let mut line = String::new();
    while !line.starts_with("ticket ") {
        line.clear();
        assert!(output.read_line(&mut line).expect("a line") > 0);
    }
    let mut bytes = [0; super::LEN];
    for (byte, text) in bytes.iter_mut().zip(line.as_bytes()[7..].chunks(2)) {
        let text = std::str::from_utf8(text).expect("text");
        *byte = u8::from_str_radix(text, 16).expect("a byte");
    }
    (child, output, Ticket::from_bytes(bytes).expect("a ticket"))
}

fn give(forks: bool) {
    let deposit = super::deposit(vec![memfd()], Uses::Any).expect("deposited");
    let bytes = deposit.ticket().to_bytes();
    let text: String = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
    println!("\nticket {text}");
    if forks {
        // SAFETY: the child only sleeps and ends, by calls that a child may make.
        unsafe {
            if libc::fork() == 0 {
                libc::sleep(20);
                libc::_exit(0);
            }
        }
        println!("forked");
    }
    let _ = std::io::stdin().read_to_end(&mut Vec::new());
}

#[test]
fn gives_to_another_process() {
    if let Ok(role) = std::env::var(ROLE) {
        return give(role == "forks");
    }
    let dir = Scratch::new();
    let (mut child, _output, ticket) = giver(&dir.path, false);
    fetch(&dir, &ticket, 1).expect("fetched");
    drop(child.stdin.take());
    child.wait().expect("its end");
    assert_eq!(fetch(&dir, &ticket, 1).unwrap_err(), FetchError::NotHere);
    assert_eq!(dir.names(), Vec::<String>::new());
}

#[test]
fn a_giver_that_is_killed_leaves_nothing() {
    let dir = Scratch::new();
    let (mut child, _output, ticket) = giver(&dir.path, false);
    child.kill().expect("killed");
    child.wait().expect("its end");
    assert_eq!(fetch(&dir, &ticket, 1).unwrap_err(), FetchError::NotHere);
    // The next that deposits something cleans up.
    let own = Counter::open(&dir).expect("a counter");
    drop(own);
    assert_eq!(dir.names(), Vec::<String>::new());
}

/// Its child does not answer for it, and does not keep its place.
#[test]
fn a_giver_that_is_killed_leaves_nothing_to_its_child() {
    let dir = Scratch::new();
    let (mut child, mut output, ticket) = giver(&dir.path, true);
    let mut line = String::new();
    output.read_line(&mut line).expect("a line");
    assert_eq!(line, "forked\n");
    child.kill().expect("killed");
    child.wait().expect("its end");
    // The child may still be in the middle of its fork.
    let begun = Instant::now();
    while fetch(&dir, &ticket, 1).unwrap_err() != FetchError::NotHere {
        assert!(begun.elapsed() < Duration::from_secs(3));
    }
    drop(Counter::open(&dir).expect("a counter"));
    assert_eq!(dir.names(), Vec::<String>::new());
}
