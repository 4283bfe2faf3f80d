//! Unix sockets: scenarios that TCP has, by a path instead of a port. Their rivals are the kernel's Unix sockets and
//! ulsock's; both are held against the same programs on TCP.

use super::{Case, Chart, Line, Reading, Scenario};
use super::{churn, gunicorn, pgbench, ping_pong, redis, stream};
use crate::compare::bout::Bout;
use crate::compare::contender::{Contender, Rivals};
use crate::compare::cores::Placement;

const DEFAULT: Scenario = Scenario {
    rivals: Rivals::UNIX,
    quick: true,
    ..Scenario::DEFAULT
};

pub const PING_PONG: Scenario = Scenario {
    name: "unix-ping-pong",
    title: "Round trips by Unix sockets, one at a time (mean time)",
    chart: Chart::Sizes,
    cases: |effort| over_unix(effort.cases(SIZES, &ping_pong::FULL, ping_pong::case)),
    ..DEFAULT
};

pub const STREAM: Scenario = Scenario {
    name: "unix-stream",
    title: "Stream by a Unix socket, one way",
    chart: Chart::Sizes,
    cases: |effort| over_unix(effort.cases(SIZES, &ping_pong::FULL, stream::case)),
    ..DEFAULT
};

pub const REDIS: Scenario = Scenario {
    name: "unix-redis",
    title: "redis by its Unix socket, GET (redis-benchmark -s)",
    cases: |effort| over_unix((redis::SCENARIO.cases)(effort)),
    ..Scenario {
        needs: redis::SCENARIO.needs,
        ..DEFAULT
    }
};

pub const PGBENCH: Scenario = Scenario {
    name: "unix-pgbench",
    title: "PostgreSQL by its Unix socket, select only (pgbench -S)",
    cases: |effort| over_unix((pgbench::SELECT.cases)(effort)),
    ..Scenario {
        needs: pgbench::SELECT.needs,
        ..DEFAULT
    }
};

pub const NGINX: Scenario = Scenario {
    name: "unix-nginx",
    title: "nginx before gunicorn by a Unix socket, a new connection for each request (wrk, without ulsock)",
    needs: gunicorn::NEEDS,
    quick: false,
    cases: |effort| over_unix(gunicorn::cases(effort)),
    ..DEFAULT
};

pub const CHURN: Scenario = Scenario {
    name: "unix-churn",
    title: "Short connections by a Unix socket, one after the other (they stay on the kernel)",
    cases: |_| over_unix(vec![Box::new(churn::case())]),
    ..DEFAULT
};

/// Few, because each has three placements.
const SIZES: &[u64] = &[64, 256 << 10];

/// A case that knows both kinds of address.
struct OverUnix {
    case: Box<dyn Case>,
}

fn over_unix(cases: Vec<Box<dyn Case>>) -> Vec<Box<dyn Case>> {
    let over = |case| -> Box<dyn Case> { Box::new(OverUnix { case }) };
    cases.into_iter().map(over).collect()
}

impl Case for OverUnix {
    fn lines(&self) -> Vec<Line> {
        self.case.lines()
    }

    fn references(&self) -> Vec<Contender> {
        Rivals::TCP.both().to_vec()
    }

    fn placements(&self) -> Vec<Placement> {
        Placement::with_one_core()
    }

    fn run(&self, bout: &Bout) -> Result<Reading, String> {
        self.case.run(bout)
    }
}
