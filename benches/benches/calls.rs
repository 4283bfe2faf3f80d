//! Single calls as programs make them, through the preload library: what a hook costs, calls that find
//! their ring ready, an epoll set of many, waiting for another thread, upgrade and demotion.
//!
//! The bench starts itself again in each mode: on kernel TCP, on ulsock, and on ulsock without
//! spinning. Build the library first: `cargo build --release -p ulsock_preload`.

use std::fs::File;
use std::hint::black_box;
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::os::fd::AsRawFd;
use std::path::PathBuf;
use std::process::{Command, ExitCode};
use std::thread;
use std::time::{Duration, Instant};

use benches::epoll::Epoll;
use benches::pair::Pair;
use criterion::Criterion;

/// The mode that a child runs in.
const MODE: &str = "BENCHES_MODE";
const MODES: [(&str, &[(&str, &str)]); 3] = [
    ("kernel TCP", &[]),
    ("ulsock", &[("ULSOCK_UPGRADE_AFTER", "1")]),
    (
        "ulsock, not spinning",
        &[("ULSOCK_UPGRADE_AFTER", "1"), ("ULSOCK_SPIN_US", "0")],
    ),
];
const SIZE: usize = 64;
const MEMBERS: usize = 100;

fn main() -> ExitCode {
    match std::env::var(MODE) {
        Ok(mode) => bench(&mode),
        Err(_) if MODES.iter().all(|(mode, settings)| start(mode, settings)) => ExitCode::SUCCESS,
        Err(_) => ExitCode::FAILURE,
    }
}

/// Runs this bench again in a mode, with the same arguments.
fn start(mode: &str, settings: &[(&str, &str)]) -> bool {
    let itself = std::env::current_exe().expect("a program has a path");
    let mut command = Command::new(&itself);
    command.args(std::env::args_os().skip(1)).env(MODE, mode);
    if !settings.is_empty() {
        let built = itself
            .ancestors()
            .nth(2)
            .map(PathBuf::from)
            .unwrap_or_default();
        let library = built.join("libulsock_preload.so");
        assert!(
            library.exists(),
            "{library:?} is missing: cargo build --release -p ulsock_preload"
        );
        command
            .env("LD_PRELOAD", library)
            .envs(settings.iter().copied());
    }
    command.status().is_ok_and(|status| status.success())
}

fn bench(mode: &str) -> ExitCode {
    let mut criterion = Criterion::default()
        .measurement_time(Duration::from_secs(2))
        .warm_up_time(Duration::from_millis(300))
        .configure_from_args();
    let group = &mut criterion;
    match mode {
        "ulsock, not spinning" => round_trips(group, mode),
        _ => {
            hook(group, mode);
            ready(group, mode);
            many(group, mode);
            round_trips(group, mode);
            changes(group, mode);
        }
    }
    criterion.final_summary();
    ExitCode::SUCCESS
}

/// The connection of a bench, on the carrier that the mode is about.
fn pair(mode: &str) -> Pair {
    let pair = match mode {
        "kernel TCP" => TcpListener::bind("127.0.0.1:0")
            .map_err(Into::into)
            .and_then(|listener| Pair::connect(&listener)),
        _ => Pair::on_rings(),
    };
    pair.unwrap_or_else(|error| panic!("{mode}: {error}"))
}

/// A call that has nothing to do with sockets, by libc and past it.
fn hook(c: &mut Criterion, mode: &str) {
    let opened = File::options().write(true).open("/dev/null");
    let mut file = &opened.expect("/dev/null");
    let mut group = c.benchmark_group(format!("write to /dev/null, {mode}"));
    group.bench_function("by libc", |b| b.iter(|| file.write(black_box(&[7; SIZE]))));
    group.bench_function("by system call", |b| {
        b.iter(|| rustix::io::write(file, black_box(&[7; SIZE])))
    });
    group.finish();
}

