//! What is not ours: the kernel keeps it while a port is open, and does not see what is.

use std::io::{Read, Write};
use std::net::{IpAddr, SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::thread;
use std::time::Duration;

use netstack::phy::Port;
use netstack::wire::frame::{Offload, parse};
use rustix::net::{AddressFamily, RecvFlags, SendFlags, SocketType, ipproto, recv, sendto, socket};

use crate::frames::{Family, PORT, Route, await_frame, fetch, frame, now, post, route};
use crate::namespace::{World, close};
use crate::on_every_kernel_port;
use crate::rig::{Ends, Kind};

on_every_kernel_port!(
    kernel_goes_on,
    kernel_is_quiet,
    not_for_us,
    other_kinds_of_frames,
    kernel_sends_to_us,
);

const MTU: usize = 1500;

fn route_of(ends: &Ends) -> Route {
    let [one, other] = &ends.ports;
    route(Family::V4, 1, one.capabilities(), other.capabilities())
}

/// Ping, TCP and UDP, fragments too, while frames of ours go both ways.
fn kernel_goes_on(kind: Kind) {
    let mut ends = kind.ends(MTU);
    let world = ends.world.take().expect("a kernel");
    let route = route_of(&ends);
    let (one, other) = ends.both();
    thread::scope(|scope| {
        let kernel = scope.spawn(|| {
            for ip in ["10.9.0.2", "fd09::2"] {
                let ip: IpAddr = ip.parse().expect("an address");
                udp(&world, ip, PORT + 1, 1200);
                udp(&world, ip, PORT + 2, 8000);
                tcp(&world, ip);
            }
            ping(&world);
        });
        let mut seed = 0;
        while !kernel.is_finished() {
            post(one, &frame(&route, 700, seed));
            assert_eq!(fetch(other), frame(&route, 700, seed));
            seed += 1;
        }
        kernel.join().expect("the kernel's traffic");
        assert!(seed > 10);
    });
}

fn udp(world: &World, ip: IpAddr, port: u16, length: usize) {
    let [here, there] = &world.hosts;
    let server = there.within(|| UdpSocket::bind((ip, port)).expect("a port"));
    let any = SocketAddr::new(
        if ip.is_ipv4() {
            [0u8; 4].into()
        } else {
            [0u8; 16].into()
        },
        0,
    );
    let client = here.within(|| UdpSocket::bind(any).expect("a port"));
    let patience = Some(Duration::from_secs(2));
    server.set_read_timeout(patience).expect("a time");
    for number in 0..20 {
        let sent = vec![number; length];
        client.send_to(&sent, (ip, port)).expect("to send");
        let mut received = vec![0; length + 1];
        let (count, _) = server.recv_from(&mut received).expect("a datagram");
        assert_eq!(received[..count], sent);
    }
}

fn tcp(world: &World, ip: IpAddr) {
    let [here, there] = &world.hosts;
    let bytes: Vec<u8> = (0..4_000_000u32).map(|n| (n % 251) as u8).collect();
    // The same port, but TCP.
    let listener = there.within(|| TcpListener::bind((ip, PORT)).expect("a port"));
    thread::scope(|scope| {
        scope.spawn(|| {
            let (mut stream, _) = listener.accept().expect("a connection");
            stream.write_all(&bytes).expect("to send");
        });
        let mut stream = here.within(|| TcpStream::connect((ip, PORT)).expect("to connect"));
        let mut received = Vec::new();
        stream.read_to_end(&mut received).expect("to read");
        assert!(received == bytes);
    });
}

fn ping(world: &World) {
    let icmp = || socket(AddressFamily::INET, SocketType::RAW, Some(ipproto::ICMP));
    let socket = world.hosts[0].within(|| icmp().expect("root"));
    let request = [8u8, 0, 0xf7, 0xff, 0, 0, 0, 0];
    let to: SocketAddr = "10.9.0.2:0".parse().expect("an address");
    sendto(&socket, &request, SendFlags::empty(), &to).expect("to send");
    let mut answer = [0; 100];
    loop {
        let (_, count) = recv(&socket, &mut answer, RecvFlags::empty()).expect("an answer");
        // After 20 bytes of IP: an echo reply.
        if count == 28 && answer[20] == 0 {
            break;
        }
    }
}

/// Nobody hears of our frames from the kernel: neither a program there nor, by ICMP, their sender.
fn kernel_is_quiet(kind: Kind) {
    let mut ends = kind.ends(MTU);
    let world = ends.world.take().expect("a kernel");
    let taken = world.hosts[1].within(|| UdpSocket::bind(("0.0.0.0", PORT)));
    assert!(taken.is_err(), "the port is reserved");
    let route = route_of(&ends);
    let exchange = |ends: &mut Ends| {
        let (one, other) = ends.both();
        for seed in 0..50 {
            post(one, &frame(&route, 100, seed));
            assert_eq!(fetch(other), frame(&route, 100, seed));
        }
    };
    let unreachable = || world.hosts[1].counter("Icmp", "OutDestUnreachs");
    exchange(&mut ends);
    assert_eq!(unreachable(), 0);
    assert_eq!(world.hosts[1].counter("Udp", "NoPorts"), 0);
    // Without the reservation a port that only listens in gives itself away.
    close(std::mem::take(&mut ends.reserved));
    exchange(&mut ends);
    assert_eq!(unreachable() > 0, !kind.keeps_from_kernel());
}

/// Frames to our port, but to another host, or in fragments, or for a VLAN, are not ours.
fn not_for_us(kind: Kind) {
    let mut ends = kind.ends(MTU);
    let route = route_of(&ends);
    let (one, other) = ends.both();
    let ours = frame(&route, 100, 1);
    let mut elsewhere = route;
    elsewhere.addresses.destination = "10.9.0.77:4690".parse().expect("an address");
    let mut wrong_port = route;
    wrong_port.addresses.destination.set_port(PORT + 1);
    let mut other_machine = route;
    other_machine.destination = [2, 9, 9, 9, 9, 9];
    let changed = |at: usize, value: u8| {
        let mut bytes = ours.clone();
        bytes[at] = value;
        // The header checksum is right, so that nobody has another reason.
        let mut ip = smoltcp::wire::Ipv4Packet::new_unchecked(&mut bytes[14..]);
        ip.fill_checksum();
        bytes
    };
    let tagged = [&ours[..12], &[0x81, 0, 0, 5], &ours[12..]].concat();
    let others = [
        frame(&elsewhere, 100, 1),
        frame(&wrong_port, 100, 1),
        frame(&other_machine, 100, 1),
        changed(20, 0x20), // more fragments
        changed(21, 4),    // a later fragment
        changed(23, 6),    // TCP
        changed(14, 0x46), // with an option
        tagged,
    ];
    for other_frame in &others {
        post(one, other_frame);
    }
    post(one, &ours);
    assert_eq!(fetch(other), ours);
    assert_eq!(await_frame(other, 50), None);
}

/// ARP, broadcasts, runts and noise.
fn other_kinds_of_frames(kind: Kind) {
    let mut ends = kind.ends(MTU);
    let route = route_of(&ends);
    let (one, other) = ends.both();
    let ours = frame(&route, 100, 1);
    for length in 14..60 {
        post(one, &ours[..length.min(41)]);
        post(one, &vec![0xff; length]);
        post(one, &vec![0; length]);
    }
    post(one, &ours);
    assert_eq!(fetch(other), ours);
    assert_eq!(await_frame(other, 50), None);
}

/// Datagrams of a kernel that leaves the checksum to hardware which is not there. A port that says that
/// a frame is checked, says so of these; of one that knows nothing they are read all the same.
fn kernel_sends_to_us(kind: Kind) {
    let mut ends = kind.ends(MTU);
    let world = ends.world.take().expect("a kernel");
    let client = world.hosts[0].within(|| UdpSocket::bind("10.9.0.1:0").expect("a port"));
    let port = &mut ends.ports[1];
    client
        .send_to(&[5; 300], ("10.9.0.2", PORT))
        .expect("to send");
    let start = std::time::Instant::now();
    let (bytes, checked) = loop {
        if let Some(frame) = port.receive(now()) {
            break (frame.bytes.to_vec(), frame.checked);
        }
        assert!(start.elapsed() < Duration::from_secs(2));
    };
    assert_eq!(checked, kind == Kind::Packet);
    let read = parse(&bytes, Offload::default()).expect("a datagram");
    assert_eq!(read.payload, [5; 300]);
    // Ten datagrams and a shorter one in one piece, which hardware would have cut.
    client.set_segments(1000);
    client
        .send_to(&[6; 10_100], ("10.9.0.2", PORT))
        .expect("to send");
    for number in 0..11 {
        let Some(bytes) = await_frame(port, 200) else {
            assert!(!kind.takes_joined(), "{number} of 11");
            return;
        };
        let read = parse(&bytes, Offload::default()).expect("a datagram");
        assert!(read.payload == vec![6; if number == 10 { 100 } else { 1000 }]);
    }
    assert_eq!(await_frame(port, 20), None);
    assert_eq!(port.counters().truncated, 0);
}

trait Segments {
    fn set_segments(&self, length: i32);
}

impl Segments for UdpSocket {
    fn set_segments(&self, length: i32) {
        use std::os::fd::AsRawFd;
        let value: *const i32 = &length;
        // SAFETY: four bytes that outlive the call.
        let done = unsafe {
            libc::setsockopt(
                self.as_raw_fd(),
                libc::SOL_UDP,
                libc::UDP_SEGMENT,
                value.cast(),
                4,
            )
        };
        assert_eq!(done, 0);
    }
}
