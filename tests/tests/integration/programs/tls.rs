//! TLS: openssl's own server and client, and nginx with curl over HTTP/1.1 and HTTP/2.

use std::fs;
use std::path::Path;

use tests::ends::{Ends, Side};
use tests::place::{Place, Rings};
use tests::program::Program;
use tests::{ports, procfs, wait};

use super::nginx::Nginx;
use crate::{pattern_file, same_content};

const BIG: usize = 20_000_000;

/// A certificate of our own in the work folder.
pub fn certificate(folder: &Path) {
    let openssl = Program::new("openssl", &folder.join("log-certificate"));
    let options = "req -x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -days 2 -subj /CN=localhost";
    let openssl = openssl.args(options).args("-keyout key.pem -out cert.pem");
    openssl.directory(folder).run();
}

/// Without tickets the client has nothing unread when it closes, which would reset the connection.
#[test]
fn openssl_to_openssl() {
    for &ends in Ends::all() {
        for version in ["-tls1_2", "-tls1_3"] {
            let place = Place::new(ends);
            let folder = place.folder();
            certificate(folder);
            pattern_file(&folder.join("file"), BIG);
            let port = ports::free();
            let server = place.server("openssl").directory(folder);
            let server = server.args(&format!(
                "s_server -accept 127.0.0.1:{port} -cert cert.pem -key key.pem"
            ));
            let server = server.args(&format!("-quiet -naccept 1 -num_tickets 0 {version}"));
            // It ends the connection when its standard input ends.
            let server = server.piped().start().listening(port);
            let client = place.client("sh").arg("-c").directory(folder);
            let line = format!(
                "openssl s_client -quiet -no_ign_eof -nocommands {version} -connect 127.0.0.1:{port} < file"
            );
            client.arg(line).run();
            wait::until("the server ends", || procfs::is_gone(server.pid()));
            let server = server.wait();
            assert!(server.status.success(), "{}", server.errors);
            let file = fs::read(folder.join("file")).expect("the file");
            let copy = folder.join("log-000-openssl.out");
            assert!(
                fs::read(copy).expect("the copy") == file,
                "{version}: what the server got differs"
            );
            place.check(Rings::Most);
        }
    }
}

#[test]
fn curl_from_openssl() {
    for &ends in Ends::all() {
        let place = Place::new(ends).eager();
        let folder = place.folder();
        certificate(folder);
        pattern_file(&folder.join("file"), BIG);
        let port = ports::free();
        let server = place.server("openssl").directory(folder);
        let server = server.args(&format!(
            "s_server -accept 127.0.0.1:{port} -cert cert.pem -key key.pem -WWW"
        ));
        let server = server.start().listening(port);
        for _ in 0..2 {
            let curl = place
                .client("curl")
                .directory(folder)
                .args("-sS --fail -k -o copy");
            curl.arg(format!("https://127.0.0.1:{port}/file")).run();
            same_content(&folder.join("file"), &folder.join("copy"));
        }
        // It has no way to end but a signal: no report.
        server.stop(libc::SIGTERM);
        place.check_quiet();
    }
}

#[test]
fn nginx() {
    for &ends in Ends::all() {
        let place = Place::new(ends).eager();
        certificate(place.folder());
        let port = ports::free();
        let folder = place.folder().display().to_string();
        let block = format!(
            "ssl_certificate {folder}/cert.pem; ssl_certificate_key {folder}/key.pem;
             server {{ listen 127.0.0.1:{port} ssl http2; root {folder}/www; }}"
        );
        let nginx = Nginx::start_with(place, Side::Server, 2, &block);
        nginx.add_big_file();
        let folder = nginx.place.folder();
        for version in ["--http1.1", "--http2"] {
            let curl = nginx.place.client("curl").directory(folder);
            let curl = curl.args(&format!(
                "-sS --fail -k {version} -o copy -o small -o again"
            ));
            let url = |file: &str| format!("https://127.0.0.1:{port}/{file}");
            curl.arg(url("big")).arg(url("small")).arg(url("big")).run();
            same_content(&folder.join("www/big"), &folder.join("copy"));
            same_content(&folder.join("www/small"), &folder.join("small"));
            same_content(&folder.join("www/big"), &folder.join("again"));
        }
        let wrk = nginx.place.client("wrk").args("-t1 -c8 -d1s");
        let output = wrk.arg(format!("https://127.0.0.1:{port}/small")).run();
        assert!(
            output.contains("Requests/sec") && !output.contains("errors"),
            "{output}"
        );
        nginx.stop().check(Rings::Most);
    }
}
