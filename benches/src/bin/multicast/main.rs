//! A message to all members of a group, beside the same message to one peer: the time per message until all have it, one kind
//! after the other, in rounds. The receivers are processes of their own. With `--only` one kind alone, for `ulsock compare`.
#![forbid(unsafe_code)]

mod sockets;

use std::cell::Cell;
use std::error::Error;
use std::fs;
use std::io::{BufRead, BufReader};
use std::process::{Child, Command, Stdio};
use std::rc::Rc;
use std::time::{Duration, Instant};

use benches::{Outcome, seconds};
use clap::{Parser, Subcommand, ValueEnum};
use native::group::{Event, Group, Options};
use native::message::{Endpoint, Incoming, MessageError};
use native::names::Names;
use native::run::block_on;
use serde::Serialize;

const TAKE: u16 = 1;
const ASK: u16 = 2;
const ANSWER: u16 = 3;

/// Messages between two looks at the clock.
const AT_ONCE: u64 = 256;

/// The kernel's ticks per second, as programs see them (include/asm-generic/param.h).
const TICKS: f64 = 100.0;

#[derive(Parser)]
#[command(version)]
struct Cli {
    #[command(subcommand)]
    role: Option<Role>,
    /// Members that receive
    #[arg(long, default_value_t = 8, value_parser = clap::value_parser!(u32).range(1..=200))]
    members: u32,
    /// Bytes per message
    #[arg(long, default_value_t = 64, value_parser = clap::value_parser!(u64).range(8..=65536))]
    size: u64,
    /// How long each kind is measured in each round
    #[arg(long, default_value = "1", value_parser = seconds)]
    seconds: Duration,
    #[arg(long, default_value_t = 3)]
    rounds: u32,
    /// Only this, once
    #[arg(long, value_enum)]
    only: Option<Kind>,
}

#[derive(Clone, Copy, ValueEnum)]
enum Kind {
    /// To a group
    Group,
    /// To each receiver over a connection of kernel TCP
    Sockets,
}

#[derive(Subcommand)]
enum Role {
    /// Receive from a group until its sender leaves
    #[command(hide = true)]
    Member { service: String },
    /// Receive messages until their sender leaves
    #[command(hide = true)]
    Peer,
    /// Receive over a connection of kernel TCP until its end
    #[command(hide = true)]
    Receiver { size: u64 },
}

fn main() -> Outcome {
    let cli = Cli::parse();
    match &cli.role {
        Some(Role::Member { service }) => member(service),
        Some(Role::Peer) => peer(),
        Some(Role::Receiver { size }) => sockets::receive(*size),
        None => match cli.only {
            None => measure(&cli),
            Some(Kind::Group) => print(&to_group(&cli)?),
            Some(Kind::Sockets) => print(&sockets::run(&cli)?),
        },
    }
}

/// So many messages, each to all.
struct Run {
    count: u64,
    seconds: f64,
}

#[derive(Serialize)]
struct Only {
    messages_per_s: f64,
    total_messages: u64,
}

fn print(run: &Run) -> Outcome {
    let line = Only {
        messages_per_s: run.count as f64 / run.seconds,
        total_messages: run.count,
    };
    println!("{}", serde_json::to_string(&line)?);
    Ok(())
}

/// What one kind took.
#[derive(Clone, Copy, Default)]
struct Taken {
    /// Seconds per message.
    time: f64,
    /// CPU seconds of all processes per message.
    cpu: f64,
}

#[derive(Serialize)]
struct Line {
    members: u32,
    size: u64,
    unicast_us: f64,
    multicast_us: f64,
    /// Of the rounds, the median.
    ratio: f64,
    unicast_cpu_us: f64,
    multicast_cpu_us: f64,
}

fn measure(cli: &Cli) -> Outcome {
    let mut rounds = Vec::new();
    for _ in 0..cli.rounds.max(1) {
        rounds.push((unicast(cli)?, multicast(cli)?));
    }
    let median = |of: &dyn Fn(&(Taken, Taken)) -> f64| {
        let mut all: Vec<f64> = rounds.iter().map(of).collect();
        all.sort_by(f64::total_cmp);
        all[all.len() / 2]
    };
    let line = Line {
        members: cli.members,
        size: cli.size,
        unicast_us: median(&|(one, _)| one.time * 1e6),
        multicast_us: median(&|(_, all)| all.time * 1e6),
        ratio: median(&|(one, all)| all.time / one.time),
        unicast_cpu_us: median(&|(one, _)| one.cpu * 1e6),
        multicast_cpu_us: median(&|(_, all)| all.cpu * 1e6),
    };
    println!("{}", serde_json::to_string(&line)?);
    Ok(())
}

fn start(words: &[&str]) -> Result<Child, Box<dyn Error>> {
    let mut command = Command::new(std::env::current_exe()?);
    Ok(command.args(words).stdout(Stdio::piped()).spawn()?)
}

/// CPU seconds of this process and of its children that have ended.
fn cpu() -> Result<f64, Box<dyn Error>> {
    let stat = fs::read_to_string("/proc/self/stat")?;
    // Behind the name, which may have spaces: utime, stime, cutime and cstime (proc(5), fields 14 to 17).
    let (_, fields) = stat.rsplit_once(") ").ok_or("a line of /proc")?;
    let ticks = fields.split(' ').skip(11).take(4);
    let ticks: Result<Vec<f64>, _> = ticks.map(str::parse).collect();
    Ok(ticks?.into_iter().sum::<f64>() / TICKS)
}

