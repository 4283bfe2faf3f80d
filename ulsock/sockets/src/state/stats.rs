//! What the connections of this program have done, for the report at exit.

use std::fmt::Write;
use std::os::fd::AsFd;
use std::path::Path;
use std::sync::OnceLock;
use std::sync::atomic::Ordering;

use rustix::fs::{Mode, OFlags};
use rustix::io;

use crate::runtime::process;
use crate::state::kernel_only;
use crate::state::process_group::ProcessGroup;
use crate::state::record::flag;
use os;
use os::fds::InternalFd;
use os::fds::Transient;
use os::log;
use os::proc;
use rendezvous::config::Report;
use rendezvous::reason::{PLACES, Reason};

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
            totals.linked += u64::from(record.nic.is_used());
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
