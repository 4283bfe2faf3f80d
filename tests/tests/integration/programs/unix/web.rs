//! Web servers on Unix sockets: nginx and haproxy in front of gunicorn, uvicorn, php-fpm and a server of Python's own,
//! reached by a path themselves. The proxy is the server side; the client and what is behind the proxy are the other.

use std::fs;
use std::path::{Path, PathBuf};

use tests::place::{Place, Rings};
use tests::program::{Program, Running};

use super::{same_as_kernel, same_as_kernel_with};
use crate::programs::nginx::ENVIRONMENT;
use crate::script;

const PYTHON: &str = "/usr/bin/python3";

/// A server behind, which listens at the path.
type Behind = fn(&Place, &Path) -> Running;

fn path(place: &Place, name: &str) -> PathBuf {
    place.folder().join(name)
}

/// The client's transcript.
fn call(place: &Place, socket: &Path, more: &str) -> String {
    let client = place.client(PYTHON).arg(script("unix/web_client.py"));
    client.arg(socket).args(more).limit(60).run()
}

/// nginx at a path, with this in its locations, where BEHIND is what is behind it.
fn nginx(place: &Place, location: &str) -> Running {
    let folder = place.folder().display();
    let text = format!(
        "{ENVIRONMENT} user www-data; worker_processes 2; pid {folder}/nginx.pid;
         error_log {folder}/nginx-error.err; events {{ worker_connections 256; }}
         http {{
             access_log off; keepalive_requests 1000000; client_max_body_size 64m;
             client_body_temp_path {folder}/body; proxy_temp_path {folder}/proxy;
             fastcgi_temp_path {folder}/fastcgi; uwsgi_temp_path {folder}/uwsgi;
             scgi_temp_path {folder}/scgi;
             upstream behind {{ server unix:{folder}/behind; keepalive 8; }}
             server {{
                 listen unix:{folder}/front;
                 location / {{ {location} }}
             }}
         }}"
    );
    let file = path(place, "nginx.conf");
    fs::write(&file, text).expect("a configuration");
    let nginx = place.server("/usr/sbin/nginx").args("-e stderr -p");
    let nginx = nginx.arg(place.folder()).arg("-c").arg(file).arg("-g");
    let front = path(place, "front");
    nginx.arg("daemon off;").start().listening_at(front)
}

const HTTP: &str =
    "proxy_pass http://behind; proxy_http_version 1.1; proxy_set_header Connection \"\";";

/// nginx before `behind`, which ends at SIGTERM unless the client has killed it.
fn by_nginx(place: &Place, location: &str, behind: Behind) -> String {
    let behind = behind(place, &path(place, "behind"));
    let nginx = nginx(place, location);
    let text = call(place, &path(place, "front"), "broken");
    nginx.stop(libc::SIGQUIT);
    behind.stop(libc::SIGTERM);
    text
}

/// Python's path has the scripts.
fn app_server(place: &Place, program: &str) -> Program {
    let scripts = script("unix");
    place
        .client(program)
        .env("PYTHONPATH", scripts)
        .env("PYTHONDONTWRITEBYTECODE", "1")
}

fn gunicorn(place: &Place, socket: &Path) -> Running {
    let options = "-w 2 -k gthread --threads 4 --keep-alive 30 web_app:app";
    let server = app_server(place, "gunicorn").args(options).arg("-b");
    server
        .arg(format!("unix:{}", socket.display()))
        .start()
        .listening_at(socket)
}

fn uvicorn(place: &Place, socket: &Path) -> Running {
    let server = app_server(place, "uvicorn").args("--no-access-log web_app:asgi --uds");
    server.arg(socket).start().listening_at(socket)
}

/// With a child for each connection that nginx may keep, and for each that it has not put away yet when the next request
/// comes: one that waits for a child would wait as long as the others are kept.
fn php_fpm(place: &Place, socket: &Path) -> Running {
    let folder = place.folder().display();
    let text = format!(
        "[global]\nerror_log = {folder}/fpm.err\ndaemonize = no\n[www]\nuser = daemon\ngroup = daemon\n\
         listen = {}\nlisten.mode = 0666\npm = static\npm.max_children = 16\n\
         catch_workers_output = no\n",
        socket.display()
    );
    let config = path(place, "fpm.conf");
    fs::write(&config, text).expect("a configuration");
    let server = place.client("/usr/sbin/php-fpm8.2").arg("-y").arg(config);
    server.start().listening_at(socket)
}

