//! 64 B there and back between two hosts, and a stream from one to the other: kernel TCP, the bare port,
//! and engines from ring to ring, over the same veth pair. Each end has a core of its own. Needs root.

use std::error::Error;
use std::hint::spin_loop;
use std::io::{ErrorKind, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use benches::Outcome;
use benches::engine::{EngineHost, PORT};
use benches::hosts::{Kind, World, ip, pin};
use clap::Parser;
use netstack::phy::Port;
use netstack::time;

/// Bytes of a message.
const SIZE: usize = 64;
/// Bytes that a program of a stream writes and reads at once.
const PIECE: usize = 8 << 10;

#[derive(Parser)]
#[command(version, about)]
struct Arguments {
    /// Round trips of each kind
    #[arg(long, default_value_t = 50_000)]
    trips: usize,
    /// Seconds of each stream
    #[arg(long, default_value = "1", value_parser = benches::seconds)]
    seconds: Duration,
    /// Only engines over XDP
    #[arg(long)]
    brief: bool,
}

type AnyPort = Box<dyn Port + Send>;

fn main() -> Outcome {
    let arguments = Arguments::parse();
    let world = match World::new() {
        Ok(world) => world,
        Err(why) => {
            println!("skipped: no two hosts here (root, ip and veth are needed): {why}");
            return Ok(());
        }
    };
    if thread::available_parallelism()?.get() < 2 {
        println!("skipped: each end wants a core of its own");
        return Ok(());
    }
    let trips = |name: &str, times| show(name, times);
    println!(
        "{:28} {:>7} {:>7} us",
        "64 B there and back", "50 %", "99 %"
    );
    // Before anything of ours is on the interfaces.
    if !arguments.brief {
        trips("kernel TCP", tcp_trips(&world, arguments.trips, false)?);
        trips(
            "kernel TCP, spinning",
            tcp_trips(&world, arguments.trips, true)?,
        );
    }
    let mut rates = Vec::new();
    if !arguments.brief {
        rates.push(("kernel TCP", tcp_stream(&world, arguments.seconds)?));
    }
    let kinds = [(Kind::Xdp, "xdp"), (Kind::Packet, "packet")];
    let kinds = kinds.into_iter().take(if arguments.brief { 1 } else { 2 });
    for (kind, name) in kinds {
        let mut ports = world.ports(kind)?;
        let (here, there) = (ports.place(1), ports.place(2));
        let [one, other] = &mut ports.ports;
        let bare = port_trips(one, other, arguments.trips)?;
        trips(&format!("{name}: the bare port"), bare);
        let [one, other] = ports.ports;
        let mut one = EngineHost::new(one, now(), here, there, true);
        let mut other = EngineHost::new(other, now(), there, here, false);
        let times = engine_trips(&mut one, &mut other, arguments.trips)?;
        trips(&format!("{name}: engines"), times);
        rates.push((
            name,
            engine_stream(&mut one, &mut other, arguments.seconds)?,
        ));
    }
    println!("\n{:28} {:>7}", "one stream", "MB/s");
    for (name, rate) in rates {
        println!("{name:28} {rate:7.0}");
    }
    Ok(())
}

/// Half of the round trips, and 99 of 100, are shorter.
fn show(name: &str, mut times: Vec<Duration>) {
    times.sort();
    let at = |part: usize| times[times.len() * part / 100].as_nanos() as f64 / 1000.0;
    println!("{name:28} {:7.2} {:7.2}", at(50), at(99));
}

/// Time as engines see it.
#[inline]
fn now() -> time::Instant {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::Monotonic);
    time::Instant::from_nanos(time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64)
}

/// Runs `serve` on the other core until `measure` is through.
fn beside<T>(
    serve: impl FnOnce(&AtomicBool) -> Outcome + Send,
    measure: impl FnOnce() -> Result<T, Box<dyn Error>>,
) -> Result<T, Box<dyn Error>> {
    let over = AtomicBool::new(false);
    thread::scope(|scope| {
        let served = scope.spawn(|| {
            let served = pin(1).map_err(Into::into).and_then(|()| serve(&over));
            served.map_err(|error| error.to_string())
        });
        pin(0)?;
        let measured = measure();
        over.store(true, Ordering::Relaxed);
        served.join().map_err(|_| "the other end panicked")??;
        measured
    })
}

fn times(count: usize, mut trip: impl FnMut() -> Outcome) -> Result<Vec<Duration>, Box<dyn Error>> {
    for _ in 0..count / 10 {
        trip()?;
    }
    (0..count)
        .map(|_| {
            let start = Instant::now();
            trip()?;
            Ok(start.elapsed())
        })
        .collect()
}

/// A connection of kernel TCP between the hosts.
fn connection(world: &World) -> Result<(TcpStream, TcpStream), Box<dyn Error>> {
    let listener = world.hosts[1].within(|| TcpListener::bind((ip(2), 0)))??;
    let address = listener.local_addr()?;
    let client = world.hosts[0].within(|| TcpStream::connect(address))??;
    let (server, _) = listener.accept()?;
    client.set_nodelay(true)?;
    server.set_nodelay(true)?;
    Ok((client, server))
}

/// Reads a whole message; `false` at the end.
fn read(mut stream: &TcpStream, into: &mut [u8]) -> std::io::Result<bool> {
    let mut done = 0;
    while done < into.len() {
        match stream.read(&mut into[done..]) {
            Ok(0) => return Ok(false),
            Ok(n) => done += n,
            Err(error) if error.kind() == ErrorKind::WouldBlock => spin_loop(),
            Err(error) => return Err(error),
        }
    }
    Ok(true)
}

