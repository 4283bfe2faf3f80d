//! PostgreSQL, which refuses root and forks for each connection: pgbench, psql with large copies,
//! cancelled and timed out statements, a killed backend, a restart under load.

use std::fs;
use std::os::unix::fs::chown;

use tests::ends::Ends;
use tests::place::{Place, Rings};
use tests::program::{Program, Running, user_ids};
use tests::{ports, wait};

pub const USER: &str = "postgres";

struct Postgres {
    port: u16,
    server: Option<Running>,
    place: Place,
}

impl Postgres {
    fn start(ends: Ends) -> Self {
        let place = Place::new(ends);
        let (uid, gid) = user_ids(USER);
        let home = place.folder().join("home");
        fs::create_dir(&home).expect("home");
        chown(&home, Some(uid), Some(gid)).expect("chown");
        let mut postgres = Self {
            place,
            port: ports::free(),
            server: None,
        };
        let initdb = Program::new(program("initdb"), &home.join("log"));
        initdb
            .user(USER)
            .args("-A trust -N -E UTF8 --locale=C -D")
            .arg(home.join("data"))
            .directory(&home)
            .run();
        postgres.launch();
        postgres
    }

    fn launch(&mut self) {
        let home = self.place.folder().join("home");
        let server = self.place.server(&program("postgres"));
        let server = server
            .user(USER)
            .directory(&home)
            .arg("-D")
            .arg(home.join("data"))
            .args(&format!("-p {} -c listen_addresses=127.0.0.1", self.port))
            .args("-c fsync=off -c unix_socket_directories= -c logging_collector=off")
            .start()
            .listening(self.port);
        self.server = Some(server);
        self.wait_until_ready();
    }

    /// After its start, and after a killed backend, it recovers and refuses connections for a moment.
    fn wait_until_ready(&self) {
        wait::until("it accepts connections", || {
            self.client("pg_isready").start().wait().status.success()
        });
    }

    fn client(&self, name: &str) -> Program {
        let client = self.place.client(&program(name)).env("PGDATABASE", USER);
        client
            .directory(self.place.folder())
            .args(&format!("-h 127.0.0.1 -p {} -U {USER}", self.port))
    }

    fn sql(&self, statement: &str) -> String {
        let psql = self
            .client("psql")
            .args("-X -q -A -t -v ON_ERROR_STOP=1 -c");
        psql.arg(statement).run().trim_end().to_owned()
    }

    /// A statement that must fail; gives what psql said.
    fn fails(&self, statement: &str) -> String {
        let psql = self.client("psql").args("-X -q -v ON_ERROR_STOP=1 -c");
        let finished = psql.arg(statement).start().wait();
        assert!(!finished.status.success(), "{statement}");
        finished.errors
    }

    /// pgbench, all of whose transactions must be done.
    fn bench(&self, options: &str, transactions: usize) {
        let output = self.client("pgbench").args(options).run();
        let done = format!("processed: {transactions}/{transactions}");
        assert!(output.contains(&done), "{output}");
        assert!(output.contains("failed transactions: 0 "), "{output}");
    }

    /// What TPC-B leaves behind: every amount is booked three times and written down once.
    fn balanced(&self) {
        let sums = self.sql(
            "select sum(abalance) = (select sum(bbalance) from pgbench_branches) \
             and sum(abalance) = (select sum(tbalance) from pgbench_tellers) \
             and sum(abalance) = (select sum(delta) from pgbench_history) from pgbench_accounts",
        );
        assert_eq!(sums, "t");
    }

    /// Ends it with the signal that disconnects clients (SIGINT) or waits for them (SIGTERM).
    fn halt(&mut self) {
        let server = self.server.take().expect("it runs");
        let finished = server.stop(libc::SIGINT);
        assert!(finished.status.success(), "{}", finished.errors);
    }

    fn stop(mut self, rings: Rings) {
        self.halt();
        self.place.check(rings);
    }
}

/// Debian keeps the programs of each version apart, outside of PATH.
pub fn program(name: &str) -> String {
    let versions = fs::read_dir("/usr/lib/postgresql").expect("PostgreSQL");
    let mut paths = versions
        .flatten()
        .map(|version| version.path().join("bin").join(name));
    let path = paths.find(|path| path.exists()).expect("its programs");
    path.display().to_string()
}

