//! What a library does with the daemon of its host, as far as the daemon sees it: one end of a connection.

use std::net::{SocketAddr, TcpListener, TcpStream};
use std::os::fd::{AsFd, BorrowedFd};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use firmware::{Segment as _, lay_out};
use netstack::failover::Segment as _;
use netstack::ring::mark::LEVEL_SIZE;
use netstack::ring::{Memory, Tripwire, tail};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::net::{AddressFamily, SocketAddrUnix, SocketFlags, SocketType, connect, socket_with};

use super::world::{TestHost, World, eventually};
use crate::door;
use os::tcp;
use rendezvous::channel::Channel;
use rendezvous::channel::address::daemon_file;
use rendezvous::engine_endpoint::Block;
use rendezvous::message::Message;
use rendezvous::pair::{Heard, Mail, Other, Pair};
use rendezvous::reason::Reason;
use shm::layout::{CLAIMER, CONFIRMED, NIC_LEVEL, RELEASED};
use shm::waiter;
use shm::waiter::Waiter;

/// How the daemon is rung.
const DAEMON: u32 = 1 << 16;
/// Ours on every wire.
const SLOT: usize = 1;
pub const KEY: u64 = 0x1234_5678_9abc_def0;

pub fn waiter() -> &'static Waiter {
    shm::waiter::begin_for_tests();
    waiter::take().expect("a waiter")
}

/// The byte at an offset of a stream.
pub fn bytes(from: u64, to: u64) -> Vec<u8> {
    let byte = |at: u64| (at.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 56) as u8;
    (from..to).map(byte).collect()
}

/// A connection between the two hosts.
pub fn streams(world: &World) -> [TcpStream; 2] {
    streams_to(world, world.hosts[1].address())
}

/// A connection to this address of the second host.
pub fn streams_to(world: &World, address: [u8; 4]) -> [TcpStream; 2] {
    let [one, other] = &world.hosts;
    let listener =
        other.within(|| TcpListener::bind(SocketAddr::from((address, 0))).expect("to listen"));
    let to = listener.local_addr().expect("an address");
    let near = one.within(|| TcpStream::connect(to).expect("to connect"));
    [near, listener.accept().expect("to accept").0]
}

pub struct End {
    pub stream: TcpStream,
    pub pair: Arc<Pair>,
    waiter: &'static Waiter,
    connected: bool,
    pub block: Option<Block>,
    pub written: u64,
    pub read: u64,
}

// SAFETY: the pointers of its block lead into a segment that it keeps.
unsafe impl Send for End {}

pub fn meet(host: &TestHost) -> Arc<Pair> {
    let channel = knock(&door_of(host)).expect("a daemon");
    Pair::with(Other::Daemon, channel).expect("a pair")
}

/// Where its daemon listens for programs.
pub fn door_of(host: &TestHost) -> PathBuf {
    let namespace = host.within(|| door::namespace().expect("a namespace"));
    let name = daemon_file(namespace).expect("a name");
    host.run_dir.join(&*name)
}

pub fn knock(door: &Path) -> rustix::io::Result<Channel> {
    let socket = socket_with(
        AddressFamily::UNIX,
        SocketType::SEQPACKET,
        SocketFlags::NONBLOCK | SocketFlags::CLOEXEC,
        None,
    );
    let socket = socket.expect("a socket");
    connect(&socket, &SocketAddrUnix::new(door)?)?;
    Channel::accepted(socket)
}

impl End {
    pub fn new(host: &TestHost, stream: TcpStream, connected: bool) -> End {
        let waiter = waiter();
        End {
            stream,
            pair: meet(host),
            waiter,
            connected,
            block: None,
            written: 0,
            read: 0,
        }
    }

    pub fn show(&self) {
        let cookie = tcp::cookie(self.stream.as_fd()).expect("a cookie");
        let message = Message::Show {
            cookie,
            connected: self.connected,
        };
        assert!(self.pair.tell(&message, Some(self.stream.as_fd())));
    }

