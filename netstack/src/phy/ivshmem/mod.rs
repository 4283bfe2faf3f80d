//! Between the virtual machines of one host, over the memory that they share (ivshmem). The kernel
//! module in `kmod/` gives each process its own piece of it.
//!
//! A port has an aperture with a ring for each other port that there may be. It sends by writing into the
//! ring that is its own in the other's aperture; no call carries a frame. A port that sleeps says so there, and is
//! then rung. A frame for which there is no room, or whose address nobody has, is lost, as on any network.

mod card;
mod device;
mod group;
mod lane;
mod layout;
pub mod uapi;

use core::sync::atomic::{Ordering, fence};
use core::time::Duration;
use std::os::fd::{AsFd, BorrowedFd};
use std::path::PathBuf;
use std::sync::Arc;
use std::vec;
use std::vec::Vec;

use rustix::io::{self, Errno};

use self::card::Card;
use self::device::Device;
use self::group::Group;
use self::lane::{Incoming, LaneFrame, word};
use self::layout::{ASLEEP_AT, ApertureLayout};
use super::sys::Map;
use super::{Capabilities, Frame, Port, PortCounters, Trouble};
use crate::time::Instant;
use crate::wire::frame::{ETHERNET, Offload};

/// The first one of a machine.
pub const DEVICE: &str = "/dev/ulnic0";

/// Frames between two flushes.
const BATCH: usize = 128;
/// Between two looks for a member that is not there.
const LOOK: Duration = Duration::from_millis(20);
/// Between two times that we show our card, and read those of the others.
const CHECK: Duration = Duration::from_millis(100);
/// Lanes that are looked at once more in one receive, after nonsense.
const NONSENSE: usize = 16;

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct IvshmemOptions {
    pub device: PathBuf,
    /// Our own number, one of `services`.
    pub service: u64,
    /// The numbers of all ports that may be in one machine: one, but for tests.
    pub services: Vec<u64>,
    pub mtu: usize,
    /// By which the others know us.
    pub address: [u8; 6],
}

impl IvshmemOptions {
    /// For the daemon of a machine, in place of an interface with this address.
    pub fn of_daemon(device: PathBuf, mtu: usize, address: [u8; 6]) -> IvshmemOptions {
        IvshmemOptions {
            device,
            service: uapi::SERVICE_NICD,
            services: vec![uapi::SERVICE_NICD],
            mtu,
            address,
        }
    }
}

#[derive(Debug)]
pub struct Ivshmem {
    /// Before the device: a connection that is mapped cannot be ended.
    group: Group,
    device: Device,
    capabilities: Capabilities,
    aperture: Arc<Map>,
    card: Card,
    lanes: Vec<Incoming>,
    /// Whose turn it is.
    next: usize,
    /// The frame that was given out last, and the one that is to be sent.
    received: Vec<u8>,
    outgoing: Vec<u8>,
    /// Committed since the last flush.
    committed: usize,
    /// The time when we were last called, and when to look again for somebody.
    now: Instant,
    look_at: Instant,
    check_at: Instant,
    /// We have said that we sleep.
    asleep: bool,
    counters: PortCounters,
}

impl Ivshmem {
    pub fn open(options: &IvshmemOptions) -> io::Result<Ivshmem> {
        if !(68..=65535).contains(&options.mtu) || !options.services.contains(&options.service) {
            return Err(Errno::INVAL);
        }
        let device = Device::open(&options.device)?;
        let info = device.info()?;
        let lanes = info.slots as usize * options.services.len();
        let layout = ApertureLayout::within(info.partition, lanes).ok_or(Errno::NOMEM)?;
        let aperture = Arc::new(device.bind(layout.total(), options.service)?);
        let incoming = |number| Incoming::new(aperture.clone(), layout, number);
        let frame = ETHERNET + options.mtu;
        let mut port = Ivshmem {
            group: Group::new(options, info.slot),
            device,
            capabilities: Capabilities {
                mtu: options.mtu,
                address: options.address,
                offload: Offload::default(),
            },
            lanes: (0..lanes).map(incoming).collect(),
            aperture,
            card: Card {
                address: options.address,
                layout,
            },
            next: 0,
            received: vec![0; frame],
            outgoing: vec![0; frame],
            committed: 0,
            now: Instant::ZERO,
            look_at: Instant::ZERO,
            check_at: Instant::ZERO,
            asleep: false,
            counters: PortCounters::default(),
        };
        port.card.show(&port.aperture);
        port.group.look(&port.device)?;
        Ok(port)
    }

