//! A small parallel program: heat that spreads on a plate, in bands of rows, one process for each band. After each step
//! neighbours exchange the rows at their borders. The same with messages of ulsock, with sockets of the standard library
//! (on kernel TCP, and under the preload library if its path is given), and with MPI if `mpicc` and `mpirun` are there. All must find
//! the same heat.
//!
//!     cargo run --release -p ulsock_native --example stencil -- [SIZE [STEPS [RANKS [LIBRARY]]]]

mod band;
mod messages;
mod mpi;
mod sockets;

use std::env;
use std::error::Error;
use std::io::Read;
use std::process::{Child, Command, Stdio};

pub type Outcome<T> = Result<T, Box<dyn Error>>;

/// What one process knows of all.
#[derive(Clone, Copy)]
pub struct Plan {
    /// Rows and columns of the plate.
    pub size: usize,
    pub steps: usize,
    pub ranks: usize,
    /// Band 0 listens at this port of the loopback interface, the others at those behind it.
    pub port: u16,
}

fn main() -> Outcome<()> {
    let words: Vec<String> = env::args().skip(1).collect();
    let number = |at: usize, default: usize| -> Outcome<usize> {
        Ok(words.get(at).map_or(Ok(default), |word| word.parse())?)
    };
    if words.first().is_some_and(|word| word == "rank") {
        let plan = Plan {
            size: number(3, 0)?,
            steps: number(4, 0)?,
            ranks: number(5, 0)?,
            port: u16::try_from(number(6, 0)?)?,
        };
        let rank = number(2, 0)?;
        let (heat, seconds) = match words[1].as_str() {
            "messages" => messages::run(&plan, rank)?,
            _ => sockets::run(&plan, rank)?,
        };
        println!("{heat:.9} {seconds}");
        return Ok(());
    }
    let plan = Plan {
        size: number(0, 256)?,
        steps: number(1, 2000)?,
        ranks: number(2, 2)?,
        port: 0,
    };
    if plan.ranks == 0 || plan.size < plan.ranks {
        return Err("at least one row for each of at least one process".into());
    }
    race(&plan, words.get(3).map(String::as_str))
}

fn race(plan: &Plan, library: Option<&str>) -> Outcome<()> {
    let mut results = vec![
        ("messages", run("messages", plan, None)?),
        ("sockets on kernel TCP", run("sockets", plan, None)?),
    ];
    if let Some(library) = library {
        results.push(("sockets under ulsock", run("sockets", plan, Some(library))?));
    }
    if let Some(result) = mpi::run(plan)? {
        results.push(("MPI", result));
    }
    let first = results[0].1.0.clone();
    for (name, (heat, seconds)) in results {
        let step = seconds * 1e6 / plan.steps as f64;
        println!("{name}: {seconds:.3} s, {step:.2} us for each step, heat {heat}");
        if heat != first {
            return Err(format!("{name} found another heat").into());
        }
    }
    Ok(())
}

/// Starts the processes: the heat in all, and the time of the slowest.
fn run(way: &str, plan: &Plan, library: Option<&str>) -> Outcome<(String, f64)> {
    let port = free_ports(plan.ranks)?;
    let start = |rank: usize| -> Outcome<Child> {
        let mut command = Command::new(env::current_exe()?);
        command.args(["rank", way]);
        let numbers = [rank, plan.size, plan.steps, plan.ranks, port.into()];
        command.args(numbers.map(|number| number.to_string()));
        command.stdout(Stdio::piped());
        if let Some(library) = library {
            command.env("LD_PRELOAD", library);
        }
        Ok(command.spawn()?)
    };
    let children: Vec<Child> = (0..plan.ranks).map(start).collect::<Outcome<_>>()?;
    let (mut heat, mut slowest) = (0.0, 0.0_f64);
    for mut child in children {
        let mut text = String::new();
        let stdout = child.stdout.as_mut().ok_or("no output")?;
        stdout.read_to_string(&mut text)?;
        child.wait()?;
        let (part, seconds) = text.trim().split_once(' ').ok_or("a process has failed")?;
        heat += part.parse::<f64>()?;
        slowest = slowest.max(seconds.parse()?);
    }
    Ok((format!("{heat:.6}"), slowest))
}

/// The first of so many ports in a row that nobody has.
fn free_ports(count: usize) -> Outcome<u16> {
    use std::net::TcpListener;
    for _ in 0..100 {
        let port = TcpListener::bind("127.0.0.1:0")?.local_addr()?.port();
        let range = port..port.saturating_add(count as u16);
        let all = range.map(|port| TcpListener::bind(("127.0.0.1", port)));
        if port < u16::MAX - count as u16 && all.collect::<Result<Vec<_>, _>>().is_ok() {
            return Ok(port);
        }
    }
    Err("no free ports".into())
}