    pub fn refusal(&self) -> Reason {
        eventually("a refusal", || {
            self.pair.receive();
            match self.pair.next_mail()? {
                Mail::Refused { reason, .. } => Some(Reason::from_number(reason.into())),
                other => panic!("{other:?}"),
            }
        })
    }

    pub fn take_claim(&mut self) {
        let claim = eventually("a claim", || {
            self.pair.receive();
            self.pair.next_claim()
        });
        let cookie = tcp::cookie(self.stream.as_fd()).expect("a cookie");
        assert_eq!(claim.offer_cookie, cookie);
        let segment = self.pair.segment(claim.segment).expect("a segment");
        let block = Block::of(segment, claim.conn);
        block.theirs().stage.store(CONFIRMED, Ordering::Release);
        assert!(self.pair.hand_over(self.waiter));
        self.block = Some(block);
        self.ring();
    }

    /// A's library proposes nothing before.
    pub fn wait_until_ready(&self) {
        let stage = &self.block().ours().stage;
        eventually("that the peer is ready", || {
            (stage.load(Ordering::Acquire) == CONFIRMED).then_some(())
        });
    }

    fn block(&self) -> &Block {
        self.block.as_ref().expect("a claim")
    }

    pub fn ring(&self) {
        let block = self.block();
        self.pair.ring(&block.segment, CLAIMER, block.conn, DAEMON);
    }

    pub fn propose(&self, epoch: u64) {
        self.wait_until_ready();
        let block = self.block();
        lay_out(block, self.written, self.read);
        let promotion = &block.theirs().promotion;
        promotion.key.store(KEY, Ordering::Relaxed);
        promotion.sent.store(self.written, Ordering::Relaxed);
        promotion.received.store(self.read, Ordering::Relaxed);
        promotion.epoch.store(epoch, Ordering::Release);
        self.ring();
    }

    pub fn wait_until_asked(&self, epoch: u64) {
        let asked = &self.block().ours().promotion.epoch;
        eventually("a proposal", || {
            (asked.load(Ordering::Acquire) == epoch).then_some(())
        });
    }

    pub fn agree(&self, epoch: u64) {
        self.wait_until_asked(epoch);
        let block = self.block();
        let asked = &block.ours().promotion;
        let stands = [&asked.key, &asked.sent, &asked.received];
        let stands = stands.map(|word| word.load(Ordering::Relaxed));
        assert_eq!(stands, [KEY, self.read, self.written]);
        lay_out(block, self.written, self.read);
        let ours = &block.theirs().promotion;
        ours.epoch.store(epoch, Ordering::Release);
        self.ring();
    }

    pub fn wait_until_open(&self) {
        eventually("OPEN", || self.block().tail().is_open().then_some(()));
    }

    pub fn wait_until_refused(&self, epoch: u64) {
        let refused = &self.block().ours().promotion.refused;
        eventually("a refusal", || {
            (refused.load(Ordering::Acquire) == epoch).then_some(())
        });
    }

    pub fn is_frozen(&self) -> bool {
        self.block().tail().is_frozen()
    }

    pub fn wait_until_frozen(&self) {
        eventually("a frozen word", || self.is_frozen().then_some(()));
    }

    fn ring_if(&self, wire: &Tripwire, position: u64) {
        let slots = wire.trip(position);
        for slot in (0..32).filter(|slot| slots & 1 << slot != 0) {
            let block = self.block();
            let name = wire.name(slot);
            let heard = self.pair.ring(&block.segment, CLAIMER, block.conn, name);
            assert_ne!(heard, Heard::Later);
        }
    }

    /// As much as there is room for; how much.
    pub fn write(&mut self, up_to: u64) -> u64 {
        let size = LEVEL_SIZE[usize::from(NIC_LEVEL)];
        let block = self.block();
        let end = up_to.min(block.freed() + size);
        let half = block.sending();
        let mut at = self.written;
        while at < end {
            let place = at & (size - 1);
            let step = (end - at).min(size - place) as usize;
            let some = bytes(at, at + step as u64);
            half.memory
                .fill(NIC_LEVEL, place as usize, step, &mut &some[..]);
            at += step as u64;
        }
        half.shared.producer.tail.store(at, Ordering::SeqCst);
        self.ring_if(&half.shared.wait.data, at);
        let count = at - self.written;
        self.written = at;
        count
    }

