//! Where spinning could do harm, or is not allowed: both ends on one core, a busy host, no
//! spinning at all; and ulsock at one end alone. The two contenders are compared at the same placement.

use super::built_in::{BuiltIn, Places};
use super::{Case, Effort, Scenario};
use crate::compare::cores::Placement;
use crate::compare::figure::Unit;
use crate::compare::usage::End;

pub const ONE_CORE: Scenario = Scenario {
    name: "one-core",
    title: "Both ends on one core",
    between_hosts: true,
    cases: one_core,
    ..Scenario::DEFAULT
};

pub const LOADED: Scenario = Scenario {
    name: "loaded",
    title: "A busy loop on each core beside the two programs",
    between_hosts: true,
    cases: loaded,
    ..Scenario::DEFAULT
};

pub const BLOCKING: Scenario = Scenario {
    name: "blocking",
    title: "Round trips of 64 B without spinning (ULSOCK_SPIN_US=0), at equal placement",
    cases: blocking,
    ..Scenario::DEFAULT
};

pub const ONE_SIDED: Scenario = Scenario {
    name: "one-sided",
    title: "Round trips of 64 B with ulsock at one end only, on kernel TCP, without a daemon",
    between_hosts: true,
    cases: one_sided,
    ..Scenario::DEFAULT
};

fn trip() -> BuiltIn {
    BuiltIn::new("pingpong", "round trip, 64 B", Unit::Micros)
}

fn flow() -> BuiltIn {
    let size = 16 << 10;
    BuiltIn {
        size,
        ..BuiltIn::new("stream", "stream, 16 KiB", Unit::Bytes)
    }
}

fn one_core(_: Effort) -> Vec<Box<dyn Case>> {
    let Some(placement) = Placement::one_core() else {
        return Vec::new();
    };
    let case = |case: BuiltIn| -> Box<dyn Case> {
        let places = Places::Only(placement);
        Box::new(BuiltIn { places, ..case })
    };
    [trip(), flow()].into_iter().map(case).collect()
}

fn loaded(_: Effort) -> Vec<Box<dyn Case>> {
    let case = |case: BuiltIn| -> Box<dyn Case> {
        let loaded = true;
        Box::new(BuiltIn { loaded, ..case })
    };
    [trip(), flow()].into_iter().map(case).collect()
}

fn one_sided(_: Effort) -> Vec<Box<dyn Case>> {
    let case = |(label, only): (&str, End)| -> Box<dyn Case> {
        Box::new(BuiltIn {
            label: label.to_owned(),
            settings: &[("ULSOCK_NIC", "off")],
            rings: false,
            only: Some(only),
            ..trip()
        })
    };
    let ends = [("the client", End::Client), ("the server", End::Server)];
    ends.into_iter().map(case).collect()
}

fn blocking(_: Effort) -> Vec<Box<dyn Case>> {
    let mut placements = Placement::available();
    placements.extend(Placement::one_core());
    let case = |placement: Placement| -> Box<dyn Case> {
        Box::new(BuiltIn {
            label: placement.name().to_owned(),
            places: Places::Only(placement),
            settings: &[("ULSOCK_SPIN_US", "0")],
            ..trip()
        })
    };
    placements.into_iter().map(case).collect()
}
