//! What a port is: where frames leave and arrive. `phy` has those that there are.

use alloc::boxed::Box;
#[cfg(feature = "std")]
use std::os::fd::BorrowedFd;

use crate::time::Instant;
use crate::wire::Addresses;
use crate::wire::frame::{ETHERNET, Offload};

/// What a port can do. What it does not say, it does not do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Capabilities {
    /// Bytes of IP in a frame, as they were when the port was opened.
    pub mtu: usize,
    /// Its hardware address.
    pub address: [u8; 6],
    /// `[W6]` UDP checksums that it fills in by itself, and that it checks in every frame. The header
    /// checksum of IPv4 is never its business.
    pub offload: Offload,
}

impl Capabilities {
    /// Bytes of the largest frame.
    pub fn frame(&self) -> usize {
        ETHERNET + self.mtu
    }
}

/// A received frame, from the Ethernet header on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Frame<'a> {
    pub bytes: &'a [u8],
    /// Its UDP checksum need not be looked at: hardware has, or it has not left this machine, and the
    /// kernel has not computed any.
    pub checked: bool,
}

/// What has passed since the port was opened.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PortCounters {
    pub frames_received: u64,
    pub bytes_received: u64,
    pub frames_sent: u64,
    pub bytes_sent: u64,
    /// Frames that came for us while there was no room for them. Several that came in one piece may count as one.
    pub overruns: u64,
    /// Received frames that were not whole.
    pub truncated: u64,
    /// Received frames that were not for us.
    pub foreign: u64,
    /// Frames of an impossible length that we should have sent.
    pub refused: u64,
    /// System calls made for the sake of frames.
    pub calls: u64,
}

/// Why nothing leaves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Trouble {
    /// The interface is down. It may come up again.
    Down,
    /// The interface is gone for good.
    Gone,
    /// By its errno.
    Failed(i32),
}

/// A way onto a network.
pub trait Port {
    fn capabilities(&self) -> Capabilities;

    /// Frames will go from the one end to the other: for a port that has to know its peers. Once more for the same
    /// two is as good as once.
    fn meet(&mut self, _ends: &Addresses) -> Result<(), Trouble> {
        Ok(())
    }

    /// The next frame that has arrived, where it lies. `None`: there is none, and all buffers are back
    /// with the side that fills them.
    fn receive(&mut self, now: Instant) -> Option<Frame<'_>>;

    /// Where the next frame to send is to be written: room for the largest. It is the same again until
    /// [`Port::commit`]. `None`: there is no room before some frames have left.
    fn slot(&mut self) -> Option<&mut [u8]>;

    /// The first `length` bytes of the slot are a frame, which leaves with the next flush. One that is
    /// shorter than its Ethernet header or longer than the slot is refused and counted.
    fn commit(&mut self, length: usize);

    /// Sends what is committed. In trouble frames stay where they are as long as there are slots, and
    /// may leave late; or they are lost, where others would have to wait for them.
    fn flush(&mut self, now: Instant) -> Result<(), Trouble>;

    /// When the port is to be flushed or read without any wake-up: its driver was busy, or the network is
    /// simulated.
    fn deadline(&self) -> Option<Instant> {
        None
    }

    /// Becomes readable when frames arrive. `None`: the port can only be polled. If it reports an error
    /// instead, [`Port::trouble`] says which, and ends it.
    #[cfg(feature = "std")]
    fn wake(&self) -> Option<BorrowedFd<'_>> {
        None
    }

    /// The caller will sleep until [`Port::wake`] has something; [`Port::receive`] says that it is awake again.
    /// `false`: something has come by now.
    fn lie_down(&mut self) -> bool {
        true
    }

    /// What has befallen the port since the last time; frames may arrive all the same.
    fn trouble(&mut self) -> Option<Trouble> {
        None
    }

    /// Asks the kernel for what it counts.
    fn counters(&mut self) -> PortCounters;
}

impl<P: Port + ?Sized> Port for Box<P> {
    fn capabilities(&self) -> Capabilities {
        (**self).capabilities()
    }

    fn meet(&mut self, ends: &Addresses) -> Result<(), Trouble> {
        (**self).meet(ends)
    }

    fn receive(&mut self, now: Instant) -> Option<Frame<'_>> {
        (**self).receive(now)
    }

    fn slot(&mut self) -> Option<&mut [u8]> {
        (**self).slot()
    }

    fn commit(&mut self, length: usize) {
        (**self).commit(length);
    }

    fn flush(&mut self, now: Instant) -> Result<(), Trouble> {
        (**self).flush(now)
    }

    fn deadline(&self) -> Option<Instant> {
        (**self).deadline()
    }

    #[cfg(feature = "std")]
    fn wake(&self) -> Option<BorrowedFd<'_>> {
        (**self).wake()
    }

    fn lie_down(&mut self) -> bool {
        (**self).lie_down()
    }

    fn trouble(&mut self) -> Option<Trouble> {
        (**self).trouble()
    }

    fn counters(&mut self) -> PortCounters {
        (**self).counters()
    }
}
