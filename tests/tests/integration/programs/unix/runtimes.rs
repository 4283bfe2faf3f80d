//! Language runtimes with Unix sockets: gRPC's addresses, Java's channels with a selector.

use std::process::Command;

use tests::place::Rings;

use super::{same_as_kernel, same_as_kernel_with};
use crate::script;

#[test]
fn grpc() {
    same_as_kernel_with(Rings::Some, Rings::Most, |place| {
        let folder = place.folder().display();
        let mut text = String::new();
        for (address, name) in [
            (format!("unix:{folder}/grpc"), format!("{folder}/grpc")),
            (format!("unix-abstract:{folder}"), format!("@{folder}")),
        ] {
            let script = script("unix/grpc_echo.py");
            let server = place.server("/usr/bin/python3").arg(&script).arg("serve");
            let server = server.arg(&address).piped().start().listening_at(name);
            let client = place.client("/usr/bin/python3").arg(&script).arg("call");
            text += &client.arg(address).run();
            server.succeed();
        }
        text
    });
}

#[test]
fn java() {
    same_as_kernel(Rings::Most, |place| {
        let classes = place.folder().join("classes");
        let source = concat!(env!("CARGO_MANIFEST_DIR"), "/programs/unix/Channels.java");
        let mut compiler = Command::new("javac");
        let compiled = compiler.arg("-d").arg(&classes).arg(source).status();
        assert!(compiled.expect("javac runs").success());
        let socket = place.folder().join("java");
        let java = |program: tests::program::Program, role: &str| {
            let program = program.args("-XX:TieredStopAtLevel=1 -cp").arg(&classes);
            program.args("Channels").arg(role).arg(&socket).start()
        };
        let server = java(place.server("java"), "serve").listening_at(&socket);
        let text = java(place.client("java"), "call").succeed();
        server.succeed();
        text
    });
}
