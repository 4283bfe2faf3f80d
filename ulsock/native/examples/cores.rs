//! One executor per core: each thread is pinned, has a run loop of its own, and a listener of its own port. Clients in other
//! threads call all of them. A hand-written scheduler would stand in the place of `serve`: it says what runs where.
//!
//!     cargo run --release -p ulsock_native --example cores

use std::io::{self, Read, Write};
use std::net::SocketAddr;
use std::sync::mpsc::{Sender, channel};
use std::thread;

use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};
use ulsock_native::future::{TcpListener, TcpStream};
use ulsock_native::run::{block_on, spawn};

const CLIENTS: usize = 4;
const ROUNDS: usize = 500;

/// Tasks of one core, which no other thread runs.
async fn serve(told: Sender<SocketAddr>) -> io::Result<()> {
    let listener = TcpListener::bind("127.0.0.1:0")?;
    told.send(listener.local_addr()?).expect("somebody listens");
    let mut tasks = Vec::new();
    for _ in 0..CLIENTS {
        tasks.push(spawn(echo(listener.accept().await?.0)));
    }
    for task in tasks {
        task.await?;
    }
    Ok(())
}

async fn echo(mut stream: TcpStream) -> io::Result<()> {
    stream.set_nodelay(true)?;
    loop {
        // From ring to ring: into a small array, never as a slice of what the other end can change.
        let view = stream.peek_in_place().await?;
        let mut bytes = [0; 256];
        let n = view.len().min(bytes.len());
        if n == 0 {
            return Ok(());
        }
        view.read_at(0, &mut bytes[..n]).expect("it is in the view");
        view.consume(n)?;
        let mut room = stream.reserve(n);
        room.write_all(&bytes[..n])?;
        room.commit(n).await?;
    }
}

fn call(address: SocketAddr) -> io::Result<()> {
    let mut stream = ulsock_native::TcpStream::connect(address)?;
    stream.set_nodelay(true)?;
    for round in 0..ROUNDS {
        let message = round.to_le_bytes();
        stream.write_all(&message)?;
        let mut answer = message;
        stream.read_exact(&mut answer)?;
        assert_eq!(answer, message);
    }
    Ok(())
}

fn pin_to(core: usize) -> io::Result<()> {
    let mut one = CpuSet::new();
    one.set(core);
    Ok(sched_setaffinity(None, &one)?)
}

fn main() -> io::Result<()> {
    let allowed = sched_getaffinity(None)?;
    let cores: Vec<usize> = (0..CpuSet::MAX_CPU)
        .filter(|core| allowed.is_set(*core))
        .collect();
    let (told, addresses) = channel();
    thread::scope(|scope| {
        for core in &cores {
            let told = told.clone();
            scope.spawn(move || -> io::Result<()> {
                pin_to(*core)?;
                block_on(serve(told))?
            });
        }
        for address in addresses.iter().take(cores.len()) {
            for _ in 0..CLIENTS {
                scope.spawn(move || call(address).expect("an echo"));
            }
        }
    });
    println!(
        "{} echoes on {} cores",
        cores.len() * CLIENTS * ROUNDS,
        cores.len()
    );
    Ok(())
}