#[test]
fn pgbench() {
    for &ends in Ends::all() {
        let postgres = Postgres::start(ends);
        postgres.client("pgbench").args("-i -q -s 2").run();
        postgres.bench("-S -n -c 8 -j 2 -t 500", 4000);
        postgres.bench("-n -c 8 -j 2 -t 150", 1200);
        postgres.bench("-S -n -C -c 4 -j 2 -t 25", 100);
        postgres.bench("-n -M prepared -c 4 -t 100", 400);
        postgres.balanced();
        postgres.stop(Rings::Most);
    }
}

#[test]
fn copies_of_a_large_table() {
    const ROWS: usize = 200_000;
    for &ends in Ends::all() {
        let postgres = Postgres::start(ends);
        postgres.sql(&format!(
            "create table a as select i, repeat(md5(i::text), 1 + i % 5) as t from generate_series(1, {ROWS}) i; \
             create table b (like a)"
        ));
        postgres.sql("\\copy a to copy");
        postgres.sql("\\copy b from copy");
        let digest = |table: &str| {
            postgres.sql(&format!(
                "select md5(string_agg(i || t, '' order by i)) from {table}"
            ))
        };
        assert_eq!(digest("a"), digest("b"));
        assert_eq!(
            postgres.sql("select count(*) from a natural join b"),
            ROWS.to_string()
        );
        let rows = postgres.sql("select i, t from b order by i");
        let rows = rows.replace('|', "\t");
        let copy = fs::read_to_string(postgres.place.folder().join("copy")).expect("the copy");
        assert!(
            rows == copy.trim_end(),
            "what was selected is what was copied"
        );
        postgres.stop(Rings::Most);
    }
}

#[test]
fn statements_that_end_early() {
    for &ends in Ends::all() {
        let postgres = Postgres::start(ends);
        let text = postgres.fails("set statement_timeout = 200; select pg_sleep(60)");
        assert!(text.contains("statement timeout"), "{text}");
        // psql asks for it over a connection of its own.
        let mut sleeper = sleeper(&postgres);
        sleeper.until("it sleeps", |_| !sleeping(&postgres).is_empty());
        let finished = sleeper.stop(libc::SIGINT);
        assert!(
            finished.errors.contains("due to user request"),
            "{}",
            finished.errors
        );
        for way in ["select pg_terminate_backend", "kill -9"] {
            killed_backend(&postgres, way);
        }
        assert_eq!(postgres.sql("select 6 * 7"), "42");
        postgres.stop(Rings::Any);
    }
}

fn sleeper(postgres: &Postgres) -> Running {
    postgres
        .client("psql")
        .args("-X -c")
        .arg("select pg_sleep(60)")
        .start()
}

/// The backend that runs [`sleeper`]'s statement.
fn sleeping(postgres: &Postgres) -> String {
    postgres.sql("select pid from pg_stat_activity where query = 'select pg_sleep(60)'")
}

/// The client of a backend that is ended hears of it; the server goes on.
fn killed_backend(postgres: &Postgres, way: &str) {
    let mut sleeper = sleeper(postgres);
    let mut pid = String::new();
    sleeper.until("it sleeps", |_| {
        pid = sleeping(postgres);
        !pid.is_empty()
    });
    if way == "kill -9" {
        // SAFETY: plain integers; the backend is not reaped before it ends.
        unsafe { libc::kill(pid.parse().expect("a pid"), libc::SIGKILL) };
    } else {
        assert_eq!(postgres.sql(&format!("{way}({pid})")), "t");
    }
    let finished = sleeper.wait();
    assert_eq!(
        finished.status.code(),
        Some(2),
        "{way}: {}",
        finished.errors
    );
    assert!(
        finished.errors.contains("connection"),
        "{}",
        finished.errors
    );
    postgres.wait_until_ready();
}

fn transactions(postgres: &Postgres) -> usize {
    let count = postgres.sql("select count(*) from pgbench_history");
    count.parse().expect("a number")
}

#[test]
fn restart_under_load() {
    const UNDER_WAY: usize = 500;
    for &ends in Ends::all() {
        let mut postgres = Postgres::start(ends);
        postgres.client("pgbench").args("-i -q").run();
        for _ in 0..2 {
            let before = transactions(&postgres);
            let mut load = postgres
                .client("pgbench")
                .args("-n -c 4 -j 2 -T 60")
                .start();
            load.until("it is under way", |_| {
                transactions(&postgres) >= before + UNDER_WAY
            });
            postgres.halt();
            let finished = load.wait();
            assert!(
                !finished.status.success() && finished.errors.contains("aborted"),
                "{}",
                finished.errors
            );
            postgres.launch();
            postgres.balanced();
        }
        assert!(transactions(&postgres) >= 2 * UNDER_WAY);
        postgres.stop(Rings::Some);
    }
}
