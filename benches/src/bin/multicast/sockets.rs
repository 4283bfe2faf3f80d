//! The same without groups: each message goes to each receiver over a connection of kernel TCP.

use std::error::Error;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::process::Child;
use std::time::Instant;

use benches::Outcome;

use crate::{AT_ONCE, Cli, Run, start};

struct Receiver {
    child: Child,
    stream: TcpStream,
}

impl Receiver {
    fn begin(size: u64) -> Result<Receiver, Box<dyn Error>> {
        let mut child = start(&["receiver", &size.to_string()])?;
        let mut line = String::new();
        BufReader::new(child.stdout.as_mut().ok_or("a pipe")?).read_line(&mut line)?;
        let stream = TcpStream::connect(line.trim())?;
        stream.set_nodelay(true)?;
        Ok(Receiver { child, stream })
    }

    /// How many messages it has got.
    fn count(&mut self) -> Result<u64, Box<dyn Error>> {
        let mut count = [0; 8];
        self.stream.read_exact(&mut count)?;
        Ok(u64::from_le_bytes(count))
    }
}

pub fn run(cli: &Cli) -> Result<Run, Box<dyn Error>> {
    let receivers: Result<Vec<Receiver>, _> = (0..cli.members)
        .map(|_| Receiver::begin(cli.size))
        .collect();
    let mut receivers = receivers?;
    let mut bytes = vec![0x5a; usize::try_from(cli.size)?];
    let (begin, mut count) = (Instant::now(), 0_u64);
    while begin.elapsed() < cli.seconds {
        for _ in 0..AT_ONCE {
            bytes[..8].copy_from_slice(&count.to_le_bytes());
            for receiver in &mut receivers {
                receiver.stream.write_all(&bytes)?;
            }
            count += 1;
        }
    }
    for receiver in &receivers {
        receiver.stream.shutdown(Shutdown::Write)?;
    }
    for receiver in &mut receivers {
        let got = receiver.count()?;
        if got != count {
            return Err(format!("a receiver has {got} of {count} messages").into());
        }
    }
    let seconds = begin.elapsed().as_secs_f64();
    for receiver in &mut receivers {
        if !receiver.child.wait()?.success() {
            return Err("a receiver has failed".into());
        }
    }
    Ok(Run { count, seconds })
}

/// Counts the messages of the one that connects, and answers at its end.
pub fn receive(size: u64) -> Outcome {
    let listener = TcpListener::bind("127.0.0.1:0")?;
    println!("{}", listener.local_addr()?);
    let (stream, _) = listener.accept()?;
    let mut messages = BufReader::with_capacity(64 << 10, &stream);
    let (mut room, mut count) = (vec![0; usize::try_from(size)?], 0_u64);
    while !messages.fill_buf()?.is_empty() {
        messages.read_exact(&mut room)?;
        if room.first_chunk() != Some(&count.to_le_bytes()) {
            return Err("a message out of order".into());
        }
        count += 1;
    }
    (&stream).write_all(&count.to_le_bytes())?;
    Ok(())
}
