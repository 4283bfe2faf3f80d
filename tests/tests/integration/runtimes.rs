//! Language runtimes and frameworks that once kept their connections on kernel TCP without need: gRPC, which wants to
//! know how many bytes are left (TCP_INQ); Erlang, whose helper process inherits the epoll sets; PHP, whose extensions
//! are loaded with RTLD_DEEPBIND.

use std::fs;

use tests::ends::{Ends, Side};
use tests::place::{Place, Rings};
use tests::ports;

use crate::script;

/// Both ends by one script: `serve PORT` and `call PORT`.
fn serve_and_call(place: &Place, interpreter: &str, name: &str) {
    let (port, script) = (ports::free(), script(name));
    let server = place.server(interpreter).arg(&script).arg("serve");
    let server = server.arg(port.to_string()).piped();
    let server = server.start().listening(port);
    let client = place.client(interpreter).arg(&script).arg("call");
    assert_eq!(client.arg(port.to_string()).run(), "ok\n");
    server.succeed();
    place.check(Rings::Most);
}

#[test]
fn grpc() {
    for &ends in Ends::all() {
        let place = Place::new(ends);
        serve_and_call(&place, "/usr/bin/python3", "grpc_echo.py");
    }
}

#[test]
fn erlang() {
    for &ends in Ends::all() {
        let place = Place::new(ends);
        serve_and_call(&place, "escript", "echo.erl");
    }
}

#[test]
fn php_fpm() {
    for &ends in Ends::all() {
        let place = Place::new(ends);
        let (port, folder) = (ports::free(), place.folder().display().to_string());
        let page = format!("{folder}/echo.php");
        fs::write(&page, "<?php echo $_SERVER['QUERY_STRING'];").expect("a script");
        let config = format!("{folder}/fpm.conf");
        let text = format!(
            "[global]\nerror_log = {folder}/fpm.log\ndaemonize = no\n[www]\nuser = daemon\ngroup = daemon\n\
             listen = 127.0.0.1:{port}\npm = static\npm.max_children = 1\n"
        );
        fs::write(&config, text).expect("a configuration");
        let server = place
            .server("/usr/sbin/php-fpm8.2")
            .arg("-y")
            .arg(&config)
            .start();
        let server = server.listening(port);
        let client = place.client("/usr/bin/python3").arg(script("fastcgi.py"));
        assert_eq!(client.arg(port.to_string()).arg(&page).run(), "ok\n");
        server.stop(libc::SIGQUIT);
        // The worker ends as by _exit, and does not report.
        let (report, _) = place.report(Side::Client);
        let on_rings = report.ring_bytes() > report.kernel_bytes();
        assert_eq!(on_rings, ends == Ends::Both, "{ends:?}: {report:?}");
        place.check_quiet();
    }
}
