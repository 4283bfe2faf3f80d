//! MariaDB, which has an io_uring for its files and a thread for each connection: Debian's mysqlslap and sysbench, large
//! results and statements, killed connections. No byte of a socket passes through its ring, so its connections must be
//! accelerated beside it.

use std::fs;
use std::os::unix::fs::chown;

use tests::ends::Ends;
use tests::place::{Place, Rings};
use tests::program::{Program, Running, user_ids};
use tests::{ports, procfs};

const USER: &str = "mysql";

struct MariaDb {
    port: u16,
    server: Running,
    place: Place,
}

impl MariaDb {
    fn start(place: Place) -> Self {
        let port = ports::free();
        let (uid, gid) = user_ids(USER);
        let home = place.folder().join("home");
        fs::create_dir(&home).expect("home");
        chown(&home, Some(uid), Some(gid)).expect("chown");
        let data = format!("--datadir={}/data", home.display());
        Program::new("mariadb-install-db", &place.folder().join("install"))
            .args("--no-defaults --skip-test-db --auth-root-authentication-method=normal")
            .args(&format!("--user={USER} {data}"))
            .run();
        let server = place
            .server("/usr/sbin/mariadbd")
            .args(&format!("--no-defaults --user={USER} {data} --port={port}"))
            .args("--bind-address=127.0.0.1 --skip-name-resolve")
            .arg(format!("--socket={}/socket", home.display()))
            // Less memory than the tables of the tests need: pages are read while clients wait.
            .args("--innodb-buffer-pool-size=6M --innodb-flush-log-at-trx-commit=0")
            .start()
            .listening(port);
        let uring = procfs::has_io_uring(server.pid());
        assert!(uring, "it has no io_uring: {}", server.errors());
        Self {
            port,
            server,
            place,
        }
    }

    fn client(&self, name: &str) -> Program {
        let client = self.place.client(name).arg("--no-defaults");
        client.args(&format!(
            "--host=127.0.0.1 --port={} --user=root",
            self.port
        ))
    }

    fn sql(&self, statements: &str) -> String {
        let client = self.client("mariadb").args("--batch --skip-column-names");
        let client = client.args("--max-allowed-packet=64M --execute");
        client.arg(statements).run().trim_end().to_owned()
    }

    /// Gives all that sysbench printed.
    fn sysbench(&self, script: &str, options: &str) -> String {
        let server = format!("--mysql-host=127.0.0.1 --mysql-port={}", self.port);
        let sysbench = self.place.client("sysbench").arg(script).args(&server);
        let database = "--db-driver=mysql --mysql-user=root --mysql-db=bench";
        sysbench.args(database).args(options).run()
    }

    fn stop(self, rings: Rings) {
        let finished = self.server.stop(libc::SIGTERM);
        assert!(finished.status.success(), "{}", finished.errors);
        self.place.check(rings);
    }
}

/// All statements of all clients are done: the rows that they added are there.
#[test]
fn mysqlslap() {
    for &ends in Ends::all() {
        let database = MariaDb::start(Place::new(ends));
        let slap = |options: &str| {
            let slap = database.client("mysqlslap").args("--auto-generate-sql");
            let output = slap.args("--iterations=1").args(options).run();
            assert!(output.contains("seconds to run all queries"), "{output}");
        };
        slap("--concurrency=8 --number-of-queries=4000 --auto-generate-sql-load-type=mixed");
        slap(
            "--concurrency=1 --number-of-queries=1000 --auto-generate-sql-load-type=key --auto-generate-sql-add-autoincrement",
        );
        slap(
            "--concurrency=4 --number-of-queries=1000 --auto-generate-sql-load-type=write --no-drop",
        );
        // 1000, and the 99 that mysqlslap adds beforehand.
        assert_eq!(
            database.sql("select count(*) from mysqlslap.t1"),
            "1099",
            "{ends:?}"
        );
        database.stop(Rings::Most);
    }
}

#[test]
fn sysbench() {
    for &ends in Ends::all() {
        let database = MariaDb::start(Place::new(ends));
        database.sql("create database bench");
        let table = "--tables=1 --table-size=40000 --threads=4 --time=0";
        database.sysbench("oltp_read_write", &format!("{table} prepare"));
        for (script, events) in [("oltp_point_select", 4000), ("oltp_read_write", 150)] {
            let output = database.sysbench(script, &format!("{table} --events={events} run"));
            let transactions = output.lines().find(|line| line.contains("transactions:"));
            let done = transactions.and_then(|line| line.split_whitespace().nth(1));
            assert_eq!(done, Some(events.to_string().as_str()), "{output}");
        }
        assert_eq!(database.sql("select count(*) from bench.sbtest1"), "40000");
        database.stop(Rings::Most);
    }
}

/// Results and statements that fill every buffer between the two. Each has a connection of its own, with few calls.
#[test]
fn large_values() {
    const LENGTH: usize = 8 << 20;
    for &ends in Ends::all() {
        let database = MariaDb::start(Place::new(ends).at_once());
        database.sql("set global max_allowed_packet = 67108864");
        let text = database.sql(&format!(
            "select repeat('0123456789abcdef', {})",
            LENGTH / 16
        ));
        assert!(
            text == "0123456789abcdef".repeat(LENGTH / 16),
            "{} bytes",
            text.len()
        );
        let file = database.place.folder().join("statements");
        let digits = "fedcba9876543210".repeat(LENGTH / 16);
        fs::write(
            &file,
            format!("select md5('{digits}'), length('{digits}');"),
        )
        .expect("a file");
        let answer = database.sql(&format!("source {}", file.display()));
        let right = database.sql(&format!(
            "select md5(repeat('fedcba9876543210', {})), {LENGTH}",
            LENGTH / 16
        ));
        assert_eq!(answer, right);
        database.stop(Rings::Most);
    }
}

/// A client whose connection is ended by the server hears of it; the others go on.
#[test]
fn killed_connections() {
    for &ends in Ends::all() {
        let database = MariaDb::start(Place::new(ends));
        let mut sleeper = database
            .client("mariadb")
            .args("--skip-reconnect --execute")
            .arg("select sleep(60)")
            .start();
        let asleep =
            "select id from information_schema.processlist where info = 'select sleep(60)'";
        let mut id = String::new();
        sleeper.until("it sleeps", |_| {
            id = database.sql(asleep);
            !id.is_empty()
        });
        database.sql(&format!("kill {id}"));
        let finished = sleeper.wait();
        assert_eq!(finished.status.code(), Some(1), "{}", finished.errors);
        assert!(
            finished.errors.contains("ERROR 2013") || finished.errors.contains("ERROR 2026"),
            "{}",
            finished.errors
        );
        assert_eq!(database.sql("select 6 * 7"), "42");
        database.stop(Rings::Any);
    }
}