fn tcp_trips(world: &World, count: usize, spin: bool) -> Result<Vec<Duration>, Box<dyn Error>> {
    let (client, server) = connection(world)?;
    client.set_nonblocking(spin)?;
    server.set_nonblocking(spin)?;
    let echo = |_: &AtomicBool| {
        let mut message = [0; SIZE];
        while read(&server, &mut message)? {
            (&server).write_all(&message)?;
        }
        Ok(())
    };
    beside(echo, move || {
        let mut message = [7; SIZE];
        times(count, || {
            (&client).write_all(&message)?;
            read(&client, &mut message)?
                .then_some(())
                .ok_or("the end".into())
        })
    })
}

/// MB/s.
fn tcp_stream(world: &World, time: Duration) -> Result<f64, Box<dyn Error>> {
    let (client, server) = connection(world)?;
    let send = |over: &AtomicBool| {
        // A reader that has stopped ends it.
        while !over.load(Ordering::Relaxed) && (&server).write_all(&[7; PIECE]).is_ok() {}
        Ok(())
    };
    let mut bytes = [0; PIECE];
    beside(send, move || rate(time, || Ok((&client).read(&mut bytes)?)))
}

/// MB/s of what `read` reads, after a while.
fn rate(
    time: Duration,
    mut read: impl FnMut() -> Result<usize, Box<dyn Error>>,
) -> Result<f64, Box<dyn Error>> {
    let warm = Instant::now();
    while warm.elapsed() < time / 5 {
        read()?;
    }
    let (start, mut bytes) = (Instant::now(), 0);
    while start.elapsed() < time {
        bytes += read()?;
    }
    Ok(bytes as f64 / start.elapsed().as_secs_f64() / 1e6)
}

/// A frame for the bare port, as long as one of the link with 64 B in it.
fn frame(from: u8, ports: [[u8; 6]; 2]) -> Vec<u8> {
    use netstack::wire::frame::{Ecn, Offload, Route};
    let addresses = netstack::wire::Addresses {
        source: (ip(from), PORT).into(),
        destination: (ip(3 - from), PORT).into(),
    };
    let [here, there] = ports;
    let route = Route::new(here, there, &addresses).expect("one family");
    let mut frame = vec![0; route.overhead() + 52 + SIZE];
    let length = frame.len() - route.overhead();
    route.emit(&mut frame, Ecn::Capable, length, Offload::default());
    frame
}

fn post(port: &mut AnyPort, frame: &[u8]) -> Outcome {
    port.slot().ok_or("no room")?[..frame.len()].copy_from_slice(frame);
    port.commit(frame.len());
    port.flush(now())
        .map_err(|trouble| format!("{trouble:?}").into())
}

fn port_trips(
    one: &mut AnyPort,
    other: &mut AnyPort,
    count: usize,
) -> Result<Vec<Duration>, Box<dyn Error>> {
    let (here, there) = (one.capabilities().address, other.capabilities().address);
    let (there_frame, back) = (frame(1, [here, there]), frame(2, [there, here]));
    let echo = |over: &AtomicBool| {
        while !over.load(Ordering::Relaxed) {
            if other.receive(now()).is_some() {
                post(other, &back)?;
            }
        }
        Ok(())
    };
    beside(echo, || {
        times(count, || {
            post(one, &there_frame)?;
            while one.receive(now()).is_none() {}
            Ok(())
        })
    })
}

/// Polls until a whole message has come; `false` if all is over.
#[inline]
fn await_message(
    host: &mut EngineHost<AnyPort>,
    message: &mut [u8; SIZE],
    over: &AtomicBool,
) -> bool {
    let mut done = 0;
    while done < SIZE {
        if over.load(Ordering::Relaxed) {
            return false;
        }
        host.poll(now());
        done += host.read(&mut message[done..]);
    }
    true
}

fn engine_trips(
    one: &mut EngineHost<AnyPort>,
    other: &mut EngineHost<AnyPort>,
    count: usize,
) -> Result<Vec<Duration>, Box<dyn Error>> {
    let before = (one.counters().clone(), other.counters().clone());
    let echo = |over: &AtomicBool| {
        let mut message = [0; SIZE];
        while await_message(other, &mut message, over) {
            other.write(&message).then_some(()).ok_or("no room")?;
            other.poll(now());
        }
        Ok(())
    };
    let never = AtomicBool::new(false);
    let times = beside(echo, || {
        let mut message = [7; SIZE];
        times(count, || {
            one.write(&message).then_some(()).ok_or("no room")?;
            one.poll(now());
            await_message(one, &mut message, &never);
            Ok(())
        })
    })?;
    let all = (count + count / 10) as f64;
    let frames = |now: &firmware::Counters, before: &firmware::Counters| {
        (now.frames_sent - before.frames_sent) as f64 / all
    };
    let polls = (one.counters().polls - before.0.polls) as f64 / all;
    println!(
        "  frames a round trip: {:.2} there, {:.2} back; {polls:.0} polls",
        frames(one.counters(), &before.0),
        frames(other.counters(), &before.1),
    );
    Ok(times)
}

/// MB/s.
fn engine_stream(
    one: &mut EngineHost<AnyPort>,
    other: &mut EngineHost<AnyPort>,
    time: Duration,
) -> Result<f64, Box<dyn Error>> {
    let send = |over: &AtomicBool| {
        while !over.load(Ordering::Relaxed) {
            other.write(&[7; PIECE]);
            other.poll(now());
        }
        Ok(())
    };
    let mut bytes = [0; PIECE];
    beside(send, || {
        rate(time, || {
            one.poll(now());
            Ok(one.read(&mut bytes))
        })
    })
}
