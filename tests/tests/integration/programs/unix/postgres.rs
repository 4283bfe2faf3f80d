//! PostgreSQL by its socket in a folder, as Debian's clients reach it: psql with copies, pgbench, pg_dump and pg_restore,
//! a cancelled statement, a killed backend. Moved at once, a connection has the rings of the process that accepts it, and
//! the child that serves it none.

use std::fs;
use std::path::PathBuf;
use std::process::Command;

use tests::ends::Ends;
use tests::place::{Place, Rings};
use tests::program::{Program, Running};
use tests::wait;

use super::{copy_folder, owned_folder, same_as_kernel, same_as_kernel_with};
use crate::programs::postgres::{USER, program};

const PORT: u16 = 5432;

struct Postgres<'a> {
    place: &'a Place,
    home: PathBuf,
    server: Running,
}

/// The files of a new server: they are the same for each run.
fn installed() -> Place {
    let place = Place::new(Ends::Kernel);
    let home = place.folder().join("home");
    owned_folder(&home, USER);
    let initdb = Program::new(program("initdb"), &home.join("log")).user(USER);
    let initdb = initdb.args("-A trust -N -E UTF8 --locale=C -D");
    initdb.arg(home.join("data")).directory(&home).run();
    place
}

impl<'a> Postgres<'a> {
    fn start(place: &'a Place, installed: &Place) -> Self {
        copy_folder(installed, place, "home");
        let home = place.folder().join("home");
        let server = place.server(&program("postgres")).user(USER).arg("-D");
        let server = server.arg(home.join("data")).directory(&home);
        let server = server
            .args("-c listen_addresses= -c fsync=off -c logging_collector=off -k")
            .arg(&home)
            .start()
            .listening_at(home.join(format!(".s.PGSQL.{PORT}")));
        let postgres = Self {
            place,
            home,
            server,
        };
        postgres.wait_until_ready();
        postgres
    }

    fn wait_until_ready(&self) {
        wait::until("it accepts connections", || {
            self.client("pg_isready").start().wait().status.success()
        });
    }

    fn client(&self, name: &str) -> Program {
        let client = self.place.client(&program(name)).env("PGDATABASE", USER);
        let client = client.env("PGHOST", &self.home).env("PGUSER", USER);
        client.directory(self.place.folder())
    }

    fn sql(&self, statement: &str) -> String {
        self.sql_in(USER, statement)
    }

    fn sql_in(&self, database: &str, statement: &str) -> String {
        let psql = self
            .client("psql")
            .env("PGDATABASE", database)
            .args("-X -q -A -t -v ON_ERROR_STOP=1 -c");
        psql.arg(statement).run()
    }

    /// Ends it with the signal that disconnects clients.
    fn stop(self) {
        let finished = self.server.stop(libc::SIGINT);
        assert!(finished.status.success(), "{}", finished.errors);
    }
}

/// What pgbench says that does not hang on time.
fn bench(postgres: &Postgres, options: &str) -> String {
    let output = postgres.client("pgbench").args(options).run();
    let lines = output.lines().filter(|line| line.contains("transactions"));
    lines.map(|line| format!("{line}\n")).collect()
}

#[test]
fn pgbench() {
    let installed = installed();
    same_as_kernel_with(Rings::Most, Rings::Some, |place| {
        let postgres = Postgres::start(place, &installed);
        postgres.client("pgbench").args("-i -q").run();
        let mut text = bench(&postgres, "-S -n -c 8 -j 2 -t 250");
        text += &bench(&postgres, "-n -c 4 -j 2 -t 50");
        text += &bench(&postgres, "-n -M prepared -c 2 -t 50");
        text += &bench(&postgres, "-S -n -C -c 2 -t 10");
        // TPC-B books every amount three times and writes it down once.
        text += &postgres.sql(
            "select sum(abalance) = (select sum(bbalance) from pgbench_branches) \
             and sum(abalance) = (select sum(tbalance) from pgbench_tellers) \
             and sum(abalance) = (select sum(delta) from pgbench_history), \
             (select count(*) from pgbench_history) from pgbench_accounts",
        );
        postgres.stop();
        text
    });
}

/// Copies in both directions, a dump in PostgreSQL's own format and what is restored of it.
#[test]
fn copies_and_dumps() {
    let installed = installed();
    same_as_kernel_with(Rings::Most, Rings::Some, |place| {
        let postgres = Postgres::start(place, &installed);
        postgres.sql(
            "create table a as select i, repeat(md5(i::text), 1 + i % 5) as t from generate_series(1, 60000) i; \
             create table b (like a)",
        );
        postgres.sql("create database other");
        postgres.sql("\\copy a to copy");
        postgres.sql("\\copy b from copy");
        postgres.client("pg_dump").args("-Fc -f dump").run();
        postgres.client("pg_restore").args("-d other dump").run();
        let digest = "select count(*), md5(string_agg(i || t, '' order by i)) from";
        let mut text = postgres.sql(&format!("{digest} a; {digest} b"));
        text += &postgres.sql_in("other", &format!("{digest} a; {digest} b"));
        text += &postgres.sql("select i, t from b order by i limit 5000");
        text += &postgres
            .client("pg_dump")
            .args("--schema-only --restrict-key=tests other")
            .run();
        postgres.stop();
        let copy = fs::read(place.folder().join("copy")).expect("the copy");
        text + &format!("{} bytes copied", copy.len())
    });
}

/// psql asks for the end of its statement over a connection of its own; the client of a killed backend hears of it.
#[test]
fn statements_that_end_early() {
    let installed = installed();
    same_as_kernel(Rings::Any, |place| {
        let postgres = Postgres::start(place, &installed);
        let mut text = String::new();
        for way in ["cancel", "pg_terminate_backend", "kill"] {
            let psql = postgres.client("psql").args("-X -c");
            let mut sleeper = psql.arg("select pg_sleep(60)").start();
            let mut pid = String::new();
            sleeper.until("it sleeps", |_| {
                pid = postgres
                    .sql("select pid from pg_stat_activity where query = 'select pg_sleep(60)'");
                !pid.is_empty()
            });
            match way {
                "cancel" => sleeper.signal(libc::SIGINT),
                "kill" => assert!(kill(pid.trim())),
                _ => text += &postgres.sql(&format!("select {way}({pid})")),
            }
            let finished = sleeper.wait();
            text += &format!("{way}: {:?} {}\n", finished.status.code(), finished.errors);
            postgres.wait_until_ready();
        }
        text += &postgres.sql("select 6 * 7");
        postgres.stop();
        text
    });
}

fn kill(pid: &str) -> bool {
    let status = Command::new("kill").args(["-9", pid]).status();
    status.expect("kill runs").success()
}