    /// Somebody may have scribbled over what we say of ourselves, or over what we have read of the others.
    fn check(&mut self) {
        if self.now < self.check_at {
            return;
        }
        self.check_at = self.now + CHECK;
        self.card.show(&self.aperture);
        self.group.check(&self.device);
    }

    fn say_asleep(&mut self, asleep: bool) {
        self.asleep = asleep;
        word(&self.aperture, ASLEEP_AT).store(asleep.into(), Ordering::Relaxed);
    }

    /// A lane's next frame; its length. Nonsense is counted, and costs the lane its turn.
    fn take(&mut self) -> Option<usize> {
        let count = self.lanes.len();
        for at in 0..count + NONSENSE {
            let number = (self.next + at) % count;
            match self.lanes[number].take(&mut self.received) {
                LaneFrame::Frame(length) if self.is_for_us(length) => {
                    self.next = (number + 1) % count;
                    return Some(length);
                }
                LaneFrame::Frame(_) => self.counters.foreign += 1,
                LaneFrame::Nonsense => self.counters.truncated += 1,
                LaneFrame::Nothing => {}
            }
        }
        None
    }

    fn is_for_us(&self, length: usize) -> bool {
        length >= ETHERNET && self.received[..6] == self.capabilities.address
    }

    /// Sends a frame to the member with its address; if none is known, looks for it.
    fn send(&mut self, length: usize) {
        let frame = &self.outgoing[..length];
        let mut address = [0; 6];
        address.copy_from_slice(&frame[..6]);
        if self.group.send(address, frame) || self.now < self.look_at {
            return;
        }
        self.look_at = self.now + LOOK;
        self.counters.calls += 1;
        if self.group.look(&self.device).is_ok() {
            self.group.send(address, frame);
        }
    }
}

impl Port for Ivshmem {
    fn capabilities(&self) -> Capabilities {
        self.capabilities
    }

    fn receive(&mut self, now: Instant) -> Option<Frame<'_>> {
        self.now = now;
        if self.asleep {
            self.say_asleep(false);
        }
        let length = self.take()?;
        self.counters.frames_received += 1;
        self.counters.bytes_received += length as u64;
        Some(Frame {
            bytes: &self.received[..length],
            checked: false,
        })
    }

    fn slot(&mut self) -> Option<&mut [u8]> {
        (self.committed < BATCH).then_some(&mut self.outgoing[..])
    }

    fn commit(&mut self, length: usize) {
        if !(ETHERNET..=self.outgoing.len()).contains(&length) || self.committed == BATCH {
            self.counters.refused += 1;
            return;
        }
        self.committed += 1;
        self.counters.frames_sent += 1;
        self.counters.bytes_sent += length as u64;
        self.send(length);
    }

    fn flush(&mut self, now: Instant) -> Result<(), Trouble> {
        self.now = now;
        self.check();
        if self.committed > 0 {
            self.committed = 0;
            self.counters.calls += self.group.publish(&self.device);
        }
        Ok(())
    }

    fn wake(&self) -> Option<BorrowedFd<'_>> {
        Some(self.device.as_fd())
    }

    fn lie_down(&mut self) -> bool {
        self.check();
        for (number, lane) in self.lanes.iter_mut().enumerate() {
            lane.show();
            if let Some((offset, position)) = lane.wire() {
                self.counters.calls += 1;
                // It fails only when the device is gone, of which the sleeper hears.
                let _ = self.device.arm(number, offset, position);
            }
        }
        self.say_asleep(true);
        // A sender that published before this has not seen the word; [`Group::publish`] has the other fence.
        fence(Ordering::SeqCst);
        let quiet = !self.lanes.iter().any(Incoming::has_news);
        if !quiet {
            self.say_asleep(false);
        }
        quiet
    }

    fn trouble(&mut self) -> Option<Trouble> {
        match self.device.state() {
            Ok(state) => {
                self.group.bury(&self.device, &state);
                None
            }
            Err(errno) => Some(errno.into()),
        }
    }

    fn counters(&mut self) -> PortCounters {
        PortCounters {
            overruns: self.lanes.iter().map(Incoming::lost).sum(),
            ..self.counters
        }
    }
}
