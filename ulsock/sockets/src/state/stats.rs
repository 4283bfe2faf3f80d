//! What the connections do: live ones for `ulsock top`, all of them in the report at exit.

use std::fmt::Write;
use std::mem::MaybeUninit;
use std::net::SocketAddr;
use std::os::fd::AsFd;
use std::path::Path;
use std::sync::OnceLock;
use std::sync::atomic::Ordering;

use netstack::ring::Carrier;
use netstack::shared_memory::InSharedMemory;
use rustix::fs::{Mode, OFlags};
use rustix::io;

use crate::runtime::process;
use crate::state::kernel_only;
use crate::state::process_group::{Header, MAGIC, ProcessGroup, RECORDS, found};
use crate::state::record::{Counts, Record, State, flag};
use os;
use os::fds::InternalFd;
use os::fds::Transient;
use os::log;
use os::plain::plain;
use os::proc;
use rendezvous::config::Report;
use rendezvous::reason::{PLACES, Reason};
use rendezvous::rundir::RunDir;

/// A live connection of this host.
#[derive(Clone, Debug)]
pub struct ConnectionRow {
    pub pid: u32,
    /// As it can be printed.
    pub program: String,
    pub local: Option<SocketAddr>,
    pub peer: Option<SocketAddr>,
    pub carrier_tx: &'static str,
    pub carrier_rx: &'static str,
    pub tx_bytes: u64,
    pub rx_bytes: u64,
    pub tx_msgs: u64,
    pub rx_msgs: u64,
    /// Why it is on the kernel; empty when it is not.
    pub reason: &'static str,
    pub holders: u32,
}

/// Every connection of every family of the run directory that we may look at.
pub fn live(dir: &RunDir) -> Vec<ConnectionRow> {
    let mut rows = Vec::new();
    found::each(dir, |file| read_family(file, &mut rows));
    rows
}

/// Reads a family's records; nothing in them is trusted.
fn read_family(file: &Transient, rows: &mut Vec<ConnectionRow>) {
    let Some(header) = read_at::<Header>(file, 0) else {
        return;
    };
    let size = std::mem::size_of::<Record>();
    if header.magic.load(Ordering::Relaxed) != MAGIC
        || header.record_size.load(Ordering::Relaxed) as usize != size
    {
        return;
    }
    let highest = header.highest.load(Ordering::Relaxed).min(RECORDS as u32) as usize;
    let first = std::mem::size_of::<Header>();
    let records = (0..highest).map_while(|number| read_at::<Record>(file, first + number * size));
    rows.extend(records.filter_map(|record| row(&record)));
}

/// What lies in a file that its family has mapped. None of it is trusted.
fn read_at<T: InSharedMemory>(file: &Transient, offset: usize) -> Option<T> {
    let mut value = MaybeUninit::<T>::zeroed();
    // SAFETY: the value's own bytes, all of which are initialised (zero), and which nobody else reaches.
    let bytes = unsafe {
        std::slice::from_raw_parts_mut(value.as_mut_ptr().cast::<u8>(), std::mem::size_of::<T>())
    };
    let n = rustix::io::pread(file.as_fd(), &mut *bytes, offset as u64).ok()?;
    // SAFETY: any pattern of bits is a value of a type that may lie in shared memory (`InSharedMemory`).
    (n == bytes.len()).then(|| unsafe { value.assume_init() })
}