fn multicast(cli: &Cli) -> Result<Taken, Box<dyn Error>> {
    let before = cpu()?;
    let Run { count, seconds } = to_group(cli)?;
    Ok(Taken {
        time: seconds / count as f64,
        cpu: (cpu()? - before) / count as f64,
    })
}

fn to_group(cli: &Cli) -> Result<Run, Box<dyn Error>> {
    let service = format!("multicast.{}", std::process::id());
    let group = Group::join(&Names::open()?, &service, Options::default())?;
    let (mut sender, mut receiver) = group.split();
    let members: Result<Vec<Child>, _> = (0..cli.members)
        .map(|_| start(&["member", &service]))
        .collect();
    let mut members = members?;
    while sender.members().len() < members.len() {
        receiver.recv(&mut [0; 64])?;
    }
    let mut bytes = vec![0x5a; usize::try_from(cli.size)?];
    let (begin, mut count) = (Instant::now(), 0_u64);
    while begin.elapsed() < cli.seconds {
        for _ in 0..AT_ONCE {
            bytes[..8].copy_from_slice(&count.to_le_bytes());
            sender.send(&bytes)?;
            count += 1;
        }
    }
    sender.flush()?;
    let seconds = begin.elapsed().as_secs_f64();
    drop((sender, receiver));
    for member in &mut members {
        let mut line = String::new();
        BufReader::new(member.stdout.take().ok_or("a pipe")?).read_line(&mut line)?;
        let got: u64 = line.trim().parse()?;
        if got != count || !member.wait()?.success() {
            return Err(format!("a member has {got} of {count} messages").into());
        }
    }
    Ok(Run { count, seconds })
}

/// Counts the messages of the one that sends some.
fn member(service: &str) -> Outcome {
    let mut group = Group::join(&Names::open()?, service, Options::default())?;
    let mut room = vec![0; 64 << 10];
    let (mut sender, mut count) = (None, 0_u64);
    loop {
        match group.recv(&mut room)? {
            Event::Message { from, .. } => {
                if room.first_chunk() != Some(&count.to_le_bytes()) {
                    return Err("a message out of order".into());
                }
                sender = Some(from);
                count += 1;
            }
            Event::Left(member) if Some(member) == sender => break,
            Event::Failed(member) => return Err(format!("{member:?} has failed").into()),
            Event::Joined(_) | Event::Left(_) => {}
        }
    }
    println!("{count}");
    Ok(())
}

fn unicast(cli: &Cli) -> Result<Taken, Box<dyn Error>> {
    let before = cpu()?;
    let mut peer = start(&["peer"])?;
    let mut address = String::new();
    BufReader::new(peer.stdout.as_mut().ok_or("a pipe")?).read_line(&mut address)?;
    let address = address.trim().parse()?;
    let (count, time) = block_on(unicast_to(cli, address))??;
    peer.wait()?;
    let cpu = (cpu()? - before) / count as f64;
    let time = time / count as f64;
    Ok(Taken { time, cpu })
}

async fn unicast_to(
    cli: &Cli,
    address: std::net::SocketAddr,
) -> Result<(u64, f64), Box<dyn Error>> {
    let endpoint = Endpoint::new();
    let answered = Rc::new(Cell::new(0));
    let told = answered.clone();
    endpoint.handle(ANSWER, move |mut message: Incoming| {
        let told = told.clone();
        async move {
            let mut number = [0; 8];
            message.read_exact(&mut number).await?;
            told.set(u64::from_le_bytes(number));
            Ok(())
        }
    });
    let peer = endpoint.connect(address).await?;
    let mut bytes = vec![0x5a; usize::try_from(cli.size)?];
    let (begin, mut count) = (Instant::now(), 0_u64);
    while begin.elapsed() < cli.seconds {
        for _ in 0..AT_ONCE {
            bytes[..8].copy_from_slice(&count.to_le_bytes());
            peer.send(TAKE, &bytes).await?;
            count += 1;
        }
    }
    peer.send(ASK, &[]).await?;
    while answered.get() == 0 {
        endpoint.extract(usize::MAX).await?;
    }
    if answered.get() != count {
        return Err(format!("{} of {count} messages have come", answered.get()).into());
    }
    let time = begin.elapsed().as_secs_f64();
    peer.close().await;
    Ok((count, time))
}

/// Counts messages, and tells how many when it is asked.
fn peer() -> Outcome {
    let endpoint = Endpoint::bind("127.0.0.1:0")?;
    println!("{}", endpoint.local_addr().ok_or("no address")?);
    let count = Rc::new(Cell::new(0_u64));
    let (counted, asked) = (count.clone(), count);
    endpoint.handle(TAKE, move |message| take(counted.clone(), message));
    endpoint.handle(ASK, move |message: Incoming| {
        let count = asked.get();
        async move { message.peer().send(ANSWER, &count.to_le_bytes()).await }
    });
    block_on(async {
        while endpoint.peers().is_empty() {
            endpoint.extract(usize::MAX).await?;
        }
        let client = endpoint.peers().remove(0);
        drop(native::run::spawn(async move { endpoint.serve().await }));
        client.gone().await;
        Ok(())
    })?
}

async fn take(count: Rc<Cell<u64>>, mut message: Incoming) -> Result<(), MessageError> {
    let mut room = [0; 8192];
    while message.read(&mut room).await? > 0 {}
    count.set(count.get() + 1);
    Ok(())
}
