//! With sockets of the standard library: it stands for anybody's program.

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::thread::sleep;
use std::time::{Duration, Instant};

use crate::band::Band;
use crate::{Outcome, Plan};

fn connect_below(plan: &Plan, rank: usize) -> Outcome<TcpStream> {
    let port = plan.port + u16::try_from(rank + 1)?;
    loop {
        match TcpStream::connect(("127.0.0.1", port)) {
            Ok(stream) => return Ok(stream),
            Err(_) => sleep(Duration::from_millis(5)),
        }
    }
}

pub fn run(plan: &Plan, rank: usize) -> Outcome<(f64, f64)> {
    let mut band = Band::new(plan, rank);
    let listener = TcpListener::bind(("127.0.0.1", plan.port + u16::try_from(rank)?))?;
    let mut lower = match band.has_lower() {
        true => Some(connect_below(plan, rank)?),
        false => None,
    };
    let mut upper = match band.has_upper() {
        true => Some(listener.accept()?.0),
        false => None,
    };
    for stream in upper.iter().chain(&lower) {
        stream.set_nodelay(true)?;
    }
    let mut row = vec![0; plan.size * 8];
    let begun = Instant::now();
    for _ in 0..plan.steps {
        if let Some(upper) = &mut upper {
            upper.write_all(&band.first())?;
        }
        if let Some(lower) = &mut lower {
            lower.write_all(&band.last())?;
        }
        if let Some(upper) = &mut upper {
            upper.read_exact(&mut row)?;
            band.set_upper(&row);
        }
        if let Some(lower) = &mut lower {
            lower.read_exact(&mut row)?;
            band.set_lower(&row);
        }
        band.step();
    }
    Ok((band.heat(), begun.elapsed().as_secs_f64()))
}
