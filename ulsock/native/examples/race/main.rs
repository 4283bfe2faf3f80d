//! The ways to make calls, in turn, between two processes on two CPUs: round trips of 64 B, and a stream of 16 KiB messages.
//! `preloaded` is a program with sockets of the standard library under the preload library.
//!
//!     cargo build --release --workspace
//!     cargo run --release -p ulsock_native --example race -- target/release/libulsock_preload.so [ROUNDS [SECONDS]]

mod blocking;
mod tasks;

use std::env;
use std::error::Error;
use std::io::{BufRead, BufReader};
use std::process::{Command, Stdio};
use std::time::Duration;

use rustix::thread::{CpuSet, sched_setaffinity};

type Outcome<T> = Result<T, Box<dyn Error>>;

const WAYS: [&str; 5] = [
    "preloaded",
    "blocking",
    "blocking in place",
    "tasks",
    "tasks in place",
];
/// Round trips, in us, and a stream, in GB/s.
const LOADS: [(&str, usize, &str); 2] = [("trips", 64, "us"), ("stream", 16 << 10, "GB/s")];

/// What one process does.
#[derive(Clone)]
pub struct Part {
    pub load: String,
    pub size: usize,
    pub in_place: bool,
    pub seconds: Duration,
}

fn main() -> Outcome<()> {
    let words: Vec<String> = env::args().skip(1).collect();
    match words.first().map(String::as_str) {
        Some("serve" | "call") => take_part(&words),
        Some(library) => race(library, &words[1..]),
        None => Err("which preload library?".into()),
    }
}

fn race(library: &str, words: &[String]) -> Outcome<()> {
    let rounds: usize = words.first().map_or(Ok(5), |word| word.parse())?;
    let seconds = words.get(1).map_or("0.5", String::as_str);
    for (load, size, unit) in LOADS {
        let mut figures = vec![Vec::new(); WAYS.len()];
        for _ in 0..rounds {
            for (way, figures) in WAYS.iter().zip(&mut figures) {
                figures.push(measure(library, way, load, size, seconds)?);
            }
        }
        for (way, mut figures) in WAYS.iter().zip(figures) {
            figures.sort_by(f64::total_cmp);
            let (least, most) = (figures[0], figures[rounds - 1]);
            let median = figures[rounds / 2];
            println!("{load}, {size} B, {way}: {median:.3} {unit} ({least:.3} to {most:.3})");
        }
    }
    Ok(())
}

fn measure(library: &str, way: &str, load: &str, size: usize, seconds: &str) -> Outcome<f64> {
    let program = |role: &str, address: &str| -> Outcome<Command> {
        let mut command = Command::new(env::current_exe()?);
        let size = size.to_string();
        command.args([role, way, load, &size, seconds, address]);
        if way == "preloaded" {
            command.env("LD_PRELOAD", library);
        }
        command.stdout(Stdio::piped());
        Ok(command)
    };
    let mut server = program("serve", "127.0.0.1:0")?.spawn()?;
    let mut address = String::new();
    let said = server.stdout.take().ok_or("a pipe")?;
    BufReader::new(said).read_line(&mut address)?;
    let output = program("call", address.trim())?.output()?;
    server.wait()?;
    Ok(String::from_utf8(output.stdout)?.trim().parse()?)
}

fn take_part(words: &[String]) -> Outcome<()> {
    let [role, way, load, size, seconds, address] = words else {
        return Err("ROLE WAY LOAD SIZE SECONDS ADDRESS".into());
    };
    let part = Part {
        load: load.clone(),
        size: size.parse()?,
        in_place: way.ends_with("in place"),
        seconds: Duration::from_secs_f64(seconds.parse()?),
    };
    let mut cpu = CpuSet::new();
    cpu.set(usize::from(role == "call"));
    sched_setaffinity(None, &cpu)?;
    match (role.as_str(), way.starts_with("tasks")) {
        ("serve", false) => blocking::serve(&part, way == "preloaded", address),
        (_, false) => blocking::call(&part, way == "preloaded", address),
        ("serve", true) => tasks::serve(&part, address),
        (_, true) => tasks::call(&part, address),
    }
}

/// The first part of a stream is not measured.
pub const WARM_UP: u64 = 50 << 20;
/// Nor are the first round trips.
pub const WARM_TRIPS: u32 = 20_000;
/// Between two looks at the clock.
pub const TRIPS_PER_LOOK: u32 = 100;