fn row(record: &Record) -> Option<ConnectionRow> {
    let is_held = record.state() != State::Free && record.procs.load(Ordering::Relaxed) > 0;
    if !is_held || !record.is_connection() {
        return None;
    }
    let pid = record.pid.load(Ordering::Relaxed);
    let program = std::fs::read(format!("/proc/{pid}/comm")).ok()?;
    let name = |carrier| match carrier {
        Carrier::Kernel => "kernel",
        Carrier::Ring(_) if record.has(flag::NIC) => "nic",
        Carrier::Ring(_) => "shm",
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
    let (carrier_tx, carrier_rx) = (name(record.tx.carrier()), name(record.rx.carrier()));
    let on_kernel = carrier_tx == "kernel" || carrier_rx == "kernel";
    Some(ConnectionRow {
        pid,
        program: plain(program.trim_ascii_end()),
        local: record.local(),
        peer: record.peer(),
        carrier_tx,
        carrier_rx,
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
    })
}

/// What this process's family has carried, the living and the dead together.
struct Totals {
    connections: u64,
    upgraded: u64,
    /// Of those, on the link to another host.
    linked: u64,
    /// Ring sent, ring received, kernel sent, kernel received.
    carried: [u64; 4],
    reasons: [u64; PLACES],
}

impl Totals {
    fn of(family: &ProcessGroup) -> Totals {
        let header = family.header();
        let load = |counter: &std::sync::atomic::AtomicU64| counter.load(Ordering::Relaxed);
        let mut totals = Totals {
            connections: load(&header.connections),
            upgraded: load(&header.upgrades),
            linked: load(&header.links),
            carried: std::array::from_fn(|n| load(&header.carried[n])),
            reasons: std::array::from_fn(|n| load(&header.reasons[n])),
        };
        for number in family.held() {
            let record = family.record(number);
            if let Some(fd) =
                crate::state::process_group::fd_of(number).filter(|_| kernel_only::is_left(record))
            {
                kernel_only::count(record, fd);
            }
            totals.upgraded += u64::from(record.has(flag::UPGRADED));
            totals.linked += u64::from(record.has(flag::NIC_USED));
            for (total, counter) in totals.carried.iter_mut().zip(record.carried()) {
                *total += load(counter);
            }
            totals.reasons[record.reason() as usize % PLACES] += u64::from(record.is_connection());
        }
        totals
    }

    fn json(&self, program: &str) -> String {
        let [ring_tx, ring_rx, kernel_tx, kernel_rx] = self.carried;
        let mut line = format!(
            "{{\"pid\":{},\"program\":{program:?},\"connections\":{},\"upgraded\":{},\"nic\":{},\"ring_tx_bytes\":{ring_tx},\
             \"ring_rx_bytes\":{ring_rx},\"kernel_tx_bytes\":{kernel_tx},\"kernel_rx_bytes\":{kernel_rx},\"reasons\":{{",
            os::pid::get(),
            self.connections,
            self.upgraded,
            self.linked
        );
        for (index, (reason, count)) in self.named_reasons().enumerate() {
            let comma = if index > 0 { "," } else { "" };
            let _ = write!(line, "{comma}\"{reason}\":{count}");
        }
        line.push_str("}}\n");
        line
    }

    fn text(&self, program: &str) -> String {
        let [ring_tx, ring_rx, kernel_tx, kernel_rx] = self.carried;
        let mut text = format!(
            "{program}[{}]: {} connections, {} on rings{}; bytes sent {ring_tx} by ring, {kernel_tx} by kernel; \
             received {ring_rx} by ring, {kernel_rx} by kernel",
            os::pid::get(),
            self.connections,
            self.upgraded,
            match self.linked {
                0 => String::new(),
                linked => format!(" ({linked} to other hosts)"),
            }
        );
        for (reason, count) in self.named_reasons() {
            let _ = write!(text, "; {count} on the kernel: {reason}");
        }
        text
    }

    fn named_reasons(&self) -> impl Iterator<Item = (&'static str, u64)> + '_ {
        let named = Reason::ALL
            .iter()
            .map(|reason| (reason.name(), self.reasons[*reason as usize]));
        named.filter(|(name, count)| !name.is_empty() && *count > 0)
    }
}

/// At exit, if the user wants it.
pub fn report() {
    let config = process::config();
    let Some(family) = crate::state::process_group::own().filter(|_| config.report != Report::Off)
    else {
        return;
    };
    let totals = Totals::of(family);
    if totals.connections == 0 {
        return;
    }
    let program = proc::program().unwrap_or_default();
    match &config.report {
        Report::Off => {}
        Report::Stderr => log::always(format_args!("{}", totals.text(&program))),
        Report::File(path) => append(path, totals.json(&program).as_bytes()),
    }
}

os::process_wide! {
    /// The report's file, if it had to be opened before a chroot.
    static KEPT: OnceLock<InternalFd> = OnceLock::new();
}

/// Before a chroot, after which the report's path means something else.
pub fn keep_report() {
    if let Report::File(path) = &process::config().report
        && let Ok(file) = open(path).and_then(Transient::into_high)
    {
        let _ = KEPT.set(file);
    }
}

fn open(path: &Path) -> io::Result<Transient> {
    let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::APPEND | OFlags::CLOEXEC;
    rustix::fs::open(path, flags, Mode::from_raw_mode(0o666)).map(Transient::new)
}

fn append(path: &Path, line: &[u8]) {
    let written = match KEPT.get() {
        Some(file) => os::write(file.as_fd(), line),
        None => open(path).and_then(|file| os::write(file.as_fd(), line)),
    };
    if let Err(error) = written {
        log::always(format_args!("ULSOCK_REPORT: {}: {error}", path.display()));
    }
}
