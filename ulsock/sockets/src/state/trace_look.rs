//! What the recorder of `ulsock trace` is told: what a descriptor is at the moment, and what happens to connections.

use std::net::{IpAddr, SocketAddr};
use std::os::fd::RawFd;
use std::sync::atomic::Ordering;

use netstack::ring::Carrier;
use rendezvous::reason::Reason;
use rendezvous::tracer::{End, Happened, Look, LookFn, Recorder, kind};

use crate::runtime::{process, tracer};
use crate::state::journal::CarrierName;
use crate::state::process_group;
use crate::state::record::{Record, flag};
use crate::state::table::{self, Slot};

/// The recorder is there; `None`: it comes from another build, or ulsock is off.
pub fn attach(recorder: &'static Recorder) -> Option<LookFn> {
    (process::is_on() && tracer::attach(recorder)).then_some(look as LookFn)
}

extern "C" fn look(fd: RawFd) -> Look {
    if !process::is_on() {
        return of_kind(kind::UNKNOWN);
    }
    match table::get(fd) {
        Slot::Record(number) => match process_group::own() {
            Some(family) => connection(number, family.record(number)),
            None => of_kind(kind::SOCKET),
        },
        Slot::Fresh | Slot::Listener | Slot::Young(_) => of_kind(kind::SOCKET),
        Slot::Epoll(_) => of_kind(kind::EPOLL),
        Slot::Foreign | Slot::Internal | Slot::Uring(_) => of_kind(kind::FOREIGN),
    }
}

fn of_kind(kind: u8) -> Look {
    Look {
        what: [kind, 0, 0, 0],
        ..Look::default()
    }
}

fn connection(number: u32, record: &Record) -> Look {
    let name = |carrier| match carrier {
        Carrier::Kernel => CarrierName::Kernel,
        Carrier::Ring(_) if record.has(flag::NIC) => CarrierName::Nic,
        Carrier::Ring(_) => CarrierName::Shm,
    };
    let (tx, rx) = (name(record.tx.carrier()), name(record.rx.carrier()));
    let on_kernel = tx == CarrierName::Kernel || rx == CarrierName::Kernel;
    let reason = match on_kernel {
        true => record.reason(),
        false => Reason::None,
    };
    Look {
        what: [kind::CONNECTION, tx as u8, rx as u8, reason as u8],
        record: number,
        generation: record.generation.load(Ordering::Relaxed),
        unused: 0,
    }
}

/// For [`tracer::happened`].
#[cold]
pub fn happened(
    number: u32,
    record: &Record,
    happening: u32,
    offset: u64,
    reason: Reason,
) -> Happened {
    Happened {
        record: number,
        generation: record.generation.load(Ordering::Relaxed),
        happening,
        reason: reason as u32,
        offset,
        local: end(record.local()),
        peer: end(record.peer()),
    }
}

fn end(address: Option<SocketAddr>) -> End {
    let Some(address) = address else {
        return End::default();
    };
    let bits = match address.ip() {
        IpAddr::V4(ip) => u128::from(ip.to_ipv6_mapped()),
        IpAddr::V6(ip) => u128::from(ip),
    };
    End {
        ip: [(bits >> 64) as u64, bits as u64],
        port: address.port().into(),
    }
}
