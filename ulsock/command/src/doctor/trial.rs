//! The doctor's self-test: this very command as a server and as a client, with and without the library.
//! The bytes that come back must be those that were sent, and both ends must report an upgrade.

use std::ffi::OsStr;
use std::fs;
use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitCode, Stdio};
use std::time::{Duration, Instant};

use clap::Args;

use crate::compare::usage::Usage;
use crate::failure::{Failure, Outcome};
use crate::preload;

pub const SUBCOMMAND: &str = "doctor-end";

const MESSAGE: usize = 64;
/// Until the connection is on rings, and a while longer.
const WARM_UP: u64 = 200;
const MEASURED: Duration = Duration::from_millis(200);
/// Sent at once, and back: more than the smallest ring has room for.
const BULK: usize = 64 << 10;
/// An end that takes longer hangs.
const END_TIMEOUT: Duration = Duration::from_secs(10);
/// They choose connections, or put the upgrade off: the test is of what comes after.
const CHOICES: [&str; 3] = ["ULSOCK_CLUSTER", "ULSOCK_EXCLUDE", "ULSOCK_UPGRADE_AFTER"];

/// What the test found.
pub struct Trial {
    /// The median round trip.
    pub us: f64,
    bytes: u64,
    /// Whether both ends reported an upgrade.
    upgraded: bool,
}

impl Trial {
    pub fn text(&self) -> String {
        let rings = match self.upgraded {
            true => ", both ends left kernel TCP",
            false => "",
        };
        let (us, bytes) = (self.us, self.bytes);
        format!("{us:.2} us, {bytes} bytes came back exact{rings}")
    }
}

pub fn on_kernel() -> Result<Trial, String> {
    run(|command| {
        let others = preload::without_library(std::env::var_os("LD_PRELOAD"));
        command
            .env("LD_PRELOAD", others)
            .env_remove("ULSOCK_REPORT");
    })
}

pub fn on_ulsock(preloaded: &OsStr) -> Result<Trial, String> {
    let report = ReportFile::create().map_err(|error| format!("no temporary file: {error}"))?;
    let trial = run(|command| {
        command
            .env("LD_PRELOAD", preloaded)
            .env("ULSOCK_REPORT", &report.0);
        for variable in CHOICES {
            command.env_remove(variable);
        }
    })?;
    report.check()?;
    Ok(Trial {
        upgraded: true,
        ..trial
    })
}

/// Both ends, each in an environment of `prepare`'s.
fn run(prepare: impl Fn(&mut Command)) -> Result<Trial, String> {
    let start = |arguments: &[String]| -> io::Result<Running> {
        let mut command = Command::new(std::env::current_exe()?);
        command
            .arg(SUBCOMMAND)
            .args(arguments)
            .stdin(Stdio::null())
            .stdout(Stdio::piped());
        prepare(&mut command);
        command.spawn().map(Running)
    };
    let at = |end: &'static str| move |error: io::Error| format!("the {end} failed: {error}");
    let mut server = start(&[]).map_err(at("server"))?;
    let port = server.line().map_err(at("server"))?;
    let mut client = start(&[port]).map_err(at("client"))?;
    let said = client.line().map_err(at("client"))?;
    client.end().map_err(at("client"))?;
    server.end().map_err(at("server"))?;
    let mut words = said.split_whitespace();
    let (us, bytes) = (words.next(), words.next());
    let us = us.and_then(|word| word.parse().ok());
    let bytes = bytes.and_then(|word| word.parse().ok());
    match (us, bytes) {
        (Some(us), Some(bytes)) => Ok(Trial {
            us,
            bytes,
            upgraded: false,
        }),
        _ => Err(format!("the client said {said:?}")),
    }
}

/// A process that does not outlive us.
struct Running(Child);

impl Running {
    fn line(&mut self) -> io::Result<String> {
        let mut line = String::new();
        if let Some(output) = self.0.stdout.as_mut() {
            BufReader::new(output).read_line(&mut line)?;
        }
        match line.trim_end() {
            "" => Err(io::Error::other("it ended early")),
            line => Ok(line.to_owned()),
        }
    }

