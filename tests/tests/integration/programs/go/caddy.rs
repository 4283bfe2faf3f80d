//! Debian's caddy, a web server of Go 1.19 without symbols, with hey (Go as well), wrk and curl: files, a proxy to another
//! server, a reload of its configuration under load.

use std::fs;

use tests::ends::{Ends, Side};
use tests::go::newest;
use tests::place::{Place, Rings};
use tests::ports;
use tests::program::{Program, Running};

use super::{CHAOS, same_as_kernel, same_as_kernel_in, web};
use crate::{pattern_file, same_content};

const BIG: usize = 30_000_000;

/// A running caddy, which serves the folder `www`, and below /behind what listens at another port.
struct Caddy<'a> {
    place: &'a Place,
    port: u16,
    admin: u16,
    server: Running,
}

impl<'a> Caddy<'a> {
    fn start(place: &'a Place, behind: u16) -> Self {
        let [port, admin] = [(); 2].map(|()| ports::free());
        let www = place.folder().join("www");
        fs::create_dir(&www).expect("www");
        pattern_file(&www.join("small"), 612);
        pattern_file(&www.join("big"), BIG);
        let text = format!(
            "{{\n admin 127.0.0.1:{admin}\n auto_https off\n}}\n\
             http://127.0.0.1:{port} {{\n bind 127.0.0.1\n root * {}\n\
             handle_path /behind/* {{\n reverse_proxy 127.0.0.1:{behind}\n }}\n\
             handle {{\n file_server\n }}\n}}\n",
            www.display()
        );
        fs::write(place.folder().join("Caddyfile"), text).expect("a configuration");
        let server = command(place, Side::Server, "run").start().listening(port);
        Self {
            place,
            port,
            admin,
            server,
        }
    }

    fn url(&self, path: &str) -> String {
        format!("http://127.0.0.1:{}/{path}", self.port)
    }

    fn hey(&self, options: &str, path: &str) -> Program {
        let hey = self.place.client("hey").args(options);
        hey.arg(self.url(path))
    }

    /// Asks it to read its configuration again; it does so even if nothing has changed.
    fn reload(&self) {
        let reload = command(self.place, Side::Client, "reload").arg("--force");
        reload
            .arg("--address")
            .arg(format!("127.0.0.1:{}", self.admin))
            .run();
    }
}

/// caddy with the configuration of the folder, where all else that it keeps goes, too.
fn command(place: &Place, side: Side, what: &str) -> Program {
    let folder = place.folder();
    let caddy = place.program(side, "/usr/bin/caddy").arg(what);
    let caddy = caddy.arg("--config").arg(folder.join("Caddyfile"));
    caddy
        .env("HOME", folder)
        .env("XDG_DATA_HOME", folder)
        .env("XDG_CONFIG_HOME", folder)
}

/// All were answered with status 200.
fn assert_answered(output: &str, requests: usize) {
    let wanted = format!("[200]\t{requests} responses");
    let clean = output.contains(&wanted) && !output.contains("Error distribution");
    assert!(clean, "{output}");
}

#[test]
fn files() {
    same_as_kernel(Rings::Most, |place| {
        let caddy = Caddy::start(place, 1);
        for options in ["-n 4000 -c 16", "-n 400 -c 4 -disable-keepalive"] {
            let output = caddy.hey(options, "small").run();
            assert_answered(&output, if options.contains("4000") { 4000 } else { 400 });
        }
        let wrk = place.client("wrk").args("-t1 -c8 -d1s");
        let output = wrk.arg(caddy.url("small")).run();
        let clean = output.contains("Requests/sec") && !output.contains("rrors");
        assert!(clean, "{output}");
        let folder = place.folder();
        for _ in 0..2 {
            let curl = place
                .client("curl")
                .directory(folder)
                .args("-sS --fail -o copy");
            curl.arg(caddy.url("big")).run();
            same_content(&folder.join("www/big"), &folder.join("copy"));
        }
        let curl = place
            .client("curl")
            .args("-sS -o /dev/null -w %{http_code}");
        let text = curl.arg(caddy.url("none")).run();
        let finished = caddy.server.stop(libc::SIGTERM);
        assert!(finished.status.success(), "{}", finished.errors);
        text
    });
}

/// Three programs of Go, of two versions: hey, caddy and a server of our own behind it.
#[test]
fn a_proxy() {
    let web = newest("web");
    let scene = |place: &Place| {
        let ([behind, _, _], server) = web::server(place, &web);
        let caddy = Caddy::start(place, behind);
        let output = caddy.hey("-n 2000 -c 8", "behind/page").run();
        assert_answered(&output, 2000);
        let curl = place.client("curl").args("-sS --fail");
        let text = curl.arg(caddy.url("behind/stream")).run();
        let curl = place.client("curl").args("-sS --fail --data-binary");
        let echo = curl.arg(format!("@{}/www/small", place.folder().display()));
        let copy = place.folder().join("copy");
        echo.arg("-o")
            .arg(&copy)
            .arg(caddy.url("behind/echo"))
            .run();
        same_content(&place.folder().join("www/small"), &copy);
        caddy.server.stop(libc::SIGTERM);
        server.succeed();
        text
    };
    let on_rings = |place: &Place| place.check(Rings::Some);
    same_as_kernel_in(&["default", "at once", CHAOS], scene, on_rings);
    // The proxy and the server behind it are on the same side, and so on rings.
    let others = ["the server alone", "the client alone"];
    same_as_kernel_in(&others, scene, Place::check_quiet);
}

#[test]
fn reload_under_load() {
    for &ends in Ends::all() {
        let place = Place::new(ends).eager();
        let caddy = Caddy::start(&place, 1);
        let load = caddy.hey("-n 12000 -c 8", "small").start();
        for _ in 0..3 {
            caddy.reload();
        }
        // A request on a connection that the old server closes is made again.
        assert_answered(&load.succeed(), 12_000);
        caddy.server.stop(libc::SIGTERM);
        place.check(Rings::Some);
    }
}
