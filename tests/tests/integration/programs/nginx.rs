//! nginx, which forks workers that run under another uid, with wrk, ab and curl; its reload and its
//! change of binaries under load, and TLS.

use std::fs;
use std::path::Path;

use tests::ends::{Ends, Side};
use tests::place::{Place, Rings};
use tests::program::{Program, Running};
use tests::{ports, procfs, wait};

use crate::{pattern_file, same_content};

/// Bytes of the file `small`.
pub const SMALL_FILE: usize = 612;
const BIG_FILE: usize = 100_000_000;

/// A running nginx in a place of its own.
pub struct Nginx {
    /// Where it listens.
    pub port: u16,
    server: Running,
    /// Its corner of the machine.
    pub place: Place,
}

impl Nginx {
    /// With the small file, in a place of its own.
    pub fn start(ends: Ends, workers: usize) -> Self {
        Self::start_in(Place::new(ends).eager(), Side::Server, workers)
    }

    /// Starts it on one side of `place`.
    pub fn start_in(place: Place, side: Side, workers: usize) -> Self {
        Self::start_with(place, side, workers, "")
    }

    /// The same with more in its configuration's block `http`.
    pub fn start_with(place: Place, side: Side, workers: usize, more: &str) -> Self {
        let port = prepare(&place, workers, more);
        let server = program(&place, side).arg("-g").arg("daemon off;");
        let server = server.start().listening(port);
        Self {
            place,
            port,
            server,
        }
    }

    fn url(&self, file: &str) -> String {
        format!("http://127.0.0.1:{}/{file}", self.port)
    }

    /// Curl with `options`, in the work folder.
    fn curl(&self, options: &str) -> String {
        let curl = self.place.client("curl").args("-sS --fail");
        curl.args(options).directory(self.place.folder()).run()
    }

    /// Puts the file `big` beside the small one.
    pub fn add_big_file(&self) {
        pattern_file(&self.place.folder().join("www/big"), BIG_FILE);
    }

    /// Its master process.
    pub fn pid(&self) -> u32 {
        self.server.pid()
    }

    /// Ends it after its last request; gives the place back for the check.
    pub fn stop(self) -> Place {
        let finished = self.server.stop(libc::SIGQUIT);
        assert!(finished.status.success(), "nginx: {}", finished.status);
        self.place
    }
}

/// Writes what nginx needs into the work folder; gives the port.
fn prepare(place: &Place, workers: usize, more: &str) -> u16 {
    let port = ports::free();
    let folder = place.folder();
    fs::create_dir(folder.join("www")).expect("www");
    pattern_file(&folder.join("www/small"), SMALL_FILE);
    fs::write(
        folder.join("nginx.conf"),
        config(folder, port, workers, more),
    )
    .expect("config");
    port
}

fn program(place: &Place, side: Side) -> Program {
    let folder = place.folder();
    place
        .program(side, "/usr/sbin/nginx")
        .args("-e stderr -p")
        .arg(folder)
        .arg("-c")
        .arg(folder.join("nginx.conf"))
}

/// nginx gives its workers only the variables that its configuration names.
pub const ENVIRONMENT: &str =
    "env LD_PRELOAD; env ULSOCK_RUN_DIR; env ULSOCK_REPORT; env ULSOCK_UPGRADE_AFTER;
     env ULSOCK_CHAOS;";

fn config(folder: &Path, port: u16, workers: usize, more: &str) -> String {
    let folder = folder.display();
    format!(
        "{ENVIRONMENT} user www-data; worker_processes {workers}; pid {folder}/nginx.pid;
         error_log {folder}/nginx-error.err; events {{ worker_connections 512; }}
         http {{
             access_log off; sendfile on; tcp_nopush on; keepalive_requests 1000000;
             client_body_temp_path {folder}/body; proxy_temp_path {folder}/proxy;
             fastcgi_temp_path {folder}/fastcgi; uwsgi_temp_path {folder}/uwsgi;
             scgi_temp_path {folder}/scgi;
             server {{ listen 127.0.0.1:{port}; root {folder}/www; }}
             {more}
         }}"
    )
}

