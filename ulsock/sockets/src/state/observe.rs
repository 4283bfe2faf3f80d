//! What the programs of this host do, seen from outside: for `ulsock top`, `stats`, `events` and `metrics`.
//!
//! It is read from what the programs have in memory for themselves (`process_group::found`), as far as we may. Nothing of that is trusted.

mod follower;
mod pids;

use std::mem::MaybeUninit;
use std::os::fd::AsFd;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, SystemTime};

use netstack::ring::Carrier;
use netstack::ring::mark::{LEVEL_SIZE, LEVELS};
use netstack::shared_memory::InSharedMemory;

use crate::runtime::waits::Wait;
use crate::state::journal::CarrierName;
use crate::state::kernel_only;
use crate::state::process_group::found::FoundFamily;
pub use crate::state::process_group::found::Reach;
use crate::state::process_group::{Header, MAGIC, RECORDS, found, offset_of};
pub use crate::state::record::Endpoint;
use crate::state::record::{Counts, Record, State, flag};
use os::fds::Transient;
use os::plain::plain;
use rendezvous::reason::Reason;

pub use follower::{Follower, News, ProgramEvent};
pub(in crate::state) use pids::Pids;

/// A live connection.
#[derive(Clone, Debug)]
pub struct ConnectionRow {
    /// Of its program: [`ProgramRow::family`].
    pub family: u64,
    pub pid: u32,
    /// As it can be printed.
    pub program: String,
    /// Together they name the connection within its program.
    pub record: u32,
    pub generation: u32,
    pub born: SystemTime,
    pub local: Option<Endpoint>,
    pub peer: Option<Endpoint>,
    pub carrier_tx: &'static str,
    pub carrier_rx: &'static str,
    /// How much the ring holds that it sends by; 0 on the kernel.
    pub tx_ring: u64,
    pub tx_bytes: u64,
    pub rx_bytes: u64,
    pub tx_msgs: u64,
    pub rx_msgs: u64,
    /// Why it is on the kernel; empty when it is not.
    pub reason: &'static str,
    pub holders: u32,
}

/// Bytes by carrier and direction.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Carried {
    pub ring_tx: u64,
    pub ring_rx: u64,
    pub kernel_tx: u64,
    pub kernel_rx: u64,
}

impl Carried {
    fn from_counters(counters: [&AtomicU64; 4]) -> Carried {
        let [ring_tx, ring_rx, kernel_tx, kernel_rx] =
            counters.map(|counter| counter.load(Ordering::Relaxed));
        Carried {
            ring_tx,
            ring_rx,
            kernel_tx,
            kernel_rx,
        }
    }

    pub fn add(&mut self, other: Carried) {
        for (sum, more) in [
            (&mut self.ring_tx, other.ring_tx),
            (&mut self.ring_rx, other.ring_rx),
            (&mut self.kernel_tx, other.kernel_tx),
            (&mut self.kernel_rx, other.kernel_rx),
        ] {
            *sum = sum.wrapping_add(more);
        }
    }
}

/// How the waits of a program ended, and whom it has woken.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct WaitCounts {
    pub awake: u64,
    pub in_vain: u64,
    pub slept: u64,
    pub woke: u64,
}

/// What has happened to the connections of a program, since its start. Moves are counted where a connection sends.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Happened {
    pub opened: u64,
    pub closed: u64,
    pub reset: u64,
    pub promoted_shm: u64,
    pub promoted_nic: u64,
    pub left_shm: u64,
    pub left_nic: u64,
}