    fn end(mut self) -> io::Result<()> {
        match self.0.wait()?.success() {
            true => Ok(()),
            false => Err(io::Error::other("it ended badly")),
        }
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        // It has ended already, or must.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Where the two processes report to.
struct ReportFile(PathBuf);

impl ReportFile {
    fn create() -> io::Result<ReportFile> {
        let path = std::env::temp_dir().join(format!("ulsock-doctor-{}", std::process::id()));
        fs::File::create_new(&path)?;
        Ok(ReportFile(path))
    }

    /// Have both ends left kernel TCP?
    fn check(&self) -> Result<(), String> {
        let reports = reports(&self.0);
        if reports.is_empty() {
            return Err(
                "the library did not report: it is not loaded, or off in the processes; \
                        a line above may say why"
                    .to_owned(),
            );
        }
        let stayed = reports.iter().find(|usage| usage.upgraded == 0);
        match (stayed, reports.len()) {
            (Some(usage), _) => Err(format!(
                "the connection stayed on kernel TCP ({}): see \"Why is my connection on kernel \
                 TCP?\" in the manual",
                usage.reason_text()
            )),
            (None, 1) => Err("only one of the two processes reported".to_owned()),
            _ => Ok(()),
        }
    }
}

fn reports(path: &Path) -> Vec<Usage> {
    let text = fs::read_to_string(path).unwrap_or_default();
    let lines = text.lines();
    lines
        .filter_map(|line| serde_json::from_str(line).ok())
        .collect()
}

impl Drop for ReportFile {
    fn drop(&mut self) {
        let _ = fs::remove_file(&self.0);
    }
}

/// One of the two processes: a server, or with a port its client.
#[derive(Args)]
pub struct TrialEnd {
    port: Option<u16>,
}

pub fn end(end: &TrialEnd) -> Outcome {
    let done = match end.port {
        None => serve(),
        Some(port) => ask(port),
    };
    done.map(|()| ExitCode::SUCCESS)
        .map_err(|error| Failure::work(format!("self-test: {error}")))
}

fn patient(socket: &TcpStream) -> io::Result<()> {
    socket.set_nodelay(true)?;
    socket.set_read_timeout(Some(END_TIMEOUT))?;
    socket.set_write_timeout(Some(END_TIMEOUT))
}

fn serve() -> io::Result<()> {
    let listener = TcpListener::bind("127.0.0.1:0")?;
    println!("{}", listener.local_addr()?.port());
    let (mut socket, _) = listener.accept()?;
    patient(&socket)?;
    let mut buffer = vec![0; BULK];
    loop {
        match socket.read(&mut buffer)? {
            0 => return Ok(()),
            length => socket.write_all(&buffer[..length])?,
        }
    }
}

fn ask(port: u16) -> io::Result<()> {
    let mut socket = TcpStream::connect(("127.0.0.1", port))?;
    patient(&socket)?;
    let mut echo = Echo::default();
    for _ in 0..WARM_UP {
        echo.round_trip(&mut socket, MESSAGE)?;
    }
    let (start, mut trips) = (Instant::now(), Vec::new());
    while start.elapsed() < MEASURED {
        let began = Instant::now();
        echo.round_trip(&mut socket, MESSAGE)?;
        trips.push(began.elapsed());
    }
    trips.sort();
    let median = trips[trips.len() / 2].as_secs_f64() * 1e6;
    echo.round_trip(&mut socket, BULK)?;
    println!("{median} {}", echo.bytes);
    Ok(())
}

/// What was sent so far, and came back.
#[derive(Default)]
struct Echo {
    bytes: u64,
}

impl Echo {
    fn round_trip(&mut self, socket: &mut TcpStream, length: usize) -> io::Result<()> {
        // Bytes that are elsewhere in the stream are other ones: 251 is prime.
        let sent: Vec<u8> = (self.bytes..)
            .take(length)
            .map(|n| (n % 251) as u8)
            .collect();
        let mut came = vec![0; length];
        socket.write_all(&sent)?;
        socket.read_exact(&mut came)?;
        self.bytes += length as u64;
        match sent == came {
            true => Ok(()),
            false => Err(io::Error::other("other bytes came back")),
        }
    }
}
