//! With futures, in a run loop of ulsock's.

use std::io::{self, Write};
use std::net::Shutdown;
use std::time::Instant;

use ulsock_native::future::{TcpListener, TcpStream};
use ulsock_native::run::block_on;

use crate::{Outcome, Part, TRIPS_PER_LOOK, WARM_TRIPS, WARM_UP};

async fn send(stream: &mut TcpStream, bytes: &[u8], in_place: bool) -> io::Result<()> {
    if !in_place {
        return stream.write_all(bytes).await;
    }
    let mut room = stream.reserve(bytes.len());
    room.write_all(bytes)?;
    Ok(room.commit(bytes.len()).await?)
}

/// In place only the first bytes are looked at.
async fn take(stream: &mut TcpStream, room: &mut [u8], in_place: bool) -> io::Result<usize> {
    if !in_place {
        return stream.read(room).await;
    }
    let view = stream.peek_in_place().await?;
    let n = view.len().min(room.len());
    let shown = n.min(64);
    view.read_at(0, &mut room[..shown]).expect("it is there");
    view.consume(n)?;
    Ok(n)
}

async fn take_all(stream: &mut TcpStream, room: &mut [u8], in_place: bool) -> io::Result<bool> {
    let mut done = 0;
    while done < room.len() {
        match take(stream, &mut room[done..], in_place).await? {
            0 => return Ok(false),
            n => done += n,
        }
    }
    Ok(true)
}

pub fn serve(part: &Part, address: &str) -> Outcome<()> {
    block_on(async {
        let listener = TcpListener::bind(address)?;
        println!("{}", listener.local_addr()?);
        let mut stream = listener.accept().await?.0;
        stream.set_nodelay(true)?;
        let mut room = vec![0; part.size];
        if part.load == "trips" {
            while take_all(&mut stream, &mut room, part.in_place).await? {
                send(&mut stream, &room, part.in_place).await?;
            }
            return Ok(());
        }
        let (mut bytes, mut begin) = (0, None);
        room.resize(64 << 10, 0);
        loop {
            match take(&mut stream, &mut room, part.in_place).await? {
                0 => break,
                n => bytes += n as u64,
            }
            if begin.is_none() && bytes > WARM_UP {
                (begin, bytes) = (Some(Instant::now()), 0);
            }
        }
        let seconds = begin.ok_or("a longer stream")?.elapsed().as_secs_f64();
        let figure = format!("{}", bytes as f64 / seconds / 1e9);
        Ok(send(&mut stream, figure.as_bytes(), false).await?)
    })?
}

pub fn call(part: &Part, address: &str) -> Outcome<()> {
    let address = address.parse()?;
    block_on(async {
        let mut stream = TcpStream::connect(address).await?;
        stream.set_nodelay(true)?;
        match part.load.as_str() {
            "trips" => trips(&mut stream, part).await,
            _ => pour(&mut stream, part).await,
        }
    })?
}

async fn trips(stream: &mut TcpStream, part: &Part) -> Outcome<()> {
    let mut message = vec![7; part.size];
    let (mut begin, mut count) = (Instant::now(), 0);
    for trip in 1_u32.. {
        send(stream, &message, part.in_place).await?;
        take_all(stream, &mut message, part.in_place).await?;
        count += 1;
        if trip == WARM_TRIPS {
            (begin, count) = (Instant::now(), 0);
        }
        let is_look = trip > WARM_TRIPS && trip.is_multiple_of(TRIPS_PER_LOOK);
        if is_look && begin.elapsed() > part.seconds {
            break;
        }
    }
    println!("{}", begin.elapsed().as_secs_f64() * 1e6 / f64::from(count));
    Ok(())
}

async fn pour(stream: &mut TcpStream, part: &Part) -> Outcome<()> {
    let message = vec![7; part.size];
    let begin = Instant::now();
    while begin.elapsed() < part.seconds {
        for _ in 0..100 {
            send(stream, &message, part.in_place).await?;
        }
    }
    stream.shutdown(Shutdown::Write)?;
    let mut figure = vec![0; 100];
    let n = take(stream, &mut figure, false).await?;
    println!("{}", String::from_utf8_lossy(&figure[..n]));
    Ok(())
}
