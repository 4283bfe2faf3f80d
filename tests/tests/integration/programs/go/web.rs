//! Package net/http: HTTP/1.1 on connections that stay and on new ones, HTTP/2 and HTTP/1.1 with TLS, a connection that
//! stops to be HTTP; and net/rpc.

use std::path::Path;

use tests::ends::Side;
use tests::go::newest;
use tests::place::{Place, Rings};
use tests::ports;
use tests::program::Running;

use super::same_as_kernel;

/// Its three ports, for HTTP, TLS and RPC.
pub fn server(place: &Place, web: &Path) -> ([u16; 3], Running) {
    let ports = [(); 3].map(|()| ports::free());
    let server = place.program(Side::Server, web);
    let server = server.arg("serve").arg(place.folder());
    let server = server.args(&words(ports)).piped().start();
    let server = ports.iter().fold(server, |it, &port| it.listening(port));
    (ports, server)
}

fn words(ports: [u16; 3]) -> String {
    ports.map(|port| port.to_string()).join(" ")
}

#[test]
fn servers_and_clients() {
    let web = newest("web");
    same_as_kernel(Rings::Most, |place| {
        let (ports, server) = server(place, &web);
        let client = place.program(Side::Client, &web);
        let client = client.arg("call").arg(place.folder());
        let text = client.args(&words(ports)).run();
        server.succeed();
        text
    });
}

/// SIGPROF comes in whatever is under way; the profiles are whole, and name the program's functions.
#[test]
fn profiles() {
    let web = newest("web");
    same_as_kernel(Rings::Most, |place| {
        let (ports, server) = server(place, &web);
        let client = place.program(Side::Client, &web).arg("profile");
        let text = client.arg(place.folder()).arg(ports[0].to_string()).run();
        server.succeed();
        text
    });
}