#[test]
fn wrk() {
    for &ends in Ends::all() {
        let nginx = Nginx::start(ends, 2);
        load_by_wrk(&nginx);
        nginx.stop().check(Rings::Most);
    }
}

/// wrk takes a readable socket without anything to read for an error.
#[test]
fn wrk_while_carriers_change() {
    let place = Place::new(Ends::both()).eager().with("ULSOCK_CHAOS", 100);
    let nginx = Nginx::start_in(place, Side::Server, 2);
    load_by_wrk(&nginx);
    nginx.stop().check(Rings::Some);
}

fn load_by_wrk(nginx: &Nginx) {
    let wrk = nginx.place.client("wrk").args("-t2 -c20 -d2s");
    let output = wrk.arg(nginx.url("small")).run();
    assert!(output.contains("Requests/sec"), "{output}");
    for trouble in ["Non-2xx", "Socket errors"] {
        assert!(!output.contains(trouble), "{output}");
    }
}

#[test]
fn ab_keepalive() {
    const REQUESTS: usize = 5000;
    for &ends in Ends::all() {
        let nginx = Nginx::start(ends, 1);
        let options = format!("-q -k -c 10 -n {REQUESTS}");
        let output = nginx
            .place
            .client("ab")
            .args(&options)
            .arg(nginx.url("small"))
            .run();
        for (what, count) in [
            ("Complete requests:", REQUESTS),
            ("Failed requests:", 0),
            ("Keep-Alive requests:", REQUESTS),
            ("HTML transferred:", REQUESTS * SMALL_FILE),
        ] {
            let line = output.lines().find(|line| line.starts_with(what));
            let number = line.and_then(|line| line[what.len()..].split_whitespace().next());
            assert_eq!(
                number,
                Some(count.to_string().as_str()),
                "{what} in {output}"
            );
        }
        nginx.stop().check(Rings::Most);
    }
}

#[test]
fn curl_big_file_by_sendfile() {
    for &ends in Ends::all() {
        let nginx = Nginx::start(ends, 1);
        nginx.add_big_file();
        nginx.curl(&format!("-o copy {}", nginx.url("big")));
        let folder = nginx.place.folder();
        same_content(&folder.join("www/big"), &folder.join("copy"));
        nginx.stop().check(Rings::Most);
    }
}

#[test]
fn curl_keepalive() {
    for &ends in Ends::all() {
        let nginx = Nginx::start(ends, 2);
        nginx.add_big_file();
        let pair = format!("{} {} ", nginx.url("small"), nginx.url("big"));
        let outputs = "-o copy0 -o copy1 -o copy2 -o copy3 -o copy4 -o copy5";
        let connects = nginx.curl(&format!(
            "-w %{{num_connects}} {outputs} {}",
            pair.repeat(3)
        ));
        assert_eq!(connects, "100000", "new connections per request");
        let folder = nginx.place.folder();
        for (number, file) in ["small", "big"].iter().cycle().take(6).enumerate() {
            let copy = folder.join(format!("copy{number}"));
            same_content(&folder.join("www").join(file), &copy);
        }
        nginx.stop().check(Rings::Most);
    }
}

/// Every request is answered while the configuration is loaded again and again: the workers that
/// are replaced close their kept connections, the listening socket goes on.
#[test]
fn reload_under_load() {
    const RELOADS: usize = 4;
    for &ends in Ends::all() {
        let nginx = Nginx::start(ends, 2);
        let mut load = Load::start(&nginx.place, nginx.port);
        for _ in 0..RELOADS {
            load.goes_on();
            let old = procfs::children(nginx.pid());
            nginx.server.signal(libc::SIGHUP);
            wait::until("all workers are new", || {
                let workers = procfs::children(nginx.pid());
                !workers.is_empty() && !workers.iter().any(|worker| old.contains(worker))
            });
        }
        load.goes_on();
        load.stop(RELOADS);
        nginx.stop().check(Rings::Some);
    }
}