fn python(place: &Place, socket: &Path) -> Running {
    let server = place.client(PYTHON).arg(script("unix/web_app.py"));
    server.arg(socket).start().listening_at(socket)
}

#[test]
fn nginx_before_gunicorn() {
    same_as_kernel_with(Rings::Some, Rings::Some, |place| {
        by_nginx(place, HTTP, gunicorn)
    });
}

#[test]
fn nginx_before_uvicorn() {
    same_as_kernel(Rings::Some, |place| by_nginx(place, HTTP, uvicorn));
}

#[test]
fn nginx_before_php_fpm() {
    same_as_kernel(Rings::Any, |place| {
        let folder = place.folder().display();
        // What its user can read.
        fs::copy(script("unix/web_app.php"), path(place, "web_app.php")).expect("a script");
        let location = format!(
            "fastcgi_pass behind; fastcgi_keep_conn on; fastcgi_param DOCUMENT_URI $document_uri;
             fastcgi_param REQUEST_METHOD $request_method; fastcgi_param CONTENT_LENGTH $content_length;
             fastcgi_param SCRIPT_FILENAME {folder}/web_app.php;"
        );
        by_nginx(place, &location, php_fpm)
    });
}

/// haproxy's own commands, by its socket, while it serves.
#[test]
fn haproxy_and_its_commands() {
    same_as_kernel_with(Rings::Some, Rings::Some, |place| {
        let folder = place.folder().display();
        let text = format!(
            "global
                 stats socket {folder}/stats mode 600 level admin
                 nbthread 2
             defaults
                 mode http
                 timeout connect 5s
                 timeout client 30s
                 timeout server 30s
             frontend front
                 bind unix@{folder}/front mode 666
                 default_backend back
             backend back
                 http-reuse always
                 server behind unix@{folder}/behind\n"
        );
        fs::write(path(place, "haproxy.cfg"), text).expect("a configuration");
        let behind = python(place, &path(place, "behind"));
        let haproxy = place.server("haproxy").args("-db -f");
        let mut haproxy = haproxy.arg(path(place, "haproxy.cfg")).start();
        let front = path(place, "front");
        // It listens at another path, which it then renames.
        haproxy.until("it listens", |_| front.exists());
        let mut text = call(place, &front, "");
        for command in COMMANDS {
            text += &ask(place, command);
        }
        haproxy.stop(libc::SIGUSR1);
        behind.stop(libc::SIGTERM);
        text
    });
}

const COMMANDS: &[&str] = &[
    "show backend",
    "show servers state back",
    "disable server back/behind",
    "show servers conn back; enable server back/behind",
    "no such command",
];

/// What haproxy answers to a command; what hangs on time is left out.
fn ask(place: &Place, command: &str) -> String {
    let stats = path(place, "stats");
    let client = place.client("sh").args("-c").arg(format!(
        "echo '{command}' | socat -t 30 - UNIX-CONNECT:{}",
        stats.display()
    ));
    let answer = client.run();
    match command.starts_with("show servers") {
        true => format!("{} lines\n", answer.lines().count()),
        false => answer,
    }
}

/// As Docker is talked to.
#[test]
fn curl() {
    same_as_kernel(Rings::Most, |place| {
        let folder = place.folder();
        crate::pattern_file(&folder.join("up"), 20_000_000);
        let mut text = String::new();
        for (name, option) in [
            ("socket", "--unix-socket"),
            ("@abstract", "--abstract-unix-socket"),
        ] {
            let address = match name.strip_prefix('@') {
                Some(name) => format!("@{}/{name}", folder.display()),
                None => format!("{}/{name}", folder.display()),
            };
            let server = place.server(PYTHON).arg(script("unix/web_app.py"));
            let server = server.arg(&address).start().listening_at(&address);
            let curl = |options: &str| {
                let curl = place.client("curl").args("-sS").arg(option);
                let curl = curl.arg(address.trim_start_matches('@'));
                curl.args(options).directory(folder).run()
            };
            let url = "http://localhost";
            curl(&format!("-T up -o down {url}/echo"));
            crate::same_content(&folder.join("up"), &folder.join("down"));
            let many = format!(
                "-w %{{http_code}}:%{{size_download}}:%{{num_connects}}, -o /dev/null {url}/sized/100000 "
            );
            text += &curl(&many.repeat(20));
            text += &curl(&format!("-w %{{http_code}} -o /dev/null {url}/error"));
            text += &curl(&format!("-H Expect:100-continue -d some=text {url}/echo"));
            server.stop(libc::SIGTERM);
        }
        text
    });
}