/// A program with the processes that it has forked, since its start.
#[derive(Clone, Debug)]
pub struct ProgramRow {
    /// Names it among those that live.
    pub family: u64,
    /// One of its processes.
    pub pid: u32,
    pub program: String,
    pub processes: u32,
    /// That it has had, and that live.
    pub connections: u64,
    pub live: u64,
    /// That were on rings, and those of them that went to other hosts.
    pub upgraded: u64,
    pub to_other_hosts: u64,
    pub carried: Carried,
    pub waits: WaitCounts,
    pub happened: Happened,
    /// Copied for `ulsock capture`, since the program began.
    pub copied_bytes: u64,
    /// Why connections ended on the kernel, and how many.
    pub ended: Vec<(&'static str, u64)>,
    pub connection_rows: Vec<ConnectionRow>,
}

/// All that we may look at.
pub fn programs(reach: &Reach) -> Vec<ProgramRow> {
    let mut rows = Vec::new();
    each_program(reach, |program, _| rows.push(program));
    rows
}

/// The same, each with its memory.
pub fn each_program(reach: &Reach, mut each: impl FnMut(ProgramRow, &FoundFamily)) {
    found::each(reach, |family| {
        if let Some(row) = program(&family) {
            each(row, &family);
        }
    });
}

/// One of them.
pub(in crate::state) fn program(family: &FoundFamily) -> Option<ProgramRow> {
    row(family, name(family.pid)?, true)
}

/// Their live connections.
pub fn live(reach: &Reach) -> Vec<ConnectionRow> {
    let programs = programs(reach).into_iter();
    programs
        .flat_map(|program| program.connection_rows)
        .collect()
}

/// Of a program that lives.
pub(in crate::state) fn name(pid: u32) -> Option<String> {
    let name = std::fs::read(format!("/proc/{pid}/comm")).ok()?;
    Some(plain(name.trim_ascii_end()))
}

/// Where numbers say nothing, because the program has ended, all processes have its name.
fn row(family: &FoundFamily, program: String, lives: bool) -> Option<ProgramRow> {
    let pids = lives.then(|| Pids::of(family.pid));
    let holder = |inner: u32| match pids.as_ref().map(|pids| pids.known(inner)) {
        Some(Some(pid)) => Some((pid, name(pid)?)),
        _ => Some((family.pid, program.clone())),
    };
    let header = read_header(&family.records)?;
    let highest = header.highest.load(Ordering::Relaxed).min(RECORDS as u32) as usize;
    let load = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
    let mut row = ProgramRow {
        family: family.inode,
        pid: family.pid,
        program: program.clone(),
        processes: header.members.load(Ordering::Relaxed),
        connections: load(&header.connections),
        live: 0,
        upgraded: load(&header.upgrades),
        to_other_hosts: load(&header.links),
        carried: Carried::from_counters(header.carried.each_ref()),
        waits: wait_counts(&header),
        happened: happened(&header),
        copied_bytes: load(&header.capture.counters.bytes),
        ended: ended(&header),
        connection_rows: Vec::new(),
    };
    for number in 0..highest {
        let Some(record) = read_at::<Record>(&family.records, offset_of(number)) else {
            break;
        };
        let pid = record.pid.load(Ordering::Relaxed);
        if !is_live(&record) {
            continue;
        }
        let Some(holder) = holder(pid) else { continue };
        let connection = connection(family.inode, number as u32, holder, &record);
        row.live += 1;
        row.upgraded += u64::from(record.has(flag::UPGRADED));
        row.to_other_hosts += u64::from(record.nic.is_used());
        row.carried.add(carried(&record, &connection));
        row.connection_rows.push(connection);
    }
    Some(row)
}

fn ended(header: &Header) -> Vec<(&'static str, u64)> {
    let count = |reason: Reason| header.reasons[reason as usize].load(Ordering::Relaxed);
    let named = Reason::ALL
        .iter()
        .map(|&reason| (reason.name(), count(reason)));
    named
        .filter(|(name, count)| !name.is_empty() && *count > 0)
        .collect()
}

fn wait_counts(header: &Header) -> WaitCounts {
    WaitCounts {
        awake: header.waits.of(Wait::Awake),
        in_vain: header.waits.of(Wait::InVain),
        slept: header.waits.of(Wait::Slept),
        woke: header.waits.of(Wait::Woke),
    }
}

fn happened(header: &Header) -> Happened {
    let counters = header.happened.each_ref();
    let counts = counters.map(|counter| counter.load(Ordering::Relaxed));
    let [
        opened,
        closed,
        reset,
        promoted_shm,
        promoted_nic,
        left_shm,
        left_nic,
    ] = counts;
    Happened {
        opened,
        closed,
        reset,
        promoted_shm,
        promoted_nic,
        left_shm,
        left_nic,
    }
}

/// The kernel itself was asked for those that are left alone.
fn carried(record: &Record, row: &ConnectionRow) -> Carried {
    let mut carried = Carried::from_counters(record.carried());
    if kernel_only::is_left(record) {
        (carried.kernel_tx, carried.kernel_rx) = (row.tx_bytes, row.rx_bytes);
    }
    carried
}

fn is_live(record: &Record) -> bool {
    let is_held = record.state() != State::Free && record.procs.load(Ordering::Relaxed) > 0;
    is_held && record.is_connection()
}

fn connection(
    family: u64,
    number: u32,
    (pid, program): (u32, String),
    record: &Record,
) -> ConnectionRow {
    let carrier = |carrier| match carrier {
        Carrier::Kernel => CarrierName::Kernel,
        Carrier::Ring(_) if record.has(flag::NIC) => CarrierName::Nic,
        Carrier::Ring(_) => CarrierName::Shm,
    };
    let (tx, rx) = (&record.tx.counts, &record.rx.counts);
    let bytes = |counts: &Counts| {
        let ring = counts.ring_bytes.load(Ordering::Relaxed);
        ring.wrapping_add(counts.kernel_bytes.load(Ordering::Relaxed))
    };
    let (mut tx_bytes, mut rx_bytes) = (bytes(tx), bytes(rx));
    if kernel_only::is_left(record)
        && let Some(passed) = kernel_only::of_another(record.local(), record.peer())
    {
        (tx_bytes, rx_bytes) = (passed.sent, passed.received);
    }
    let (carrier_tx, carrier_rx) = (carrier(record.tx.carrier()), carrier(record.rx.carrier()));
    let on_kernel = carrier_tx == CarrierName::Kernel || carrier_rx == CarrierName::Kernel;
    let born = Duration::from_nanos(record.born.load(Ordering::Relaxed));
    ConnectionRow {
        family,
        pid,
        program,
        record: number,
        generation: record.generation.load(Ordering::Relaxed),
        born: SystemTime::UNIX_EPOCH + born,
        local: record.endpoints()[0],
        peer: record.endpoints()[1],
        carrier_tx: carrier_tx.name(),
        carrier_rx: carrier_rx.name(),
        tx_ring: match record.tx.carrier() {
            Carrier::Kernel => 0,
            Carrier::Ring(level) => LEVEL_SIZE[level as usize % LEVELS],
        },
        tx_bytes,
        rx_bytes,
        tx_msgs: tx.messages.load(Ordering::Relaxed),
        rx_msgs: rx.messages.load(Ordering::Relaxed),
        reason: if on_kernel {
            record.reason().name()
        } else {
            ""
        },
        holders: record.procs.load(Ordering::Relaxed),
    }
}

fn read_header(file: &Transient) -> Option<Header> {
    let header = read_at::<Header>(file, 0)?;
    let size = header.record_size.load(Ordering::Relaxed) as usize;
    let is_ours = header.magic.load(Ordering::Relaxed) == MAGIC && size == size_of::<Record>();
    is_ours.then_some(header)
}

/// What lies in a file that its family has mapped. None of it is trusted.
pub(in crate::state) fn read_at<T: InSharedMemory>(file: &Transient, offset: usize) -> Option<T> {
    let mut value = MaybeUninit::<T>::zeroed();
    // SAFETY: the value's own bytes, all of which are initialised (zero), and which nobody else reaches.
    let bytes = unsafe {
        std::slice::from_raw_parts_mut(value.as_mut_ptr().cast::<u8>(), std::mem::size_of::<T>())
    };
    let n = rustix::io::pread(file.as_fd(), &mut *bytes, offset as u64).ok()?;
    // SAFETY: any pattern of bits is a value of a type that may lie in shared memory (`InSharedMemory`).
    (n == bytes.len()).then(|| unsafe { value.assume_init() })
}

/// Words that lie in such a file. `false`: not all are there.
pub(in crate::state) fn read_words(file: &Transient, offset: usize, to: &mut [u64]) -> bool {
    let len = std::mem::size_of_val(to);
    // SAFETY: the words' own bytes, which nobody else reaches; any bytes are words.
    let bytes = unsafe { std::slice::from_raw_parts_mut(to.as_mut_ptr().cast::<u8>(), len) };
    rustix::io::pread(file.as_fd(), bytes, offset as u64) == Ok(len)
}
