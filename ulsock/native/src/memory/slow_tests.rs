//! Exporters that stop in the middle of an opening: nobody waits for them for longer than he wants, and nothing else of his thread does.

use std::cell::Cell;
use std::io::Read;
use std::net::{SocketAddr, TcpListener};
use std::path::Path;
use std::process::Command;
use std::rc::Rc;
use std::sync::mpsc::channel;
use std::thread;
use std::time::{Duration, Instant};

use rendezvous::mailbox::Mailbox;
use rendezvous::rundir::RunDir;
use rendezvous::rundir::scratch::Scratch;

use super::error::MemoryError;
use super::import::Import;
use super::key::RegionKey;
use super::protocol::{OPEN, OPENED, Opened};
use crate::message::Endpoint;
use crate::run::{block_on, sleep, spawn};
use crate::share::Ticket;

const ROLE: &str = "TEST_OF_SLOW_EXPORTERS";

/// Less than a ticket is waited for, and much more than anything here takes.
const SHORT: Duration = Duration::from_millis(200);

fn key(address: SocketAddr) -> RegionKey {
    RegionKey {
        address,
        number: 1,
        secret: [0; 16],
    }
}

/// An exporter that says where the memory is to be had, and then answers nobody.
fn half_an_exporter() -> RegionKey {
    let (told, address) = channel();
    thread::spawn(move || {
        let path = std::env::var_os("ULSOCK_RUN_DIR").expect("a folder");
        let run_dir = RunDir::open(Path::new(&path)).expect("a run directory");
        let mailbox = Mailbox::create(&run_dir).expect("a mailbox");
        let mut ticket = [0; crate::share::LEN];
        ticket[..4].copy_from_slice(&mailbox.name().pid.to_le_bytes());
        ticket[4..12].copy_from_slice(&mailbox.name().random.to_le_bytes());
        let granted = Opened::Granted {
            size: 100_000,
            ticket: Ticket::from_bytes(ticket),
        };
        let served = block_on(async {
            let endpoint = Endpoint::bind("127.0.0.1:0").expect("an endpoint");
            endpoint.handle_own(OPEN, move |message| async move {
                let peer = message.peer();
                message.skip().await?;
                peer.send(OPENED, granted.to_bytes().as_bytes()).await
            });
            let address = endpoint.local_addr().expect("an address");
            told.send(address).expect("somebody asks");
            endpoint.serve().await
        });
        drop((served, mailbox));
    });
    key(address.recv().expect("an address"))
}

/// Opens as a task of a thread that has others, and tells the longest time that these did not run.
fn open_beside(key: RegionKey) -> (Import, Duration) {
    block_on(async {
        let longest = Rc::new(Cell::new(Duration::ZERO));
        let seen = longest.clone();
        drop(spawn(async move {
            loop {
                let begun = Instant::now();
                sleep(Duration::from_millis(5)).await.expect("a timer");
                seen.set(seen.get().max(begun.elapsed()));
            }
        }));
        let import = Import::open(&key).await.expect("by messages");
        (import, longest.get())
    })
    .expect("a loop")
}

/// It has given up in time, in either form.
fn is_late(key: RegionKey) {
    let begun = Instant::now();
    let opened = Import::open_blocking_within(&key, SHORT).map(drop);
    assert_eq!(opened, Err(MemoryError::TimedOut));
    let opened = block_on(Import::open_within(&key, SHORT)).expect("a loop");
    assert_eq!(opened.map(drop), Err(MemoryError::TimedOut));
    let took = begun.elapsed();
    assert!((2 * SHORT..8 * SHORT).contains(&took), "{took:?}");
}

fn opens() {
    let half = half_an_exporter();
    is_late(half);
    let begun = Instant::now();
    let (import, longest) = open_beside(half);
    assert!(!import.is_shared());
    assert!(begun.elapsed() > Duration::from_millis(900));
    assert!(longest < Duration::from_millis(800), "{longest:?}");

    // One that has stopped before it could hear of it: whoever has given up leaves no connection.
    let listener = TcpListener::bind("127.0.0.1:0").expect("a listener");
    is_late(key(listener.local_addr().expect("an address")));
    for _ in 0..2 {
        let (mut stream, _) = listener.accept().expect("a connection");
        let limit = Some(Duration::from_secs(5));
        stream.set_read_timeout(limit).expect("a limit");
        stream.read_to_end(&mut Vec::new()).expect("its end");
    }
}

/// In a process of its own, for its environment.
#[test]
fn who_stops_in_the_middle() {
    if std::env::var(ROLE).is_ok() {
        return opens();
    }
    let dir = Scratch::new();
    let program = std::env::current_exe().expect("a program");
    let output = Command::new(program)
        .args(["memory::slow_tests::who_stops_in_the_middle", "--exact"])
        .env(ROLE, "opens")
        .env("ULSOCK_RUN_DIR", &dir.path)
        .output()
        .expect("a process");
    let said = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{said}");
}
