//! haproxy in front of nginx, in a chroot and under its own uid, reloaded under load. haproxy is the
//! server side here; the client and nginx are the other.

use std::fs;
use std::path::Path;

use tests::ends::{Ends, Side};
use tests::place::{Place, Rings};
use tests::program::{Program, Running};
use tests::{ports, procfs};

use super::nginx::{Load, Nginx};

const RELOADS: usize = 3;

struct Proxy {
    port: u16,
    nginx: Nginx,
}

impl Proxy {
    fn prepare(ends: Ends) -> Self {
        let nginx = Nginx::start_in(Place::new(ends).eager(), Side::Client, 1);
        let port = ports::free();
        let folder = nginx.place.folder();
        fs::create_dir(folder.join("jail")).expect("the jail");
        fs::write(folder.join("haproxy.cfg"), config(folder, port, nginx.port)).expect("config");
        Self { port, nginx }
    }

    fn haproxy(&self, options: &str) -> Program {
        let folder = self.nginx.place.folder();
        let haproxy = self.nginx.place.server("haproxy").arg("-f");
        let haproxy = haproxy.arg(folder.join("haproxy.cfg")).args(options);
        // Its processes hand over by a Unix socket of their own, both of whose ends are under ulsock in any case.
        match self.nginx.place.ends() {
            Ends::Both => haproxy,
            _ => haproxy.env("ULSOCK_UNIX", "0"),
        }
    }

    /// haproxy has ended; rings must have been used on both of its sides.
    fn finish(self) {
        self.nginx.stop().check(Rings::Some);
    }
}

fn config(folder: &Path, port: u16, behind: u16) -> String {
    let folder = folder.display();
    format!(
        "global
             stats socket {folder}/haproxy.sock mode 600 level admin expose-fd listeners
             user haproxy
             group haproxy
             chroot {folder}/jail
             nbthread 2
         defaults
             mode http
             timeout connect 5s
             timeout client 30s
             timeout server 30s
             retries 3
             option redispatch
         frontend front
             bind 127.0.0.1:{port}
             default_backend back
         backend back
             http-reuse always
             server nginx 127.0.0.1:{behind}\n"
    )
}

/// A new process takes the listening sockets from the old one over a Unix socket and asks it to end
/// with its last connection.
#[test]
fn successors_under_load() {
    for &ends in Ends::all() {
        let proxy = Proxy::prepare(ends);
        let mut haproxy = proxy.haproxy("-db").start().listening(proxy.port);
        let mut load = Load::start(&proxy.nginx.place, proxy.port);
        for _ in 0..RELOADS {
            load.goes_on();
            haproxy = succeed(&proxy, haproxy);
        }
        load.goes_on();
        load.stop(RELOADS);
        haproxy.stop(libc::SIGUSR1);
        proxy.finish();
    }
}

fn succeed(proxy: &Proxy, old: Running) -> Running {
    let socket = proxy.nginx.place.folder().join("haproxy.sock");
    let heir = proxy.haproxy("-db -x").arg(socket);
    let heir = heir.args(&format!("-sf {}", old.pid())).start();
    let finished = old.wait();
    assert!(
        finished.status.success(),
        "the old haproxy: {}",
        finished.status
    );
    heir
}

/// The master executes itself again at SIGUSR2, and its old workers end with their last connection.
#[test]
fn master_reloads_under_load() {
    for &ends in Ends::all() {
        let proxy = Proxy::prepare(ends);
        let mut haproxy = proxy.haproxy("-W -db").start().listening(proxy.port);
        let mut load = Load::start(&proxy.nginx.place, proxy.port);
        for reload in 0..=RELOADS {
            // A signal that comes before it waits for events is lost.
            haproxy.until("it has loaded", |haproxy| {
                let loads = haproxy.errors().matches("Loading success").count();
                loads > reload && procfs::waits_for_events(haproxy.pid())
            });
            load.goes_on();
            if reload < RELOADS {
                haproxy.signal(libc::SIGUSR2);
            }
        }
        load.stop(RELOADS);
        haproxy.stop(libc::SIGUSR1);
        proxy.finish();
    }
}
