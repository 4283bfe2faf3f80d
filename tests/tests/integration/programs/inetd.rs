//! Servers that get their connection, or their listening socket, from another program: socat that
//! forks and executes, systemd's socket activation.

use std::fs;
use std::os::unix::fs::PermissionsExt;

use tests::ends::{Ends, Side};
use tests::place::Place;
use tests::ports;

use crate::script;

/// A server whose command line ends in what is executed; PORT, FOLDER and SCRIPT are replaced.
fn run(server: &str, client: &str) {
    for &ends in Ends::all() {
        let place = Place::new(ends);
        let folder = place.folder().display().to_string();
        let upper = place.folder().join("upper.sh");
        fs::write(
            &upper,
            "#!/bin/sh\nwhile read -r line; do echo \"got $line\"; done\n",
        )
        .expect("a script");
        fs::set_permissions(&upper, fs::Permissions::from_mode(0o755)).expect("chmod");
        let port = ports::free();
        let handing = script("handing.py").display().to_string();
        let words = |text: &str| {
            text.replace("PORT", &port.to_string())
                .replace("FOLDER", &folder)
                .replace("SCRIPT", &handing)
        };
        let server = words(server);
        let (program, options) = server.split_once(' ').expect("a program");
        let server = place.server(program).args(options).start().listening(port);
        let client = words(client);
        let (program, options) = client.split_once(' ').expect("a program");
        if program == "echo_client" {
            place.own(Side::Client, program).args(options).run();
        } else {
            let output = place.client(program).args("-c").arg(options).run();
            assert_eq!(output, "got one\ngot two\ngot three\n");
        }
        server.stop(libc::SIGTERM);
        place.check_quiet();
    }
}

const ECHO: &str = "echo_client conns=4 rounds=200 port=PORT";
const LINES: &str = "sh printf 'one\\ntwo\\nthree\\n' | nc -N 127.0.0.1 PORT";

#[test]
fn socat_executes_cat() {
    run("socat TCP-LISTEN:PORT,reuseaddr,fork EXEC:cat", ECHO);
}

#[test]
fn socat_becomes_cat() {
    run("socat TCP-LISTEN:PORT,reuseaddr,fork EXEC:cat,nofork", ECHO);
}

#[test]
fn socat_executes_a_shell_script() {
    run(
        "socat TCP-LISTEN:PORT,reuseaddr,fork EXEC:FOLDER/upper.sh",
        LINES,
    );
    run(
        "socat TCP-LISTEN:PORT,reuseaddr,fork EXEC:FOLDER/upper.sh,nofork",
        LINES,
    );
    run(
        "socat TCP-LISTEN:PORT,reuseaddr,fork SYSTEM:FOLDER/upper.sh",
        LINES,
    );
}

/// The connection becomes standard input and output, the process another program.
#[test]
fn activated_by_systemd_per_connection() {
    run(
        "systemd-socket-activate -l 127.0.0.1:PORT --inetd -a cat",
        ECHO,
    );
    run(
        "systemd-socket-activate -l 127.0.0.1:PORT --inetd -a FOLDER/upper.sh",
        LINES,
    );
}

/// The listening socket is there when the program starts, at number 3.
#[test]
fn activated_by_systemd_with_the_listening_socket() {
    let server = "/usr/bin/python3 SCRIPT serve inherited 3";
    let line = format!("systemd-socket-activate -l 127.0.0.1:PORT {server}");
    run(&line, ECHO);
}
