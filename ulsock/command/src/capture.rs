//! `ulsock capture`: what travels in rings, as a file for Wireshark, or a line for each copy.
//!
//! The senders copy it while this asks them to ([`sockets::capture`]).

pub mod extcap;
mod follow;
mod line;
mod order;
mod output;
mod packet;
mod pcapng;

use std::fs::File;
use std::io::{self, IsTerminal, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use clap::Args;
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::flag;
use sockets::capture::Totals;

use crate::descriptors;
use crate::failure::{Failure, Outcome};
use crate::preload;
use crate::selection::Selection;
use output::{Output, PcapngOutput, TextOutput};

/// As tcpdump has it: all of any packet.
const SNAPLEN: u32 = 262_144;

#[derive(Args)]
pub struct CaptureOptions {
    /// Write into this file, in the format pcapng; to standard output if it is -
    #[arg(short, long, value_name = "FILE")]
    write: Option<PathBuf>,
    /// End after so many seconds
    #[arg(long)]
    seconds: Option<u64>,
    /// End after so many bytes
    #[arg(long)]
    bytes: Option<u64>,
    /// Keep so many bytes of each packet, headers included
    #[arg(long, value_name = "BYTES", default_value_t = SNAPLEN, hide_default_value = true)]
    snaplen: u32,
    #[command(flatten)]
    selection: Selection,
}

/// When a capture ends, but for a reader that has seen enough.
pub struct End {
    is_to_end: Arc<AtomicBool>,
    at: Option<Instant>,
    bytes: Option<u64>,
}

impl End {
    /// By a signal; the second one does not wait for an output that nobody reads.
    pub fn by_signals() -> io::Result<End> {
        let is_to_end = Arc::new(AtomicBool::new(false));
        for signal in [SIGTERM, SIGHUP, SIGINT] {
            flag::register_conditional_shutdown(signal, 1, Arc::clone(&is_to_end))?;
            flag::register(signal, Arc::clone(&is_to_end))?;
        }
        Ok(End {
            is_to_end,
            at: None,
            bytes: None,
        })
    }

    fn has_come(&self, captured: u64) -> bool {
        self.is_to_end.load(Ordering::Relaxed)
            || self.at.is_some_and(|at| Instant::now() >= at)
            || self.bytes.is_some_and(|most| captured >= most)
    }
}

pub fn run(options: &CaptureOptions) -> Outcome {
    descriptors::have_all();
    let reach = options.selection.reach(&preload::configuration()?)?;
    let failed = |error: io::Error| Failure::work(format!("cannot capture: {error}"));
    let mut end = End::by_signals().map_err(failed)?;
    let after = |seconds| Instant::now().checked_add(Duration::from_secs(seconds));
    end.at = options.seconds.and_then(after);
    end.bytes = options.bytes;
    let mut output = match &options.write {
        Some(file) => pcapng_output(file, options.snaplen)?,
        None => Box::new(TextOutput::new()),
    };
    let totals = follow::follow(&reach, &options.selection, output.as_mut(), say, &end);
    let _ = writeln!(io::stderr(), "{}", summary(&totals.map_err(failed)?));
    Ok(ExitCode::SUCCESS)
}

fn say(text: &str) {
    // Nobody needs to read it.
    let _ = writeln!(io::stderr(), "ulsock: {text}");
}

fn pcapng_output(file: &Path, snaplen: u32) -> Result<Box<dyn Output>, Failure> {
    let failed =
        |error: io::Error| Failure::setup(format!("cannot write {}: {error}", file.display()));
    let is_stdout = file.as_os_str() == "-";
    if is_stdout && io::stdout().is_terminal() {
        return Err(Failure::setup(
            "packets are not written to a terminal: name a file, or a program that reads them (| tshark -r -)",
        ));
    }
    Ok(match is_stdout {
        true => Box::new(PcapngOutput::begin(io::stdout(), snaplen).map_err(failed)?),
        false => {
            // What all users' programs have sent is for whoever captures it.
            let mut options = File::options();
            options.write(true).create(true).truncate(true).mode(0o600);
            let file = options.open(file).map_err(failed)?;
            Box::new(PcapngOutput::begin(file, snaplen).map_err(failed)?)
        }
    })
}

fn summary(totals: &Totals) -> String {
    let packets = |count: u64, all: u64| match count {
        1 => format!("1 packet ({all} bytes)"),
        _ => format!("{count} packets ({all} bytes)"),
    };
    let captured = packets(totals.entries, totals.bytes);
    let text = match totals.missed_entries {
        0 if totals.gaps > 0 => format!("captured {captured}"),
        0 => format!("captured {captured}, missed none"),
        missed => {
            let missed = packets(missed, totals.missed_bytes);
            format!("captured {captured}, missed {missed}: they came too fast to be read")
        }
    };
    match totals.gaps {
        0 => text,
        gaps => format!(
            "{text}; and {gaps} times all for a while: the output was not read, or the clock was set"
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_missed_is_said() {
        let mut totals = Totals {
            entries: 1,
            bytes: 100,
            ..Totals::default()
        };
        assert_eq!(
            summary(&totals),
            "captured 1 packet (100 bytes), missed none"
        );
        (totals.missed_entries, totals.missed_bytes) = (7, 2048);
        let line = "captured 1 packet (100 bytes), missed 7 packets (2048 bytes): they came too fast to be read";
        assert_eq!(summary(&totals), line);
        (totals.missed_entries, totals.gaps) = (0, 2);
        assert!(summary(&totals).starts_with("captured 1 packet (100 bytes); and 2 times all"));
    }
}
