//! Messages of a program that is written for ulsock: round trips, or one way at full speed. It stands beside `pingpong`
//! and `stream`, which do the same with sockets.
#![forbid(unsafe_code)]

use std::cell::{Cell, RefCell};
use std::error::Error;
use std::rc::Rc;
use std::time::{Duration, Instant};

use benches::meter::{CLOCK_EVERY, Count, Line, Meter};
use benches::trips::Trips;
use benches::{Load, Outcome};
use clap::{Parser, Subcommand, ValueEnum};
use native::message::{Endpoint, Incoming, MessageError, Peer};
use native::run::{Loop, block_on};

const ECHO: u16 = 1;
const ANSWER: u16 = 2;
/// Warm-up and measurement in nanoseconds: what comes then is counted.
const METER: u16 = 3;
const STREAM: u16 = 4;
const COUNT: u16 = 5;

/// The receiver checks the number that opens every so many'th message.
const CHECK_EVERY: u64 = 64;
const ROOM: usize = 64 << 10;

#[derive(Parser)]
#[command(version)]
struct Cli {
    #[command(subcommand)]
    role: Role,
}

#[derive(Subcommand)]
enum Role {
    /// Serve until the client has gone, then exit; the port is printed on stdout
    Server {
        /// HOST:PORT; port 0 lets the system choose
        address: String,
    },
    /// Connect to a server, measure, print one line of JSON
    Client {
        #[command(flatten)]
        load: Load,
        /// What is done with messages
        #[arg(long, value_enum, default_value = "trips")]
        kind: Kind,
    },
}

#[derive(Clone, Copy, ValueEnum)]
enum Kind {
    Trips,
    Stream,
}

fn main() -> Outcome {
    match Cli::parse().role {
        Role::Server { address } => serve(&address),
        Role::Client { load, kind } => match kind {
            Kind::Trips => trips(&load),
            Kind::Stream => stream(&load),
        },
    }
}

fn serve(address: &str) -> Outcome {
    let endpoint = Endpoint::bind(address)?;
    let at = endpoint.local_addr().ok_or("no address")?;
    println!("{}", at.port());
    endpoint.handle(ECHO, echo);
    let counter = Rc::new(Counter::default());
    let begun = counter.clone();
    endpoint.handle(METER, move |message| begun.clone().begin(message));
    endpoint.handle(STREAM, move |message| counter.clone().take(message));
    // A client can have come and gone while one turn is extracted.
    let client = Rc::new(RefCell::new(None));
    let came = client.clone();
    endpoint.on_arrival(move |peer| drop(came.replace(Some(peer))));
    block_on(async {
        let client = loop {
            match client.take() {
                Some(peer) => break peer,
                None => endpoint.extract(usize::MAX).await?,
            };
        };
        drop(native::run::spawn(async move { endpoint.serve().await }));
        client.gone().await;
        Ok(())
    })?
}

async fn echo(mut message: Incoming) -> Result<(), MessageError> {
    let mut room = [0; 1024];
    let mut answer = message.peer().begin(ANSWER)?;
    loop {
        match message.read(&mut room).await? {
            0 => return answer.end().await,
            n => answer.piece(&room[..n]).await?,
        }
    }
}

/// Counts a stream of messages at its receiver.
#[derive(Default)]
struct Counter {
    meter: RefCell<Option<Meter>>,
    messages: Cell<u64>,
    /// For one message after the other.
    room: RefCell<Vec<u8>>,
}

impl Counter {
    async fn begin(self: Rc<Self>, mut message: Incoming) -> Result<(), MessageError> {
        let mut words = [0; 16];
        message.read_exact(&mut words).await?;
        let [warm_up, length] = [0, 8].map(|at| {
            let word = words[at..].first_chunk().copied().unwrap_or_default();
            Duration::from_nanos(u64::from_le_bytes(word))
        });
        *self.meter.borrow_mut() = Some(Meter::new(warm_up, length));
        Ok(())
    }

