//! What a server needs for its first connection is there before that comes: otherwise its first bytes would wait for it, by
//! which the kernel judges how large a buffer the program needs.

use tests::ends::{Ends, Side};
use tests::place::Place;
use tests::{ports, procfs};

#[test]
fn a_server_is_set_up_before_it_accepts() {
    let place = Place::new(Ends::both());
    let port = ports::free();
    let server = place.own(Side::Server, "echo_threads");
    let mut server = server.args(&format!("port={port} conns=1")).start();
    server.until("it waits for a connection", |server| {
        procfs::waits_for_connection(server.pid())
    });
    let (records, _) = procfs::mapped_kib(server.pid(), "ulsock-family");
    assert_eq!(records > 0, place.ends() == Ends::Both);
    let client = place.own(Side::Client, "echo_client");
    client.args(&format!("port={port} conns=1 rounds=10")).run();
    server.succeed();
}
