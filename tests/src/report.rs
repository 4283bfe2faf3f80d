//! The lines that processes under ulsock append to `ULSOCK_REPORT` when they exit.

use std::collections::BTreeMap;
use std::fs;
use std::ops::AddAssign;
use std::path::Path;

use serde::Deserialize;

/// What one process did, or the sum over several.
#[derive(Debug, Default, Deserialize)]
pub struct Report {
    /// TCP connections that the process had.
    pub connections: u64,
    /// How many of them left the kernel.
    pub upgraded: u64,
    /// How many of those went over the nic carrier.
    pub nic: u64,
    /// Bytes sent through rings.
    pub ring_tx_bytes: u64,
    /// Bytes received through rings.
    pub ring_rx_bytes: u64,
    /// Bytes sent through kernel TCP.
    pub kernel_tx_bytes: u64,
    /// Bytes received through kernel TCP.
    pub kernel_rx_bytes: u64,
    /// Why connections stayed on, or returned to, the kernel.
    pub reasons: BTreeMap<String, u64>,
}

impl Report {
    /// The sum over all lines of `file`, and the number of lines.
    pub fn sum(file: &Path) -> (Self, usize) {
        let text = fs::read_to_string(file).unwrap_or_default();
        let mut sum = Self::default();
        for line in text.lines() {
            let report: Self = serde_json::from_str(line)
                .unwrap_or_else(|error| panic!("report line {line:?}: {error}"));
            sum += report;
        }
        (sum, text.lines().count())
    }

    /// Bytes through rings, both ways.
    pub fn ring_bytes(&self) -> u64 {
        self.ring_tx_bytes + self.ring_rx_bytes
    }

    /// Bytes through kernel TCP, both ways.
    pub fn kernel_bytes(&self) -> u64 {
        self.kernel_tx_bytes + self.kernel_rx_bytes
    }
}

impl AddAssign for Report {
    fn add_assign(&mut self, other: Self) {
        self.connections += other.connections;
        self.upgraded += other.upgraded;
        self.nic += other.nic;
        self.ring_tx_bytes += other.ring_tx_bytes;
        self.ring_rx_bytes += other.ring_rx_bytes;
        self.kernel_tx_bytes += other.kernel_tx_bytes;
        self.kernel_rx_bytes += other.kernel_rx_bytes;
        for (reason, times) in other.reasons {
            *self.reasons.entry(reason).or_default() += times;
        }
    }
}