    /// All that is there, byte for byte.
    pub fn read(&mut self) -> u64 {
        let size = LEVEL_SIZE[usize::from(NIC_LEVEL)];
        let block = self.block();
        let end = block.tail().offset();
        let half = block.receiving();
        let mut at = self.read;
        while at < end {
            let place = at & (size - 1);
            let step = (end - at).min(size - place) as usize;
            let mut some = vec![0; step];
            let to = &mut &mut some[..];
            half.memory.drain(NIC_LEVEL, place as usize, step, to);
            assert!(some == bytes(at, at + step as u64), "at {at}");
            at += step as u64;
        }
        half.shared.consumer.head.store(at, Ordering::SeqCst);
        self.ring_if(&half.shared.room.space, at);
        let count = at - self.read;
        self.read = at;
        count
    }

    pub fn has_ended(&self) -> bool {
        let tail = self.block().tail();
        tail.has_ended() && tail.offset() == self.read
    }

    /// Sleeps until there is a byte more to read, or room to write, as a library does.
    pub fn sleep(&self, wants_room: bool) {
        let block = self.block();
        let name = self.waiter.number;
        let (data, space) = (
            &block.receiving().shared.wait.data,
            &block.sending().shared.room.space,
        );
        data.arm(SLOT, name, self.read + 1);
        if wants_room {
            space.arm(SLOT, name, block.freed() + 1);
        }
        self.waiter.lie_down();
        let tail = block.tail();
        let size = LEVEL_SIZE[usize::from(NIC_LEVEL)];
        let news = tail.offset() > self.read
            || tail.has_ended()
            || tail.is_frozen()
            || wants_room && block.freed() + size > self.written;
        if !news {
            let bells: Vec<_> = self.waiter.bells().map(|bell| bell.wait_fd()).collect();
            let mut fds: Vec<_> = bells
                .iter()
                .map(|fd| PollFd::from_borrowed_fd(*fd, PollFlags::IN))
                .collect();
            let time = Timespec::try_from(Duration::from_secs(10)).expect("a time");
            assert!(
                poll(&mut fds, Some(&time)).expect("poll") > 0,
                "nobody rang"
            );
        }
        self.waiter.get_up();
        self.waiter.silence();
        data.disarm(SLOT);
        space.disarm(SLOT);
    }

    /// Writes and reads so much, then says its end and reads to that of the other.
    pub fn exchange(&mut self, write: u64, read: u64) {
        while self.written < write || self.read < read {
            let moved = self.write(write) + self.read();
            if moved == 0 {
                self.sleep(self.written < write);
            }
        }
    }

    pub fn say_end(&self) {
        let producer = &self.block().sending().shared.producer;
        producer.closed.store(1, Ordering::SeqCst);
        self.ring();
    }

    /// `[F24]`
    pub fn leave(&mut self) {
        let socket = self.stream.try_clone().expect("a duplicate");
        self.leave_with(socket.as_fd());
    }

    /// With any descriptor.
    pub fn leave_with(&mut self, socket: BorrowedFd<'_>) {
        self.say_end();
        let block = self.block.take().expect("a claim");
        let message = Message::Leave {
            segment: block.segment.number,
            conn: block.conn,
        };
        assert!(self.pair.tell(&message, Some(socket)));
        block.theirs().stage.store(RELEASED, Ordering::Release);
    }

    /// Goes back to the kernel, and lets go of the block.
    pub fn let_go(&mut self) {
        let block = self.block.take().expect("a claim");
        tail::freeze(&block.receiving().shared.producer.tail);
        block.theirs().stage.store(RELEASED, Ordering::Release);
    }
}