    async fn take(self: Rc<Self>, mut message: Incoming) -> Result<(), MessageError> {
        let mut room = self.room.take();
        room.resize(ROOM, 0);
        let number = self.messages.replace(self.messages.get() + 1);
        let mut length = message.read_up_to(&mut room).await?;
        if number.is_multiple_of(CHECK_EVERY) {
            let stamp = length.min(8);
            let expected = &number.to_le_bytes()[..stamp];
            assert_eq!(&room[..stamp], expected, "a message out of order");
        }
        while length >= ROOM {
            match message.read(&mut room).await? {
                0 => break,
                n => length += n,
            }
        }
        self.room.replace(room);
        let counted = self
            .meter
            .borrow_mut()
            .as_mut()
            .and_then(|meter| meter.add(length as u64));
        match counted {
            Some(count) => {
                let text = serde_json::to_vec(&count).expect("two numbers");
                message.peer().send(COUNT, &text).await
            }
            None => Ok(()),
        }
    }
}

fn connect(run: &mut Loop, endpoint: &Endpoint, load: &Load) -> Result<Peer, Box<dyn Error>> {
    Ok(run.block_on(endpoint.connect(load.address.parse()?))?)
}

fn trips(load: &Load) -> Outcome {
    let (mut run, endpoint) = (Loop::new()?, Endpoint::new());
    let answers = Rc::new(Cell::new(0));
    let seen = answers.clone();
    endpoint.handle(ANSWER, move |mut message: Incoming| {
        let seen = seen.clone();
        async move {
            let mut room = [0; 1024];
            while message.read(&mut room).await? > 0 {}
            seen.set(seen.get() + 1);
            Ok(())
        }
    });
    let peer = connect(&mut run, &endpoint, load)?;
    let bytes = vec![0x5a; usize::try_from(load.size)?];
    let mut trips = Trips::new()?;
    let mut asked = 0;
    let trip = async || {
        asked += 1;
        peer.send(ECHO, &bytes).await?;
        while answers.get() < asked {
            endpoint.extract(usize::MAX).await?;
        }
        Ok(())
    };
    run.block_on(trips.measure_tasks(load.warm_up, load.seconds, trip))?;
    trips.print()
}

fn stream(load: &Load) -> Outcome {
    let (mut run, endpoint) = (Loop::new()?, Endpoint::new());
    let reply = Rc::new(RefCell::new(Vec::new()));
    let told = reply.clone();
    endpoint.handle(COUNT, move |mut message: Incoming| {
        let told = told.clone();
        async move {
            let text = message.read_rest(1024).await?;
            told.replace(text);
            Ok(())
        }
    });
    let peer = connect(&mut run, &endpoint, load)?;
    let mut bytes = vec![0x5a; usize::try_from(load.size)?];
    let (stamp, start, mut number) = (bytes.len().min(8), Instant::now(), 0_u64);
    let messages_per_look = (CLOCK_EVERY / load.size).max(1);
    run.block_on(async {
        let mut times = peer.begin(METER)?;
        for time in [load.warm_up, load.seconds] {
            times.piece(&(time.as_nanos() as u64).to_le_bytes()).await?;
        }
        times.end().await?;
        while reply.borrow().is_empty() {
            for _ in 0..messages_per_look {
                bytes[..stamp].copy_from_slice(&number.to_le_bytes()[..stamp]);
                peer.send(STREAM, &bytes).await?;
                number += 1;
            }
            if start.elapsed() >= load.warm_up + load.seconds {
                endpoint.extract_now(usize::MAX)?;
            }
        }
        Ok::<(), MessageError>(())
    })?;
    let count: Count = serde_json::from_slice(&reply.take())?;
    let line = Line::new(&count, load.size, number);
    println!("{}", serde_json::to_string(&line)?);
    Ok(())
}
