//! Names of native programs: `names ROLE service=S [instance=N] [low=N] [high=N] [port=P] [host=A]`.
//!
//! `hold` registers a name and keeps it until stdin ends; it prints `held`, or `taken PID`. `race` does the same as soon as the
//! file `go=` exists. `churn` registers and withdraws the name, and others, until it is killed. `watch` (with `how=tasks` as a
//! task) prints a line for each event: `+` or `-`, instance, pid, port, host, and the time in nanoseconds; `find` and `range`
//! print the same of places. `call` sends a line to the instance and prints what comes back; `echo` registers a name and
//! answers.

use std::io::{self, Read, Write};
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::PathBuf;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use native::names::{Event, NameError, Names, Place, Registration, Subscription};
use native::{TcpListener, TcpStream, run};
use tests::args::Args;

fn main() {
    let args = Args::from_env();
    let names = Names::open().expect("names");
    match args.role() {
        "hold" => hold(&args, &names),
        "race" => {
            let go: PathBuf = args.get("go");
            while !go.exists() {
                std::thread::yield_now();
            }
            hold(&args, &names);
        }
        "churn" => churn(&args, &names),
        "watch" => watch(&args, &names),
        "find" => match names.find(&service(&args), args.get("instance")) {
            Ok(place) => print("", &place),
            Err(error) => println!("{error}"),
        },
        "range" => {
            for place in range(&args, &names) {
                print("", &place);
            }
        }
        "echo" => echo(&args, &names).expect("an echo"),
        "call" => call(&args, &names).expect("a call"),
        other => panic!("role {other}"),
    }
}

fn service(args: &Args) -> String {
    args.get("service")
}

fn address(args: &Args) -> SocketAddr {
    let host = args.get_or("host", IpAddr::from(Ipv4Addr::LOCALHOST));
    SocketAddr::new(host, args.get_or("port", 7))
}

fn range(args: &Args, names: &Names) -> Vec<Place> {
    let instances = args.get_or("low", 0)..=args.get_or("high", u32::MAX);
    names.range(&service(args), instances).expect("a range")
}

fn register(args: &Args, names: &Names, address: SocketAddr) -> Result<Registration, NameError> {
    names.register(&service(args), args.get("instance"), address)
}

fn hold(args: &Args, names: &Names) {
    match register(args, names, address(args)) {
        Ok(_registration) => {
            println!("held");
            io::stdin().read_to_end(&mut Vec::new()).expect("stdin");
        }
        Err(NameError::Taken { pid }) => println!("taken {pid}"),
        Err(error) => panic!("{error}"),
    }
}

fn churn(args: &Args, names: &Names) {
    let first: u32 = args.get("instance");
    loop {
        for instance in first..first + 3 {
            let registered = names.register(&service(args), instance, address(args));
            match registered {
                Ok(_) | Err(NameError::Taken { .. }) => {}
                Err(error) => panic!("{error}"),
            }
        }
    }
}

fn watch(args: &Args, names: &Names) {
    let instances = args.get_or("low", 0)..=args.get_or("high", u32::MAX);
    let mut events = names.subscribe(&service(args), instances);
    let events = events.as_mut().expect("a subscription");
    println!("watches");
    if args.get_or("how", String::new()) == "tasks" {
        run::block_on(watch_as_task(events)).expect("a run loop");
    }
    for event in events {
        tell(&event.expect("an event"));
    }
}

async fn watch_as_task(events: &mut Subscription) {
    loop {
        tell(&events.event().await.expect("an event"));
    }
}

fn tell(event: &Event) {
    match event {
        Event::Appeared(place) => print("+ ", place),
        Event::Disappeared(place) => print("- ", place),
    }
}

fn print(sign: &str, place: &Place) {
    let now = SystemTime::now().duration_since(UNIX_EPOCH);
    let now = now.unwrap_or(Duration::ZERO).as_nanos();
    let host = place
        .host
        .map_or("here".to_owned(), |host| host.to_string());
    let Place {
        instance,
        pid,
        address,
        ..
    } = place;
    println!("{sign}{instance} {pid} {address} {host} {now}");
}

fn echo(args: &Args, names: &Names) -> io::Result<()> {
    let listener = TcpListener::bind(address(args))?;
    let _registration = register(args, names, listener.local_addr()?)?;
    println!("held");
    loop {
        let (mut stream, _) = listener.accept()?;
        let mut line = [0; 64];
        let n = stream.read(&mut line)?;
        stream.write_all(&line[..n])?;
    }
}

fn call(args: &Args, names: &Names) -> io::Result<()> {
    let place = names.find(&service(args), args.get("instance"))?;
    let mut stream = TcpStream::connect(place.address)?;
    stream.write_all(b"by name")?;
    let mut answer = [0; 7];
    stream.read_exact(&mut answer)?;
    assert_eq!(&answer, b"by name");
    print("", &place);
    Ok(())
}
