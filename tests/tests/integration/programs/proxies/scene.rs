//! The programs of one run: proxies, the server behind them and the client, each with a report of its own.

use std::fs::{self, File};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use tests::place::{Place, Rings};
use tests::ports;
use tests::program::{Program, Running};
use tests::report::Report;

use crate::programs::nginx::ENVIRONMENT;
use crate::programs::tls::certificate;
use crate::script;

const PYTHON: &str = "/usr/bin/python3";

/// A running program, how it is ended, and where it reports.
struct Actor {
    name: String,
    running: Running,
    signal: i32,
    report: PathBuf,
}

/// The programs, the server behind first.
pub struct Scene {
    actors: Vec<Actor>,
    place: Place,
}

impl Scene {
    /// Without programs yet, but with a certificate.
    pub fn new(place: Place) -> Self {
        certificate(place.folder());
        Self {
            actors: Vec::new(),
            place,
        }
    }

    /// Builds the way to the server behind, runs the client on it, ends all and looks at their reports.
    pub fn transcript(mut self, build: fn(&mut Self) -> String, rings: Rings) -> String {
        let arguments = build(&mut self);
        let client = self
            .place
            .client(PYTHON)
            .arg(script("proxy_client.py"))
            .args(&arguments)
            .limit(60);
        let transcript = client.run();
        // From the client on, so that nobody sees the one behind it end first.
        while let Some(actor) = self.actors.pop() {
            actor.running.stop(actor.signal);
            check_report(&actor.name, &actor.report, rings);
        }
        self.place.check_quiet();
        transcript
    }

    /// Starts proxy_backend.py; its port.
    pub fn backend(&mut self, protocol: &str) -> u16 {
        let port = ports::free();
        let program = self.place.client(PYTHON).arg(script("proxy_backend.py"));
        let program = program.args(&format!("{protocol} {port}"));
        self.add(program, port, protocol, libc::SIGINT)
    }

    /// Starts memcached with room for large values; its port.
    pub fn memcached(&mut self) -> u16 {
        let port = ports::free();
        let options = format!("-u memcache -l 127.0.0.1 -p {port} -U 0 -t 2 -I 16m -m 128");
        let program = self.place.client("memcached").args(&options);
        self.add(program, port, "memcached", libc::SIGTERM)
    }

    /// Starts an nginx with this in its block `http`, where PORT is its port.
    pub fn nginx(&mut self, http: &str) -> u16 {
        let folder = self.place.folder().display();
        let http = format!(
            "http {{
                 access_log off; keepalive_requests 1000000; client_max_body_size 64m;
                 proxy_next_upstream off; fastcgi_next_upstream off; memcached_next_upstream off;
                 proxy_read_timeout 8s; fastcgi_read_timeout 8s; memcached_read_timeout 8s;
                 client_body_temp_path {folder}/body; proxy_temp_path {folder}/proxy;
                 fastcgi_temp_path {folder}/fastcgi; uwsgi_temp_path {folder}/uwsgi;
                 scgi_temp_path {folder}/scgi;
                 {http}
             }}"
        );
        self.nginx_with("", &http)
    }

    /// Starts an nginx with this in its block `stream`, where PORT is its port.
    pub fn nginx_stream(&mut self, stream: &str) -> u16 {
        let module = "load_module /usr/lib/nginx/modules/ngx_stream_module.so;";
        self.nginx_with(module, &format!("stream {{ {stream} }}"))
    }

    fn nginx_with(&mut self, modules: &str, blocks: &str) -> u16 {
        let port = ports::free();
        let folder = self.place.folder();
        let number = self.actors.len();
        let file = folder.join(format!("nginx-{number}.conf"));
        let blocks = blocks.replace("PORT", &port.to_string());
        let text = format!(
            "{modules} {ENVIRONMENT} user www-data; worker_processes 2; pid {folder}/nginx-{number}.pid;
             error_log {folder}/nginx-error-{number}.err; events {{ worker_connections 512; }} {blocks}",
            folder = folder.display()
        );
        fs::write(&file, text).expect("config");
        let program = self.place.server("/usr/sbin/nginx").args("-e stderr -p");
        let program = program.arg(folder).arg("-c").arg(file).arg("-g");
        self.add(program.arg("daemon off;"), port, "nginx", libc::SIGQUIT)
    }

    /// Starts haproxy before the server at `behind`; its port.
    pub fn haproxy(&mut self, behind: u16) -> u16 {
        let port = ports::free();
        let text = format!(
            "global
                 nbthread 2
             defaults
                 mode http
                 timeout connect 5s
                 timeout client 30s
                 timeout server 8s
                 retries 0
             frontend front
                 bind 127.0.0.1:{port}
                 default_backend back
             backend back
                 http-reuse always
                 server behind 127.0.0.1:{behind}\n"
        );
        let file = self.place.folder().join("haproxy.cfg");
        fs::write(&file, text).expect("config");
        let program = self.place.server("haproxy").args("-db -f").arg(file);
        self.add(program, port, "haproxy", libc::SIGUSR1)
    }

    /// Starts a program that listens on `port`, with a report of its own.
    fn add(&mut self, program: Program, port: u16, name: &str, signal: i32) -> u16 {
        let name = format!("{}-{name}", self.actors.len());
        let report = self.place.folder().join(format!("report-{name}"));
        let file = File::create(&report).expect("report file");
        let everybody = fs::Permissions::from_mode(0o666);
        file.set_permissions(everybody).expect("chmod");
        let running = program.env("ULSOCK_REPORT", &report).start();
        self.actors.push(Actor {
            name,
            running: running.listening(port),
            signal,
            report,
        });
        port
    }
}

/// How much of a program's traffic, on both of its sides, has been on rings.
fn check_report(name: &str, file: &Path, rings: Rings) {
    let (report, lines) = Report::sum(file);
    let wanted = match rings {
        Rings::Any => 0,
        Rings::Some => 1,
        Rings::Most => report.kernel_bytes().max(1),
    };
    let text = format!("{name}: {lines} reports, {report:?}");
    println!("{text}");
    assert!(report.ring_bytes() >= wanted, "{rings:?} by rings: {text}");
}
