//! With calls that wait.

use std::io::{Read, Write};
use std::net::Shutdown;
use std::time::Instant;

use ulsock_native::{TcpListener, TcpStream};

use crate::{Outcome, Part, TRIPS_PER_LOOK, WARM_TRIPS, WARM_UP};

/// A stream of ulsock's, or of the standard library.
pub enum Either {
    Native(TcpStream),
    Std(std::net::TcpStream),
}

impl Either {
    fn end(&self) -> std::io::Result<()> {
        match self {
            Either::Native(stream) => stream.shutdown(Shutdown::Write),
            Either::Std(stream) => stream.shutdown(Shutdown::Write),
        }
    }

    fn send(&mut self, bytes: &[u8], in_place: bool) -> std::io::Result<()> {
        match self {
            Either::Native(stream) if in_place => {
                let mut room = stream.reserve(bytes.len());
                room.write_all(bytes)?;
                Ok(room.commit(bytes.len())?)
            }
            Either::Native(stream) => stream.write_all(bytes),
            Either::Std(stream) => stream.write_all(bytes),
        }
    }

    /// In place only the first bytes are looked at.
    fn take(&mut self, room: &mut [u8], in_place: bool) -> std::io::Result<usize> {
        match self {
            Either::Native(stream) if in_place => {
                let view = stream.peek_in_place()?;
                let n = view.len().min(room.len());
                let shown = n.min(64);
                view.read_at(0, &mut room[..shown]).expect("it is there");
                view.consume(n)?;
                Ok(n)
            }
            Either::Native(stream) => stream.read(room),
            Either::Std(stream) => stream.read(room),
        }
    }

    fn take_all(&mut self, room: &mut [u8], in_place: bool) -> std::io::Result<bool> {
        let mut done = 0;
        while done < room.len() {
            match self.take(&mut room[done..], in_place)? {
                0 => return Ok(false),
                n => done += n,
            }
        }
        Ok(true)
    }
}

pub fn serve(part: &Part, std: bool, address: &str) -> Outcome<()> {
    let mut stream = if std {
        let listener = std::net::TcpListener::bind(address)?;
        println!("{}", listener.local_addr()?);
        let stream = listener.accept()?.0;
        stream.set_nodelay(true)?;
        Either::Std(stream)
    } else {
        let listener = TcpListener::bind(address)?;
        println!("{}", listener.local_addr()?);
        let stream = listener.accept()?.0;
        stream.set_nodelay(true)?;
        Either::Native(stream)
    };
    let mut room = vec![0; part.size];
    if part.load == "trips" {
        while stream.take_all(&mut room, part.in_place)? {
            stream.send(&room, part.in_place)?;
        }
        return Ok(());
    }
    let (mut bytes, mut begin) = (0, None);
    room.resize(64 << 10, 0);
    loop {
        match stream.take(&mut room, part.in_place)? {
            0 => break,
            n => bytes += n as u64,
        }
        if begin.is_none() && bytes > WARM_UP {
            (begin, bytes) = (Some(Instant::now()), 0);
        }
    }
    let seconds = begin.ok_or("a longer stream")?.elapsed().as_secs_f64();
    let figure = format!("{}", bytes as f64 / seconds / 1e9);
    Ok(stream.send(figure.as_bytes(), false)?)
}

pub fn call(part: &Part, std: bool, address: &str) -> Outcome<()> {
    let mut stream = if std {
        let stream = std::net::TcpStream::connect(address)?;
        stream.set_nodelay(true)?;
        Either::Std(stream)
    } else {
        let stream = TcpStream::connect(address)?;
        stream.set_nodelay(true)?;
        Either::Native(stream)
    };
    let mut message = vec![7; part.size];
    if part.load == "trips" {
        let (mut begin, mut count) = (Instant::now(), 0);
        for trip in 1_u32.. {
            stream.send(&message, part.in_place)?;
            stream.take_all(&mut message, part.in_place)?;
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
        return Ok(());
    }
    let begin = Instant::now();
    while begin.elapsed() < part.seconds {
        for _ in 0..100 {
            stream.send(&message, part.in_place)?;
        }
    }
    stream.end()?;
    let mut figure = vec![0; 100];
    let n = stream.take(&mut figure, false)?;
    println!("{}", String::from_utf8_lossy(&figure[..n]));
    Ok(())
}
