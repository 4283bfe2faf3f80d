//! A link over each port: the loop that an engine will have, with one connection.

use std::net::SocketAddr;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::Duration;

use netstack::crc32c::Crc;
use netstack::link::window::{Adaptive, Window};
use netstack::link::{Arrival, Config, Event, Frozen, Id, Identity, Link, Streams, Terms, Way};
use netstack::phy::{Conditions, Impaired, Port};
use netstack::time::Instant;
use netstack::wire::Addresses;
use netstack::wire::frame::{Offload, Route, parse};
use rustix::event::{PollFd, PollFlags, Timespec, poll};

use crate::frames::{FROM, Family, PORT, address, now};
use crate::on_every_port;
use crate::rig::{AnyPort, Kind};

on_every_port!(streams, streams_of_jumbo_frames, impaired_streams);

const RING: u64 = 1 << 20;

/// Both directions of one connection: what is sent is known without being kept.
struct Rings {
    seed: u64,
    peer_seed: u64,
    total: u64,
    released: u64,
    memory: Vec<u8>,
    tail: u64,
    read: u64,
    ended: bool,
}

fn byte(seed: u64, offset: u64) -> u8 {
    let word = (offset / 8 + seed).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    word.to_le_bytes()[(offset % 8) as usize]
}

impl Streams for Rings {
    fn fetch(&mut self, _: Id, offset: u64, into: &mut [u8], crc: Crc) -> Crc {
        assert!(offset >= self.released && offset + into.len() as u64 <= self.total);
        for (at, to) in (offset..).zip(into.iter_mut()) {
            *to = byte(self.seed, at);
        }
        crc.over(into)
    }

    fn place(&mut self, _: Id, offset: u64, bytes: &[u8], crc: Crc) -> Crc {
        assert!(offset >= self.tail && offset + bytes.len() as u64 <= self.read + RING);
        for (at, value) in (offset..).zip(bytes) {
            self.memory[(at % RING) as usize] = *value;
        }
        crc.over(bytes)
    }

    fn publish(&mut self, _: Id, offset: u64, ended: bool) -> Result<(), Frozen> {
        self.tail = offset;
        self.ended = ended;
        Ok(())
    }

    fn release(&mut self, _: Id, offset: u64) {
        self.released = offset;
    }
}

impl Rings {
    /// Reads all there is, and looks at each byte.
    fn read(&mut self) -> Option<u64> {
        if self.read == self.tail {
            return None;
        }
        for at in self.read..self.tail {
            let found = self.memory[(at % RING) as usize];
            assert_eq!(found, byte(self.peer_seed, at), "at {at}");
        }
        self.read = self.tail;
        Some(self.read)
    }
}

struct Host<P, W> {
    port: P,
    link: Link<W>,
    rings: Rings,
    route: Route,
    id: Id,
    closed: bool,
}

impl<P: Port, W: Window + Clone> Host<P, W> {
    fn new(port: P, me: u8, peer: [u8; 6], total: u64, window: W) -> Host<P, W> {
        let end = |host, port| SocketAddr::new(address(Family::V4, host), port);
        let to = |host: u8| Addresses {
            source: end(3 - host, FROM),
            destination: end(host, PORT),
        };
        let way = Way {
            outgoing: to(3 - me),
            incoming: to(me),
        };
        let identity = Identity {
            incarnation: 77 + u64::from(me),
            tag: 7 + u32::from(me),
            secret: [1, me.into()],
        };
        let mut config = Config::new(identity, vec![way]);
        let capabilities = port.capabilities();
        config.mtu = capabilities.mtu;
        let mut link = Link::new(config, window);
        let terms = Terms {
            name: 5,
            send_from: 0,
            receive_from: 0,
            ring: RING,
        };
        let id = if me == 1 {
            link.open(now(), &terms)
        } else {
            link.expect(&terms)
        };
        let id = id.expect("room");
        link.has_data(now(), id, total);
        link.close(now(), id);
        Host {
            port,
            link,
            rings: Rings {
                seed: me.into(),
                peer_seed: u64::from(3 - me),
                total,
                released: 0,
                memory: vec![0; RING as usize],
                tail: 0,
                read: 0,
                ended: false,
            },
            route: Route::new(capabilities.address, peer, &way.outgoing).expect("one family"),
            id,
            closed: false,
        }
    }

