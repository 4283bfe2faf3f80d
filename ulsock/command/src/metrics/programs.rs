//! The programs of this host, by name. What those that have ended have done stays: counters never go back.

use std::collections::BTreeMap;

use sockets::observe::{Follower, ProgramRow, Reach};

use super::exposition::{Exposition, Kind};
use crate::stats::snapshot::ProgramStats;

/// Names that are told apart. What comes beyond is one program, "other": whoever starts programs with ever new names
/// fills no memory.
const NAMES: usize = 500;
const OTHER: &str = "other";

#[derive(Default)]
pub struct Programs {
    follower: Follower,
    ended: BTreeMap<String, ProgramStats>,
    /// The counters as they were shown last, by name and labels. A connection that ends while we look is in neither of two
    /// places, and would let them fall.
    shown: BTreeMap<String, u64>,
}

/// Of one name.
#[derive(Default)]
struct Sums {
    stats: ProgramStats,
    programs: u64,
    processes: u64,
    /// Live connections, by the carrier that they send by.
    by_carrier: BTreeMap<&'static str, u64>,
}

impl Programs {
    pub fn find(&mut self, reach: &Reach) {
        self.follower.find_programs(reach);
        let ended: Vec<ProgramRow> = self
            .follower
            .programs()
            .filter(|(_, lives)| !lives)
            .map(|(row, _)| row)
            .collect();
        for row in ended {
            let name = self.name(&row.program);
            let stats = ProgramStats::from(row);
            self.ended.entry(name).or_default().add(&stats);
        }
        self.follower.forget_ended();
    }

    fn name(&self, program: &str) -> String {
        match self.ended.len() < NAMES || self.ended.contains_key(program) {
            true => program.to_owned(),
            false => OTHER.to_owned(),
        }
    }

    fn sums(&self) -> BTreeMap<String, Sums> {
        let mut sums: BTreeMap<String, Sums> = BTreeMap::new();
        for (name, stats) in &self.ended {
            sums.entry(name.clone()).or_default().stats.add(stats);
        }
        for (row, _) in self.follower.programs() {
            let name = match sums.len() < NAMES || sums.contains_key(&row.program) {
                true => row.program.clone(),
                false => OTHER.to_owned(),
            };
            let sum = sums.entry(name).or_default();
            sum.programs += 1;
            sum.processes += u64::from(row.processes);
            for connection in &row.connection_rows {
                *sum.by_carrier.entry(connection.carrier_tx).or_default() += 1;
            }
            let stats = ProgramStats::from(row);
            for (reason, count) in &stats.live_on_kernel {
                *sum.stats.live_on_kernel.entry(reason.clone()).or_default() += count;
            }
            sum.stats.add(&stats);
        }
        sums
    }

    pub fn show(&mut self, all: &mut Exposition) {
        let sums = self.sums();
        for it in GAUGES {
            let mut family = all.family(it.name, Kind::Gauge, it.about);
            for (program, sums) in &sums {
                family.sample(&[("program", program)], (it.value)(sums) as f64);
            }
        }
        show_by_carrier(&sums, all);
        for it in COUNTERS {
            let mut family = all.family(it.name, Kind::Counter, it.about);
            for (program, sums) in &sums {
                for (labels, value) in it.samples {
                    let program = [("program", program.as_str())];
                    let labels = [&program[..], labels].concat();
                    let value = self.never_less(it.name, &labels, value(&sums.stats));
                    family.sample(&labels, value as f64);
                }
            }
        }
        self.show_live_reasons(&sums, all);
        self.show_ended_reasons(&sums, all);
    }

    /// Than was shown before.
    fn never_less(&mut self, name: &str, labels: &[(&str, &str)], value: u64) -> u64 {
        let shown = self.shown.entry(format!("{name} {labels:?}"));
        let shown = shown.or_default();
        *shown = value.max(*shown);
        *shown
    }

    fn show_live_reasons(&self, sums: &BTreeMap<String, Sums>, all: &mut Exposition) {
        let about = "Live connections on kernel TCP, by the reason for it.";
        let mut family = all.family("ulsock_kernel_connections", Kind::Gauge, about);
        for (program, sums) in sums {
            for (reason, count) in &sums.stats.live_on_kernel {
                family.sample(&[("program", program), ("reason", reason)], *count as f64);
            }
        }
    }

