//! Sequence numbers of connections in other network namespaces.

use std::io::{ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::os::fd::AsFd;
use std::thread::sleep;
use std::time::{Duration, Instant};

use netstack::phy::witness::{Position, Space, Witness};

use crate::namespace::World;

/// The end that connected, and the one that accepted.
fn connection(world: &World, ip: &str, from: u16) -> [TcpStream; 2] {
    let [there, here] = &world.hosts;
    let listener = there.within(|| TcpListener::bind(format!("{ip}:7000")).expect("to listen"));
    let to = listener.local_addr().expect("an address");
    let client = here.within(|| match from {
        0 => TcpStream::connect(to).expect("to connect"),
        port => connect_from(port, to),
    });
    [client, listener.accept().expect("to accept").0]
}

fn connect_from(port: u16, to: SocketAddr) -> TcpStream {
    use rustix::net::{AddressFamily, SocketType, bind, connect, socket};
    let stream = socket(AddressFamily::INET, SocketType::STREAM, None).expect("a socket");
    let own = SocketAddr::new([0, 0, 0, 0].into(), port);
    bind(&stream, &own).expect("to bind");
    connect(&stream, &to).expect("to connect");
    stream.into()
}

fn position(witness: &mut Witness, stream: &TcpStream) -> Option<Position> {
    let space = witness.space_of(stream.as_fd()).expect("a number");
    let (local, remote) = (stream.local_addr(), stream.peer_addr());
    let (local, remote) = (local.expect("an address"), remote.expect("an address"));
    witness.ask(space, local, remote).expect("an answer")
}

#[test]
fn both_ends_of_a_connection_are_at_the_same_byte() {
    let world = World::new(1500, 1);
    let mut witness = Witness::open().expect("root");
    for ip in ["10.9.0.1", "[fd09::1]"] {
        let mut ends = connection(&world, ip, 0);
        let before = [0, 1].map(|end| position(&mut witness, &ends[end]).expect("a position"));
        assert!(before[0].meets(before[1]), "{ip} {before:?}");
        ends[0].write_all(b"seven by").expect("to write");
        ends[1].read_exact(&mut [0; 8]).expect("to read");
        let after = [0, 1].map(|end| position(&mut witness, &ends[end]).expect("a position"));
        assert!(after[0].meets(after[1]), "{ip} {after:?}");
        assert_eq!(after[0].send, before[0].send.wrapping_add(8));
        assert!(!after[0].meets(before[1]), "{ip}");
    }
}

/// The same four numbers, in two networks.
#[test]
fn the_same_addresses_elsewhere_are_another_connection() {
    let worlds = [World::new(1500, 1), World::new(1500, 1)];
    let mut witness = Witness::open().expect("root");
    let ends = [0, 1].map(|world: usize| connection(&worlds[world], "10.9.0.1", 7001));
    let [[client, server], [other_client, other_server]] = ends
        .each_ref()
        .map(|ends| [0, 1].map(|end: usize| position(&mut witness, &ends[end]).expect("it is")));
    assert_eq!(
        ends[0][0].local_addr().expect("one"),
        ends[1][0].local_addr().expect("one")
    );
    assert!(client.meets(server) && other_client.meets(other_server));
    assert!(!client.meets(other_server) && !other_client.meets(server));
}

/// Where somebody has listened before. A process that another test is just starting has that listener, too, until it
/// is another program.
fn listen_again(address: SocketAddr) -> TcpListener {
    let start = Instant::now();
    loop {
        match TcpListener::bind(address) {
            Err(error) if error.kind() == ErrorKind::AddrInUse => {
                assert!(start.elapsed() < Duration::from_secs(10), "{error}");
                sleep(Duration::from_millis(1));
            }
            listener => return listener.expect("to listen"),
        }
    }
}

/// A listener has a position too: nobody may take it for a connection's.
#[test]
fn what_is_not_established_has_no_position() {
    let world = World::new(1500, 1);
    let mut witness = Witness::open().expect("root");
    let [client, server] = connection(&world, "10.9.0.1", 0);
    let space = witness.space_of(server.as_fd()).expect("a number");
    let (local, remote) = (server.local_addr(), server.peer_addr());
    let (local, remote) = (local.expect("an address"), remote.expect("an address"));
    let at = |remote: SocketAddr| witness.ask(space, local, remote).expect("an answer");
    assert!(at(remote).is_some());
    assert_eq!(at(SocketAddr::new(remote.ip(), 1)), None);
    assert_eq!(witness.ask(Space::OWN, local, remote), Ok(None));
    let _listener = world.hosts[0].within(|| listen_again(local));
    assert_eq!(at(SocketAddr::new(remote.ip(), 1)), None);
    drop((client, server));
    assert_eq!(at(remote), None);
}
