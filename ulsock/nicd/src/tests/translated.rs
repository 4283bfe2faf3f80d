//! Guests whose connections kernel rules translate, and guests whose sockets only say so. The daemon is that of the first
//! host; rules are made by nft(8).

use std::io::Write;
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::os::fd::AsFd;
use std::process::{Command, Stdio};
use std::thread;

use rustix::net::{AddressFamily, SocketType, bind, connect, socket};
use rustix::thread::{UnshareFlags, unshare_unsafe};

use super::guests::{TestGuest, settle};
use super::world::{TestHost, World};
use rendezvous::message::Message;
use rendezvous::pair::Mail;

/// An address that nobody has.
const SERVICE: ([u8; 4], u16) = ([10, 96, 0, 1], 80);
const PORT: u16 = 7002;

fn nft(text: &str) {
    let mut nft = Command::new("nft");
    let nft = nft.args(["-f", "-"]).stdin(Stdio::piped());
    let mut nft = nft.spawn().expect("nft");
    let mut input = nft.stdin.take().expect("a pipe");
    input.write_all(text.as_bytes()).expect("to write");
    drop(input);
    assert!(nft.wait().expect("nft").success(), "{text}");
}

fn redirect(hook: &str) -> String {
    let (_, port) = SERVICE;
    format!(
        "table ip t {{ chain c {{ type nat hook {hook} priority -100;
            tcp dport {port} redirect to :{PORT}
        }}
        }}"
    )
}

fn listener(host: &TestHost) -> TcpListener {
    host.within(|| TcpListener::bind(("0.0.0.0", PORT)).expect("to listen"))
}

/// From the first host, whose rules lead it to the second.
fn by_the_service() -> (World, [TcpStream; 2]) {
    let world = World::new("packet");
    let [one, other] = &world.hosts;
    let [a, b, c, d] = other.other_address();
    let (_, port) = SERVICE;
    one.within(|| {
        nft(&format!(
            "table ip t {{ chain c {{ type nat hook output priority -100;
                ip daddr 10.96.0.1 tcp dport {port} dnat to {a}.{b}.{c}.{d}:{PORT}
            }}
            }}"
        ))
    });
    one.ip("route add 10.96.0.0/16 dev eth0");
    let listener = listener(other);
    let near = one.within(|| TcpStream::connect(SocketAddr::from(SERVICE)).expect("to connect"));
    let far = listener.accept().expect("to accept").0;
    (world, [near, far])
}

fn are_introduced(guests: &[TestGuest; 2], [near, far]: &[TcpStream; 2]) {
    let near = guests[0].seek(near, true);
    let far = guests[1].seek(far, false);
    let number = guests[0].introduction().0.number;
    guests[1].introduction();
    assert_eq!(guests[0].found(), (near, far, number));
    assert_eq!(guests[1].found(), (far, near, number));
}

#[test]
fn by_connection_tracking_of_the_host() {
    let (world, ends) = by_the_service();
    assert_ne!(ends[0].peer_addr().ok(), ends[1].local_addr().ok());
    let guests = [0, 1].map(|_| TestGuest::of(&world.hosts[0]));
    are_introduced(&guests, &ends);
}

/// Rules that connection tracking of the host does not see.
#[test]
fn by_the_address_that_a_socket_was_called_by() {
    let world = World::new("packet");
    let [one, other] = &world.hosts;
    other.within(|| nft(&redirect("prerouting")));
    let listener = listener(other);
    let to = SocketAddr::from((other.other_address(), SERVICE.1));
    let near = one.within(|| TcpStream::connect(to).expect("to connect"));
    let far = listener.accept().expect("to accept").0;
    let guests = [0, 1].map(|_| TestGuest::of(one));
    are_introduced(&guests, &[near, far]);
}

