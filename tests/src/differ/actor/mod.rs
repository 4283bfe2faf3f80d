//! An actor: a process whose threads each read a step from their pipe, make the call, and write what
//! came of it to the controller.
//!
//! What is written must be the same whenever the kernel behaves the same: no numbers of ports or
//! processes, no times. Words that begin with `~` are for the controller and are not compared.

mod addresses;
mod control;
mod data;
mod descriptors;
mod links;
mod long;
mod options;
mod outcome;
mod process;
mod readiness;
mod shapes;
mod signals;
pub(in crate::differ) mod uring;

use std::path::PathBuf;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicI32, Ordering};

use super::program::Step;
use super::wires::{self, CONTROL, THREADS};
use outcome::Outcome;

/// Descriptors have names in programs: indices here. A name keeps its number after a close.
const SLOTS: usize = 16;
static TABLE: [AtomicI32; SLOTS] = [const { AtomicI32::new(-1) }; SLOTS];

/// The number behind a name; one that was never open for names that mean nothing.
fn number(slot: i64) -> i32 {
    let slot = usize::try_from(slot).ok().and_then(|slot| TABLE.get(slot));
    slot.map_or(-1, |number| number.load(Ordering::Relaxed))
}

fn name(slot: i64, number: i32) {
    if let Some(place) = usize::try_from(slot).ok().and_then(|slot| TABLE.get(slot)) {
        place.store(number, Ordering::Relaxed);
    }
}

/// What the controller said at the start.
struct Place {
    /// The address of this run: 127.x.y.z.
    host: [u8; 4],
    /// Its first port.
    port: u16,
    /// Where its Unix sockets have their names.
    folder: PathBuf,
}

static PLACE: OnceLock<Place> = OnceLock::new();

fn place() -> &'static Place {
    PLACE.get().expect("set at the start")
}

/// The whole life of an actor's process: `INDEX HOST PORT FOLDER`, and after an exec the table of names.
pub fn main(words: &[String]) -> ! {
    let actor: usize = words[0].parse().expect("an index");
    let host: u32 = words[1].parse().expect("an address");
    let port = words[2].parse().expect("a port");
    PLACE
        .set(Place {
            host: host.to_be_bytes(),
            port,
            folder: PathBuf::from(&words[3]),
        })
        .ok();
    for (slot, number) in words[4..].iter().enumerate() {
        name(slot as i64, number.parse().expect("a descriptor"));
    }
    signals::install();
    live(actor)
}

/// Starts the threads, says hello, and waits for the end.
fn live(actor: usize) -> ! {
    uring::start(actor);
    let (sender, receiver) = std::sync::mpsc::channel();
    for thread in 0..THREADS {
        let sender = sender.clone();
        std::thread::spawn(move || {
            sender.send((thread, thread_id())).expect("the main thread");
            drop(sender);
            serve(actor, thread);
        });
    }
    let mut ids = [0; THREADS];
    for _ in 0..THREADS {
        let (thread, id) = receiver.recv().expect("a thread");
        ids[thread] = id;
    }
    let ids = ids.map(|id| id.to_string()).join(" ");
    say(
        actor,
        CONTROL,
        &format!("hello {} {ids}", std::process::id()),
    );
    while read_line(wires::command(actor, CONTROL)).is_some() {}
    // SAFETY: exit runs the handlers of the libraries, with threads still inside calls: as programs do.
    unsafe { libc::exit(0) }
}

fn thread_id() -> i32 {
    // SAFETY: no arguments.
    unsafe { libc::gettid() }
}

fn serve(actor: usize, thread: usize) {
    while let Some(line) = read_line(wires::command(actor, thread)) {
        let step: Step = line.parse().expect("the controller's own text");
        let text = execute(actor, &step);
        say(actor, thread, &text);
    }
    loop {
        std::thread::park();
    }
}

fn execute(actor: usize, step: &Step) -> String {
    let mut outcome = Outcome::default();
    uring::read_a_file();
    let known = data::run(step, &mut outcome)
        || descriptors::run(step, &mut outcome)
        || options::run(step, &mut outcome)
        || readiness::run(step, &mut outcome)
        || links::run(step, &mut outcome)
        || long::run(step, &mut outcome)
        || process::run(actor, step, &mut outcome);
    assert!(known, "no such call: {step}");
    signals::drain(&mut outcome);
    outcome.text
}

/// The controller writes a line only to a thread that has answered the last one.
fn read_line(fd: i32) -> Option<String> {
    let mut line = [0u8; 1024];
    loop {
        // SAFETY: pointer and length describe `line`.
        let n = unsafe { libc::read(fd, line.as_mut_ptr().cast(), line.len()) };
        match n {
            0 => return None,
            1.. => return Some(String::from_utf8_lossy(&line[..n as usize]).into_owned()),
            _ if outcome::errno() == libc::EINTR => {}
            _ => return None,
        }
    }
}

fn say(actor: usize, thread: usize, text: &str) {
    let line = format!("{thread} {text}\n");
    // Shorter than PIPE_BUF, so that lines of several threads do not mix.
    let line = &line.as_bytes()[..line.len().min(4000)];
    // SAFETY: pointer and length describe `line`.
    unsafe { libc::write(wires::reply(actor), line.as_ptr().cast(), line.len()) };
}
