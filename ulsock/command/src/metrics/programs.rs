//! The programs of this host, by name. What those that have ended have done stays: counters never go back.

use std::collections::BTreeMap;

use rendezvous::rundir::RunDir;
use sockets::observe::{Follower, ProgramRow};

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
    pub fn find(&mut self, run_dir: &RunDir) {
        self.follower.find_programs(run_dir);
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
                    family.sample(&labels, value(&sums.stats) as f64);
                }
            }
        }
        show_reasons(&sums, all);
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

type Counts = fn(&ProgramStats) -> &BTreeMap<String, u64>;

fn show_reasons(sums: &BTreeMap<String, Sums>, all: &mut Exposition) {
    let kernel: [(&str, Kind, &str, Counts); 2] = [
        (
            "ulsock_kernel_connections",
            Kind::Gauge,
            "Live connections on kernel TCP, by the reason for it.",
            |it| &it.live_on_kernel,
        ),
        (
            "ulsock_kernel_connections_ended_total",
            Kind::Counter,
            "Connections that ended on kernel TCP, by the reason for it.",
            |it| &it.ended_on_kernel,
        ),
    ];
    for (name, kind, about, counts) in kernel {
        let mut family = all.family(name, kind, about);
        for (program, sums) in sums {
            for (reason, count) in counts(&sums.stats) {
                family.sample(&[("program", program), ("reason", reason)], *count as f64);
            }
        }
    }
}