#[test]
fn not_if_one_of_the_two_does_not_want_it() {
    let (world, [near, far]) = by_the_service();
    let guests = [0, 1].map(|_| TestGuest::of(&world.hosts[0]));
    let cookie = os::tcp::cookie(near.as_fd()).expect("a cookie");
    let message = Message::Seek {
        cookie,
        connected: true,
        translated: false,
    };
    assert!(guests[0].0.tell(&message, Some(near.as_fd())));
    guests[1].seek(&far, false);
    guests.iter().for_each(settle);
    let status = world.hosts[0].status().expect("a status");
    assert_eq!(status.introduced, 0);
}

/// In a network namespace that anybody could make: it is called by the addresses of somebody else's connection, and
/// rules there lead it on, so that its socket says what the true end's would.
fn forged(client: SocketAddr) -> [TcpStream; 2] {
    let make = move || {
        // SAFETY: only the network namespace, and only of this thread.
        unsafe { unshare_unsafe(UnshareFlags::NEWNET) }.expect("root");
        for words in [
            "link set lo up".to_owned(),
            format!("addr add {}/32 dev lo", client.ip()),
            "route add 10.96.0.0/16 dev lo".to_owned(),
        ] {
            let done = Command::new("ip").args(words.split(' ')).status();
            assert!(done.expect("ip").success(), "ip {words}");
        }
        nft(&redirect("output"));
        let listener = TcpListener::bind(("0.0.0.0", PORT)).expect("to listen");
        let near = socket(AddressFamily::INET, SocketType::STREAM, None).expect("a socket");
        bind(&near, &client).expect("its address");
        connect(&near, &SocketAddr::from(SERVICE)).expect("to connect");
        [near.into(), listener.accept().expect("to accept").0]
    };
    thread::spawn(make).join().expect("a forged connection")
}

#[test]
fn a_socket_that_says_what_the_true_end_would_is_no_end() {
    let (world, [near, far]) = by_the_service();
    let host = &world.hosts[0];
    let guests = [0, 1].map(|_| TestGuest::of(host));
    let liar = TestGuest::of(host);
    let client = near.local_addr().expect("an address");
    let [its_client, its_server] = forged(client);
    let local = its_server.local_addr().expect("an address");
    let said = os::translated::called(its_server.as_fd(), &local);
    assert_eq!(said, Some(SocketAddr::from(SERVICE)), "it lies well");
    liar.seek(&its_server, false);
    let cookie = guests[0].seek(&near, true);
    [&guests[0], &liar].into_iter().for_each(settle);
    assert_eq!(host.status().expect("a status").introduced, 0);
    // Nor the other way round; and the true end is found among them.
    liar.seek(&its_client, true);
    let true_end = guests[1].seek(&far, false);
    guests.iter().for_each(|guest| drop(guest.introduction()));
    let (ours, other, _) = guests[0].found();
    assert_eq!((ours, other), (cookie, true_end));
    settle(&liar);
    assert!(!matches!(
        liar.any_mail(),
        Some(Mail::Found { .. } | Mail::Introduced { .. })
    ));
    assert_eq!(host.status().expect("a status").introduced, 1);
}

/// One guest shows its end again and again, each of which is to be asked about: others have their turn.
#[test]
fn a_guest_that_is_never_done_holds_up_nobody() {
    let (world, ends) = by_the_service();
    let host = &world.hosts[0];
    let liar = TestGuest::of(host);
    let own = host.within(|| TcpListener::bind("127.0.0.1:0").expect("to listen"));
    let to = own.local_addr().expect("an address");
    let its = host.within(|| TcpStream::connect(to).expect("to connect"));
    for _ in 0..100 {
        (0..20).for_each(|_| {
            liar.seek(&its, true);
        });
        // More than its channel holds are not on their way at once.
        settle(&liar);
    }
    (0..20).for_each(|_| {
        liar.seek(&its, true);
    });
    let guests = [0, 1].map(|_| TestGuest::of(host));
    are_introduced(&guests, &ends);
}
