//! Language runtimes and frameworks that once kept their connections on kernel TCP without need: gRPC, which wants to
//! know how many bytes are left (TCP_INQ); Erlang, whose helper process inherits the epoll sets, and with it RabbitMQ; PHP,
//! whose extensions are loaded with RTLD_DEEPBIND.

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

/// An Erlang program of the large kind, whose start takes most of the time.
#[test]
fn rabbitmq() {
    let place = Place::new(Ends::both());
    let [port, peers, names] = [(); 3].map(|()| ports::free());
    let names_server = place.server("epmd").args(&format!("-port {names}")).start();
    let names_server = names_server.listening(names);
    let folder = place.folder().display();
    fs::write(format!("{folder}/plugins"), "[].").expect("a list of plugins");
    let mut server = place.server("/usr/lib/rabbitmq/bin/rabbitmq-server");
    for (name, value) in [
        // No shell that waits beside it.
        ("RUNNING_UNDER_SYSTEMD", "1".to_owned()),
        ("HOME", format!("{folder}")),
        ("RABBITMQ_MNESIA_BASE", format!("{folder}/mnesia")),
        ("RABBITMQ_LOG_BASE", format!("{folder}/log")),
        ("RABBITMQ_CONFIG_FILE", format!("{folder}/none")),
        ("RABBITMQ_CONF_ENV_FILE", format!("{folder}/none")),
        ("RABBITMQ_ENABLED_PLUGINS_FILE", format!("{folder}/plugins")),
        ("RABBITMQ_NODENAME", format!("rabbit{port}@localhost")),
        ("RABBITMQ_NODE_IP_ADDRESS", "127.0.0.1".to_owned()),
        ("RABBITMQ_NODE_PORT", port.to_string()),
        ("RABBITMQ_DIST_PORT", peers.to_string()),
        ("ERL_EPMD_PORT", names.to_string()),
    ] {
        server = server.env(name, value);
    }
    let mut server = server.start();
    server.prints("Starting broker... completed");
    let client = place.client("/usr/bin/python3").arg(script("amqp.py"));
    assert_eq!(client.arg(port.to_string()).run(), "ok\n");
    server.stop(libc::SIGTERM);
    names_server.stop(libc::SIGTERM);
    place.check(Rings::Most);
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
