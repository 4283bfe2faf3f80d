//! What the programs of this host have done until now, as it is written and read as JSON.

use std::collections::BTreeMap;
use std::time::SystemTime;

use serde::{Deserialize, Serialize};
use sockets::observe::{self, ProgramRow, Reach};

use crate::selection::Selection;
use crate::utc;

#[derive(Debug, Default, Serialize, Deserialize)]
pub struct Snapshot {
    pub time: String,
    /// What it is the difference to.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub since: Option<String>,
    pub programs: Vec<ProgramStats>,
}

#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct ProgramStats {
    /// Names the program as long as it lives.
    pub family: u64,
    pub pid: u32,
    pub program: String,
    pub processes: u32,
    pub connections: u64,
    pub live: u64,
    pub on_rings: u64,
    pub to_other_hosts: u64,
    pub opened: u64,
    pub closed: u64,
    pub reset: u64,
    pub promoted_shm: u64,
    pub promoted_nic: u64,
    pub demoted_shm: u64,
    pub demoted_nic: u64,
    pub ring_bytes_sent: u64,
    pub ring_bytes_received: u64,
    pub kernel_bytes_sent: u64,
    pub kernel_bytes_received: u64,
    pub waits_awake: u64,
    pub waits_in_vain: u64,
    pub waits_slept: u64,
    pub wake_ups: u64,
    /// For `ulsock capture`.
    pub copied_bytes: u64,
    /// Connections that live, and that have ended, by why they are or were on the kernel.
    pub live_on_kernel: BTreeMap<String, u64>,
    pub ended_on_kernel: BTreeMap<String, u64>,
}

impl Snapshot {
    pub fn take(reach: &Reach, selection: &Selection) -> Snapshot {
        let programs = observe::programs(reach).into_iter();
        let selected = programs.filter(|it| selection.has_any(it));
        let mut programs: Vec<ProgramStats> = selected.map(ProgramStats::from).collect();
        programs.sort_by(|a, b| (&a.program, a.pid).cmp(&(&b.program, b.pid)));
        Snapshot {
            time: utc::text(SystemTime::now()),
            since: None,
            programs,
        }
    }

    /// Leaves what has been added since `before`. What is live stays as it is.
    pub fn subtract(&mut self, before: &Snapshot) {
        self.since = Some(before.time.clone());
        for program in &mut self.programs {
            // Another program may have got the number of one that has ended; then it has done less.
            let earlier = |it: &&ProgramStats| {
                it.family == program.family && it.connections <= program.connections
            };
            if let Some(earlier) = before.programs.iter().find(earlier) {
                program.subtract(earlier);
            }
        }
    }
}

impl ProgramStats {
    /// The counts that only grow.
    pub fn counts(&mut self) -> [&mut u64; 19] {
        [
            &mut self.connections,
            &mut self.on_rings,
            &mut self.to_other_hosts,
            &mut self.opened,
            &mut self.closed,
            &mut self.reset,
            &mut self.promoted_shm,
            &mut self.promoted_nic,
            &mut self.demoted_shm,
            &mut self.demoted_nic,
            &mut self.ring_bytes_sent,
            &mut self.ring_bytes_received,
            &mut self.kernel_bytes_sent,
            &mut self.kernel_bytes_received,
            &mut self.waits_awake,
            &mut self.waits_in_vain,
            &mut self.waits_slept,
            &mut self.wake_ups,
            &mut self.copied_bytes,
        ]
    }

    fn subtract(&mut self, earlier: &ProgramStats) {
        let mut earlier = earlier.clone();
        for (count, before) in self.counts().into_iter().zip(earlier.counts()) {
            *count = count.saturating_sub(*before);
        }
        for (reason, count) in &mut self.ended_on_kernel {
            let before = earlier.ended_on_kernel.get(reason).copied();
            *count = count.saturating_sub(before.unwrap_or(0));
        }
    }

    pub fn add(&mut self, other: &ProgramStats) {
        let mut other = other.clone();
        for (count, more) in self.counts().into_iter().zip(other.counts()) {
            *count = count.saturating_add(*more);
        }
        for (reason, more) in other.ended_on_kernel {
            let count = self.ended_on_kernel.entry(reason).or_default();
            *count = count.saturating_add(more);
        }
    }
}

impl From<ProgramRow> for ProgramStats {
    fn from(row: ProgramRow) -> ProgramStats {
        let mut live_on_kernel = BTreeMap::new();
        for connection in &row.connection_rows {
            if !connection.reason.is_empty() {
                *live_on_kernel
                    .entry(connection.reason.to_owned())
                    .or_default() += 1;
            }
        }
        let ended = row.ended.into_iter();
        ProgramStats {
            family: row.family,
            pid: row.pid,
            program: row.program,
            processes: row.processes,
            connections: row.connections,
            live: row.live,
            on_rings: row.upgraded,
            to_other_hosts: row.to_other_hosts,
            opened: row.happened.opened,
            closed: row.happened.closed,
            reset: row.happened.reset,
            promoted_shm: row.happened.promoted_shm,
            promoted_nic: row.happened.promoted_nic,
            demoted_shm: row.happened.left_shm,
            demoted_nic: row.happened.left_nic,
            ring_bytes_sent: row.carried.ring_tx,
            ring_bytes_received: row.carried.ring_rx,
            kernel_bytes_sent: row.carried.kernel_tx,
            kernel_bytes_received: row.carried.kernel_rx,
            waits_awake: row.waits.awake,
            waits_in_vain: row.waits.in_vain,
            waits_slept: row.waits.slept,
            wake_ups: row.waits.woke,
            copied_bytes: row.copied_bytes,
            live_on_kernel,
            ended_on_kernel: ended
                .map(|(name, count)| (name.to_owned(), count))
                .collect(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_has_been_added() {
        let program = |connections, closed: u64| ProgramStats {
            family: 3,
            pid: 7,
            connections,
            live: 2,
            ended_on_kernel: [("scope".to_owned(), closed)].into(),
            ..ProgramStats::default()
        };
        let mut now = Snapshot {
            programs: vec![program(9, 4)],
            ..Snapshot::default()
        };
        let before = Snapshot {
            time: "then".to_owned(),
            programs: vec![program(5, 1)],
            ..Snapshot::default()
        };
        now.subtract(&before);
        let left = &now.programs[0];
        assert_eq!((left.connections, left.live), (4, 2));
        assert_eq!(left.ended_on_kernel["scope"], 3);
        assert_eq!(now.since.as_deref(), Some("then"));
    }
}
