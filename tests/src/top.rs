//! `ulsock top --once --json`: the live connections of a run directory.

use std::path::Path;
use std::process::Command;

use serde::Deserialize;

use crate::program::built;

/// One end of a live connection.
#[derive(Debug, Deserialize)]
pub struct Row {
    /// The process that holds it.
    pub pid: u32,
    /// That process's program.
    pub program: String,
    /// Carrier of the sending direction: `kernel` or `shm`.
    pub carrier_tx: String,
    /// Carrier of the receiving direction.
    pub carrier_rx: String,
    /// Bytes sent.
    pub tx_bytes: u64,
    /// Bytes received.
    pub rx_bytes: u64,
    /// Messages sent, as far as its own calls count them.
    pub tx_msgs: u64,
    /// Messages received.
    pub rx_msgs: u64,
    /// Why it is on the kernel.
    pub reason: String,
}

impl Row {
    /// Whether both directions are on rings.
    pub fn is_accelerated(&self) -> bool {
        self.carrier_tx == "shm" && self.carrier_rx == "shm"
    }
}

/// What the command prints, as text, with its errors.
pub fn text(run_dir: &Path) -> String {
    output(run_dir, &["--json"])
}

/// The same, as people read it.
pub fn table(run_dir: &Path) -> String {
    output(run_dir, &[])
}

fn output(run_dir: &Path, options: &[&str]) -> String {
    let output = Command::new(built("ulsock"))
        .args(["top", "--once"])
        .args(options)
        .env("ULSOCK_RUN_DIR", run_dir)
        .output();
    match output {
        Ok(output) => {
            String::from_utf8_lossy(&[output.stdout, output.stderr].concat()).into_owned()
        }
        Err(error) => format!("ulsock top: {error}"),
    }
}

/// The live connections.
pub fn rows(run_dir: &Path) -> Vec<Row> {
    let text = text(run_dir);
    serde_json::from_str(&text).unwrap_or_else(|error| panic!("ulsock top: {error} in {text:?}"))
}