/// The new binary inherits the listening sockets across exec; both serve, then the old one ends.
#[test]
fn new_binary_under_load() {
    for &ends in Ends::all() {
        let place = Place::new(ends).eager();
        let port = prepare(&place, 2, "");
        // Kept until the daemon has a session of its own: its group is killed when it is dropped.
        let starter = program(&place, Side::Server).start();
        let master = Master::after(0, &place);
        wait::until("it has workers", || !master.children().is_empty());
        starter.succeed();
        let mut load = Load::start(&place, port);
        load.goes_on();
        master.signal(libc::SIGUSR2);
        let heir = Master::after(master.0, &place);
        wait::until("the heir has workers", || !heir.children().is_empty());
        load.goes_on();
        master.signal(libc::SIGWINCH);
        // The heir is its child.
        wait::until("its workers have ended", || {
            master.children() == [heir.0 as u32]
        });
        load.goes_on();
        master.end();
        load.goes_on();
        load.stop(1);
        heir.end();
        place.check(Rings::Some);
        if ends == Ends::Both {
            let (server, lines) = place.report(Side::Server);
            assert!(
                lines >= 2 && server.upgraded > 8,
                "both binaries upgrade: {server:?}"
            );
        }
    }
}

/// The careful client at work.
pub struct Load(Running);

impl Load {
    const KEPT: usize = 4;

    /// Kept and fresh connections to `port`.
    pub fn start(place: &Place, port: u16) -> Self {
        let load = place.own(Side::Client, "http_load").piped();
        let keep = Self::KEPT;
        let options = format!("port={port} file=small bytes={SMALL_FILE} keep={keep} fresh=4");
        Self(load.args(&options).start())
    }

    /// Its process.
    pub fn pid(&self) -> u32 {
        self.0.pid()
    }

    /// Waits until it has had some hundreds of answers more.
    pub fn goes_on(&mut self) {
        const MORE: usize = 400;
        let before = answered(&self.0.output());
        self.0.until("it has more answers", |load| {
            answered(&load.output()) >= before + MORE
        });
    }

    /// Ends it: all requests must have been answered, and only kept connections that a reload closed
    /// may have cost a second try.
    pub fn stop(self, reloads: usize) {
        let output = self.0.succeed();
        let total = output.lines().last().unwrap_or_default();
        let numbers: Vec<usize> = total
            .split_whitespace()
            .filter_map(|word| word.parse().ok())
            .collect();
        let [answered, again] = numbers[..] else {
            panic!("http_load: {output}");
        };
        assert!(answered > 200, "{output}");
        assert!(again <= Self::KEPT * reloads, "{output}");
    }
}

/// The answers that http_load has had so far, as it says.
pub fn answered(output: &str) -> usize {
    let counts = output
        .lines()
        .filter_map(|line| line.strip_suffix(" answered")?.parse().ok());
    counts.max().unwrap_or(0)
}

/// A master process that has become a daemon: no child of ours, and killed with its workers unless
/// it has been ended.
struct Master(i32);

impl Master {
    /// The one in the pid file, as soon as it is another than `old`.
    fn after(old: i32, place: &Place) -> Self {
        Self(wait::until_some("there is a new master", || {
            let text = fs::read_to_string(place.folder().join("nginx.pid")).ok()?;
            text.trim().parse().ok().filter(|&pid| pid != old)
        }))
    }

    fn signal(&self, signal: i32) {
        // SAFETY: plain integers; the daemon lives until this test ends it.
        unsafe { libc::kill(self.0, signal) };
    }

    fn children(&self) -> Vec<u32> {
        procfs::children(self.0 as u32)
    }

    fn end(self) {
        self.signal(libc::SIGQUIT);
        wait::until("the master has ended", || procfs::is_gone(self.0 as u32));
    }
}

impl Drop for Master {
    fn drop(&mut self) {
        if procfs::is_gone(self.0 as u32) {
            return;
        }
        for pid in procfs::children(self.0 as u32) {
            Self(pid as i32).signal(libc::SIGKILL);
        }
        self.signal(libc::SIGKILL);
    }
}