/// Calls that need not wait, in one thread.
fn ready(c: &mut Criterion, mode: &str) {
    let mut pair = pair(mode);
    let set = pair.watched().expect("a set");
    let (mut from, mut to): (&TcpStream, &TcpStream) = (&pair.client, &pair.server);
    let mut bytes = [7; SIZE];
    let mut group = c.benchmark_group(format!("ready, {mode}"));
    group.bench_function("send + recv 64 B", |b| {
        b.iter(|| {
            from.write_all(black_box(&bytes)).expect("send");
            to.read_exact(black_box(&mut bytes)).expect("recv");
        })
    });
    from.write_all(&bytes).expect("send");
    let mut ready = Vec::new();
    group.bench_function("epoll_wait", |b| b.iter(|| set.wait(black_box(&mut ready))));
    let poll = libc::pollfd {
        fd: to.as_raw_fd(),
        events: libc::POLLIN,
        revents: 0,
    };
    group.bench_function("poll", |b| {
        b.iter(|| {
            let mut poll = poll;
            // SAFETY: one entry, which outlives the call.
            unsafe { libc::poll(black_box(&mut poll), 1, -1) }
        })
    });
    group.finish();
}

/// One of many members of an epoll set speaks.
fn many(c: &mut Criterion, mode: &str) {
    let pairs: Vec<Pair> = (0..MEMBERS).map(|_| pair(mode)).collect();
    let set = Epoll::new().expect("epoll");
    for pair in &pairs {
        set.add(pair.server.as_raw_fd()).expect("add");
    }
    let (mut bytes, mut ready, mut turn) = ([7; SIZE], Vec::new(), 0);
    c.bench_function(
        &format!("send + epoll_wait of {MEMBERS} + recv, {mode}"),
        |b| {
            b.iter(|| {
                turn = (turn + 1) % MEMBERS;
                let pair = &pairs[turn];
                (&pair.client).write_all(&bytes).expect("send");
                set.wait(&mut ready).expect("epoll_wait");
                assert_eq!(ready, [pair.server.as_raw_fd()]);
                (&pair.server).read_exact(&mut bytes).expect("recv");
            })
        },
    );
}

/// Two threads that wait for each other.
fn round_trips(c: &mut Criterion, mode: &str) {
    let pair = pair(mode);
    let mut echo = pair.server.try_clone().expect("dup");
    let answering = thread::spawn(move || {
        let mut bytes = [0; SIZE];
        while echo.read_exact(&mut bytes).is_ok() && echo.write_all(&bytes).is_ok() {}
    });
    let (mut socket, mut bytes) = (&pair.client, [7; SIZE]);
    c.bench_function(&format!("round trip between threads, {mode}"), |b| {
        b.iter(|| {
            socket.write_all(&bytes).expect("send");
            socket.read_exact(&mut bytes).expect("recv");
        })
    });
    socket
        .shutdown(std::net::Shutdown::Write)
        .expect("shutdown");
    answering.join().expect("the echo");
}

/// From connect to rings, and from rings back to the kernel; on kernel TCP, connect alone.
fn changes(c: &mut Criterion, mode: &str) {
    let listener = TcpListener::bind("127.0.0.1:0").expect("listen");
    let connect = || Pair::connect(&listener).expect("connect");
    let mut group = c.benchmark_group(format!("changes, {mode}"));
    group.sample_size(20);
    group.bench_function("connect + accept + close", |b| b.iter(connect));
    if mode == "ulsock" {
        group.bench_function("connect to rings", |b| {
            b.iter(|| connect().move_to_rings().expect("rings"))
        });
        group.bench_function("back to the kernel", |b| {
            b.iter_custom(|count| (0..count).map(|_| demotion(connect())).sum())
        });
    }
    group.finish();
}

/// A call that only the kernel can serve, and a round trip after it.
fn demotion(mut pair: Pair) -> Duration {
    pair.move_to_rings().expect("rings");
    let begun = Instant::now();
    let on: libc::c_int = 1;
    // SAFETY: the value is an int and outlives the call.
    let set = unsafe {
        libc::setsockopt(
            pair.client.as_raw_fd(),
            libc::SOL_SOCKET,
            libc::SO_TIMESTAMP,
            (&raw const on).cast(),
            size_of::<libc::c_int>() as libc::socklen_t,
        )
    };
    assert_eq!(set, 0);
    pair.round_trip().expect("on the kernel");
    begun.elapsed()
}
