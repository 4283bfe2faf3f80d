//! nginx, whose workers run under a uid of their own, with wrk, ab and curl.

use std::fs;
use std::path::Path;

use tests::ends::Ends;
use tests::place::{Place, Rings};
use tests::ports;
use tests::program::Running;

use crate::{pattern_file, same_content};

const BIG_FILE: usize = 100_000_000;

struct Nginx {
    port: u16,
    server: Running,
    place: Place,
}

impl Nginx {
    fn start(ends: Ends, workers: usize) -> Self {
        let place = Place::new(ends).eager();
        let port = ports::free();
        let folder = place.folder();
        fs::create_dir(folder.join("www")).expect("www");
        pattern_file(&folder.join("www/small"), 612);
        pattern_file(&folder.join("www/big"), BIG_FILE);
        fs::write(folder.join("nginx.conf"), config(folder, port, workers)).expect("config");
        let server = place
            .server("nginx")
            .args("-e stderr -p")
            .arg(folder)
            .arg("-c")
            .arg(folder.join("nginx.conf"))
            .start()
            .listening(port);
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

    fn stop(self, rings: Rings) {
        let finished = self.server.stop(libc::SIGQUIT);
        assert!(finished.status.success(), "nginx: {}", finished.status);
        self.place.check(rings);
    }
}

fn config(folder: &Path, port: u16, workers: usize) -> String {
    let folder = folder.display();
    format!(
        "daemon off; user www-data; worker_processes {workers}; pid {folder}/nginx.pid;
         error_log stderr; events {{ worker_connections 512; }}
         http {{
             access_log off; sendfile on; tcp_nopush on; keepalive_requests 1000000;
             client_body_temp_path {folder}/body; proxy_temp_path {folder}/proxy;
             fastcgi_temp_path {folder}/fastcgi; uwsgi_temp_path {folder}/uwsgi;
             scgi_temp_path {folder}/scgi;
             server {{ listen 127.0.0.1:{port}; root {folder}/www; }}
         }}"
    )
}

#[test]
fn wrk() {
    for &ends in Ends::all() {
        let nginx = Nginx::start(ends, 2);
        let wrk = nginx.place.client("wrk").args("-t2 -c20 -d2s");
        let output = wrk.arg(nginx.url("small")).run();
        assert!(output.contains("Requests/sec"), "{output}");
        for trouble in ["Non-2xx", "Socket errors"] {
            assert!(!output.contains(trouble), "{output}");
        }
        nginx.stop(Rings::Most);
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
            ("HTML transferred:", REQUESTS * 612),
        ] {
            let line = output.lines().find(|line| line.starts_with(what));
            let number = line.and_then(|line| line[what.len()..].split_whitespace().next());
            assert_eq!(
                number,
                Some(count.to_string().as_str()),
                "{what} in {output}"
            );
        }
        nginx.stop(Rings::Most);
    }
}

#[test]
fn curl_big_file_by_sendfile() {
    for &ends in Ends::all() {
        let nginx = Nginx::start(ends, 1);
        nginx.curl(&format!("-o copy {}", nginx.url("big")));
        let folder = nginx.place.folder();
        same_content(&folder.join("www/big"), &folder.join("copy"));
        nginx.stop(Rings::Most);
    }
}

#[test]
fn curl_keepalive() {
    for &ends in Ends::all() {
        let nginx = Nginx::start(ends, 2);
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
        nginx.stop(Rings::Most);
    }
}