    fn show_ended_reasons(&mut self, sums: &BTreeMap<String, Sums>, all: &mut Exposition) {
        let name = "ulsock_kernel_connections_ended_total";
        let about = "Connections that ended on kernel TCP, by the reason for it.";
        let mut family = all.family(name, Kind::Counter, about);
        for (program, sums) in sums {
            for (reason, count) in &sums.stats.ended_on_kernel {
                let labels = [("program", program.as_str()), ("reason", reason)];
                let count = self.never_less(name, &labels, *count);
                family.sample(&labels, count as f64);
            }
        }
    }
}

struct Gauge {
    name: &'static str,
    about: &'static str,
    value: fn(&Sums) -> u64,
}

const GAUGES: &[Gauge] = &[
    Gauge {
        name: "ulsock_programs",
        about: "Programs that run on ulsock.",
        value: |it| it.programs,
    },
    Gauge {
        name: "ulsock_processes",
        about: "Processes of programs that run on ulsock.",
        value: |it| it.processes,
    },
];

type Samples = &'static [(
    &'static [(&'static str, &'static str)],
    fn(&ProgramStats) -> u64,
)];

struct Counter {
    name: &'static str,
    about: &'static str,
    samples: Samples,
}

const COUNTERS: &[Counter] = &[
    Counter {
        name: "ulsock_connections_opened_total",
        about: "Connections that were opened.",
        samples: &[(&[], |it| it.opened)],
    },
    Counter {
        name: "ulsock_connections_closed_total",
        about: "Connections that were closed.",
        samples: &[(&[], |it| it.closed)],
    },
    Counter {
        name: "ulsock_connections_reset_total",
        about: "Connections that an error has ended, of those whose calls ulsock sees.",
        samples: &[(&[], |it| it.reset)],
    },
    Counter {
        name: "ulsock_promotions_total",
        about: "How often a connection began to send by a ring: in shared memory, or by the NIC.",
        samples: &[
            (&[("carrier", "shm")], |it| it.promoted_shm),
            (&[("carrier", "nic")], |it| it.promoted_nic),
        ],
    },
    Counter {
        name: "ulsock_demotions_total",
        about: "How often a connection went back to send by kernel TCP.",
        samples: &[
            (&[("carrier", "shm")], |it| it.demoted_shm),
            (&[("carrier", "nic")], |it| it.demoted_nic),
        ],
    },
    Counter {
        name: "ulsock_sent_bytes_total",
        about: "Bytes that were sent.",
        samples: &[
            (&[("carrier", "ring")], |it| it.ring_bytes_sent),
            (&[("carrier", "kernel")], |it| it.kernel_bytes_sent),
        ],
    },
    Counter {
        name: "ulsock_received_bytes_total",
        about: "Bytes that were received.",
        samples: &[
            (&[("carrier", "ring")], |it| it.ring_bytes_received),
            (&[("carrier", "kernel")], |it| it.kernel_bytes_received),
        ],
    },
    Counter {
        name: "ulsock_waits_total",
        about: "Waits: what was waited for came while awake; the time awake was in vain; it was slept.",
        samples: &[
            (&[("outcome", "awake")], |it| it.waits_awake),
            (&[("outcome", "in_vain")], |it| it.waits_in_vain),
            (&[("outcome", "slept")], |it| it.waits_slept),
        ],
    },
    Counter {
        name: "ulsock_wake_ups_total",
        about: "How often a program has woken another that slept.",
        samples: &[(&[], |it| it.wake_ups)],
    },
];

fn show_by_carrier(sums: &BTreeMap<String, Sums>, all: &mut Exposition) {
    let about = "Live connections, by the carrier that they send by.";
    let mut family = all.family("ulsock_connections", Kind::Gauge, about);
    for (program, sums) in sums {
        for carrier in ["kernel", "nic", "shm"] {
            let count = sums.by_carrier.get(carrier).copied().unwrap_or(0);
            family.sample(&[("program", program), ("carrier", carrier)], count as f64);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counters_never_fall() {
        let mut programs = Programs::default();
        let labels = [("program", "a")];
        let shown = [5, 3, 7].map(|value| programs.never_less("a_total", &labels, value));
        assert_eq!(shown, [5, 5, 7]);
        assert_eq!(programs.never_less("a_total", &[("program", "b")], 1), 1);
    }
}