    /// Whether anything has happened.
    fn turn(&mut self) -> bool {
        let received = self.receive(now());
        if let Some(read) = self.rings.read() {
            self.link.has_read(now(), self.id, read);
        }
        let sent = self.transmit(now());
        while let Some(event) = self.link.event() {
            match event {
                Event::Closed(_) => self.closed = true,
                Event::Reset { .. } | Event::Frozen(_) | Event::Lost { .. } | Event::Dead(_) => {
                    panic!("{event:?}")
                }
                _ => {}
            }
        }
        received + sent > 0
    }

    fn receive(&mut self, now: Instant) -> usize {
        let mut count = 0;
        while let Some(frame) = self.port.receive(now) {
            count += 1;
            let offload = Offload {
                udp_received: frame.checked,
                ..Offload::default()
            };
            if let Ok(datagram) = parse(frame.bytes, offload) {
                let arrival = Arrival {
                    addresses: datagram.addresses,
                    ecn: datagram.ecn,
                    payload: datagram.payload,
                };
                let _ = self.link.receive(now, &arrival, &mut self.rings);
            }
            if count == 64 {
                break;
            }
        }
        count
    }

    fn transmit(&mut self, now: Instant) -> usize {
        let start = self.route.overhead();
        let offload = self.port.capabilities().offload;
        let mut count = 0;
        while let Some(slot) = self.port.slot() {
            let Some(departure) = self.link.transmit(now, &mut self.rings, &mut slot[start..])
            else {
                break;
            };
            let (ecn, length) = (departure.ecn, departure.length);
            let frame = self.route.emit(slot, ecn, length, offload);
            self.port.commit(frame.expect("it fits"));
            count += 1;
        }
        self.port.flush(now).expect("to send");
        count
    }

    /// Until something arrives, or is due.
    fn sleep(&mut self) {
        let due = [self.link.deadline(), self.port.deadline()];
        let due = due.into_iter().flatten().min();
        let Some(wake) = self.port.wake() else {
            thread::yield_now();
            return;
        };
        // The other end may be through: look now and then whether it is.
        let most = Duration::from_millis(50);
        let time = due.map_or(most, |at| (at - now()).min(most));
        let time = Timespec {
            tv_sec: 0,
            tv_nsec: time.as_nanos() as i64,
        };
        let mut fds = [PollFd::from_borrowed_fd(wake, PollFlags::IN)];
        poll(&mut fds, Some(&time)).expect("poll");
    }

    /// Until both ends are through.
    fn run(&mut self, through: &AtomicUsize) {
        let end = now() + Duration::from_secs(60);
        let mut told = false;
        while through.load(Ordering::Relaxed) < 2 {
            if !self.turn() {
                self.sleep();
            }
            if self.closed && !told {
                told = true;
                through.fetch_add(1, Ordering::Relaxed);
            }
            assert!(now() < end, "{} of {}", self.rings.read, self.rings.total);
        }
        assert!(self.rings.ended);
        assert_eq!(self.rings.read, self.rings.total);
        assert_eq!(self.rings.released, self.rings.total);
    }
}

fn run(one: impl Port + Send, other: impl Port + Send, total: u64) {
    let (here, there) = (one.capabilities().address, other.capabilities().address);
    let through = AtomicUsize::new(0);
    let start = now();
    let mut one = Host::new(one, 1, there, total, Adaptive::new());
    let mut other = Host::new(other, 2, here, total, Adaptive::new());
    thread::scope(|scope| {
        let run = scope.spawn(|| one.run(&through));
        other.run(&through);
        run.join().expect("the other");
    });
    let seconds = (now() - start).as_secs_f64();
    println!(
        "{:.0} Mb/s each way; {:?}",
        total as f64 * 8e-6 / seconds,
        one.port.counters()
    );
}

fn ends(kind: Kind, mtu: usize, total: u64) {
    let ends = kind.ends(mtu);
    let [one, other] = ends.ports;
    run(one, other, total);
}

fn streams(kind: Kind) {
    ends(kind, 1500, kind.volume());
}

fn streams_of_jumbo_frames(kind: Kind) {
    ends(kind, 9000, kind.volume());
}

fn impaired_streams(kind: Kind) {
    let conditions = Conditions {
        latency: Duration::from_micros(20),
        jitter: Duration::from_micros(50),
        loss: 0.01,
        burst: 0.3,
        duplication: 0.01,
        corruption: 0.01,
        truncation: 0.005,
        detour: (0.01, Duration::from_millis(1)),
        ..Conditions::default()
    };
    let impaired = |port: AnyPort, seed| Impaired::new(port, conditions.clone(), seed);
    let ends = kind.ends(1500);
    let [one, other] = ends.ports;
    run(
        impaired(one, 3),
        impaired(other, 4),
        kind.volume().min(4_000_000),
    );
}
