//! What the library reports at the end of a process (`ULSOCK_REPORT`): was it really used?

use std::collections::BTreeMap;
use std::fs::{self, File, Permissions};
use std::io;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

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

    fn bytes(&self) -> u64 {
        self.ring_bytes() + self.kernel_tx_bytes + self.kernel_rx_bytes
    }

    fn ring_bytes(&self) -> u64 {
        self.ring_tx_bytes + self.ring_rx_bytes
    }

    /// The part of all bytes that went through a ring.
    pub fn ring_share(&self) -> f64 {
        match self.bytes() {
            0 => 0.0,
            all => self.ring_bytes() as f64 / all as f64,
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

/// The two ends of a connection.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum End {
    Server,
    Client,
}

impl End {
    pub fn name(self) -> &'static str {
        match self {
            End::Server => "server",
            End::Client => "client",
        }
    }
}

/// The files that the processes of one run append their lines to, one for each end.
pub struct UsageFiles {
    folder: PathBuf,
}

impl UsageFiles {
    /// Servers that drop their privileges append to the files too.
    pub fn create(folder: &Path) -> io::Result<UsageFiles> {
        let files = UsageFiles {
            folder: folder.to_owned(),
        };
        for end in [End::Server, End::Client] {
            let file = File::create(files.path(end))?;
            file.set_permissions(Permissions::from_mode(0o666))?;
        }
        Ok(files)
    }

    pub fn path(&self, end: End) -> PathBuf {
        self.folder.join(format!("report.{}", end.name()))
    }

    /// A run that failed may have left lines behind.
    pub fn clear(&self) {
        for end in [End::Server, End::Client] {
            // If it fails, the next run has too many lines: it is not worth a message.
            let _ = File::create(self.path(end));
        }
    }

    /// What an end has reported. The lines of forked processes repeat what their family did, so the
    /// one that says most is the end's; none if no process reported.
    pub fn read(&self, end: End) -> Option<Usage> {
        let text = fs::read_to_string(self.path(end)).unwrap_or_default();
        let lines = text.lines();
        let usages = lines.filter_map(|line| serde_json::from_str::<Usage>(line).ok());
        usages.max_by_key(|usage| (usage.upgraded, usage.bytes()))
    }
}
