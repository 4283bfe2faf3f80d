//! What the library reports at the end of a process (`ULSOCK_REPORT`): was it really used?

use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::os::unix::fs::DirBuilderExt;
use std::path::PathBuf;

use serde::{Deserialize, Serialize};

/// One process's line, or the sum of several.
#[derive(Clone, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Usage {
    pub connections: u64,
    pub upgraded: u64,
    pub ring_tx_bytes: u64,
    pub ring_rx_bytes: u64,
    pub kernel_tx_bytes: u64,
    pub kernel_rx_bytes: u64,
    pub reasons: BTreeMap<String, u64>,
}

impl Usage {
    pub fn add(&mut self, other: &Usage) {
        self.connections += other.connections;
        self.upgraded += other.upgraded;
        self.ring_tx_bytes += other.ring_tx_bytes;
        self.ring_rx_bytes += other.ring_rx_bytes;
        self.kernel_tx_bytes += other.kernel_tx_bytes;
        self.kernel_rx_bytes += other.kernel_rx_bytes;
        for (reason, count) in &other.reasons {
            *self.reasons.entry(reason.clone()).or_default() += count;
        }
    }

    /// The part of all bytes that went through a ring.
    pub fn ring_share(&self) -> f64 {
        let ring = self.ring_tx_bytes + self.ring_rx_bytes;
        let all = ring + self.kernel_tx_bytes + self.kernel_rx_bytes;
        if all == 0 {
            0.0
        } else {
            ring as f64 / all as f64
        }
    }

    /// The reasons for being on kernel TCP, most frequent first.
    pub fn reason_text(&self) -> String {
        let mut reasons: Vec<_> = self.reasons.iter().collect();
        reasons.sort_by_key(|(_, count)| std::cmp::Reverse(**count));
        let names: Vec<&str> = reasons.iter().map(|(name, _)| name.as_str()).collect();
        if names.is_empty() {
            "no reason reported".to_owned()
        } else {
            names.join(", ")
        }
    }
}

/// The file that the processes of one run append their lines to; it goes away with this.
pub struct UsageFile {
    folder: PathBuf,
}

impl UsageFile {
    /// In a folder that only we can write to: the name of the file is then ours.
    pub fn create() -> io::Result<UsageFile> {
        let id = std::process::id();
        for attempt in 0..100 {
            let folder = std::env::temp_dir().join(format!("ulsock-compare-{id}-{attempt}"));
            match fs::DirBuilder::new().mode(0o700).create(&folder) {
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
                result => return result.map(|()| UsageFile { folder }),
            }
        }
        Err(io::ErrorKind::AlreadyExists.into())
    }

    pub fn path(&self) -> PathBuf {
        self.folder.join("report")
    }

    pub fn clear(&self) {
        // It is not there when no process has reported.
        let _ = fs::remove_file(self.path());
    }

    /// The lines of both ends of the run that has just ended.
    pub fn read(&self) -> Vec<Usage> {
        let text = fs::read_to_string(self.path()).unwrap_or_default();
        let lines = text.lines();
        lines
            .filter_map(|line| serde_json::from_str(line).ok())
            .collect()
    }
}

impl Drop for UsageFile {
    fn drop(&mut self) {
        self.clear();
        // What is left in the temporary folder is not worth a message.
        let _ = fs::remove_dir(&self.folder);
    }
}
