//! MariaDB by its socket, without any port: the client with large values, mysqlslap, mysqldump, a killed connection.

use std::fs;
use std::path::PathBuf;

use tests::ends::Ends;
use tests::place::{Place, Rings};
use tests::program::{Program, Running};

use super::{copy_folder, owned_folder, same_as_kernel, same_as_kernel_with};

const USER: &str = "mysql";

struct MariaDb<'a> {
    place: &'a Place,
    socket: PathBuf,
    server: Running,
}

/// The files of a new server: they are the same for each run.
fn installed() -> Place {
    let place = Place::new(Ends::Kernel);
    let data = data(&place);
    owned_folder(&place.folder().join("home"), USER);
    Program::new("mariadb-install-db", &place.folder().join("install"))
        .args(&data)
        .args("--skip-test-db --auth-root-authentication-method=normal")
        .run();
    place
}

fn data(place: &Place) -> String {
    let folder = place.folder().display();
    format!("--no-defaults --user={USER} --datadir={folder}/home/data")
}

impl<'a> MariaDb<'a> {
    fn start(place: &'a Place, installed: &Place) -> Self {
        copy_folder(installed, place, "home");
        let socket = place.folder().join("home/socket");
        let server = place.server("/usr/sbin/mariadbd").args(&data(place));
        let server = server
            .args("--skip-networking --innodb-flush-log-at-trx-commit=0 --max-allowed-packet=64M")
            .arg(format!("--socket={}", socket.display()))
            .start()
            .listening_at(&socket);
        Self {
            place,
            socket,
            server,
        }
    }

    fn client(&self, name: &str) -> Program {
        let client = self.place.client(name).args("--no-defaults --user=root");
        let client = client.arg(format!("--socket={}", self.socket.display()));
        client.directory(self.place.folder())
    }

    fn sql(&self, statements: &str) -> String {
        let client = self.client("mariadb").args("--batch --skip-column-names");
        let client = client.args("--max-allowed-packet=64M --execute");
        client.arg(statements).run()
    }

    fn stop(self) {
        let finished = self.server.stop(libc::SIGTERM);
        assert!(finished.status.success(), "{}", finished.errors);
    }
}

#[test]
fn mysqlslap() {
    let installed = installed();
    same_as_kernel_with(Rings::Most, Rings::Most, |place| {
        let database = MariaDb::start(place, &installed);
        for options in [
            "--concurrency=8 --number-of-queries=800 --auto-generate-sql-load-type=mixed",
            "--concurrency=4 --number-of-queries=600 --auto-generate-sql-load-type=write --no-drop",
        ] {
            let slap = database.client("mysqlslap").args("--auto-generate-sql");
            let output = slap.args("--iterations=1").args(options).run();
            assert!(output.contains("seconds to run all queries"), "{output}");
        }
        let text = database.sql("select count(*) from mysqlslap.t1");
        database.stop();
        text
    });
}

/// Results and statements that fill every buffer between the two, a dump that is read back, a connection that is killed.
#[test]
fn large_values_and_dumps() {
    let installed = installed();
    same_as_kernel(Rings::Most, |place| {
        let database = MariaDb::start(place, &installed);
        let folder = place.folder();
        let large = database.sql("select repeat('0123456789abcdef', 400000)");
        let digits = "fedcba9876543210".repeat(250_000);
        fs::write(folder.join("large"), format!("select md5('{digits}');")).expect("a file");
        let mut text = format!("{} bytes\n", large.len());
        text += &database.sql("source large");
        text += &database.sql(
            "create database a; create database b; use a; create table t as \
             select seq as i, repeat(md5(seq), 1 + seq % 40) as s from seq_1_to_4000",
        );
        let dump = database
            .client("mariadb-dump")
            .args("--skip-dump-date a")
            .run();
        fs::write(folder.join("dump"), format!("use b;\n{dump}")).expect("the dump");
        text += &database.sql("source dump");
        for name in ["a", "b"] {
            text += &database.sql(&format!(
                "select count(*), sum(crc32(s)), sum(length(s)) from {name}.t"
            ));
        }
        text += &killed(&database);
        database.stop();
        text
    });
}

/// What a client says whose connection the server ends.
fn killed(database: &MariaDb) -> String {
    let client = database
        .client("mariadb")
        .args("--skip-reconnect --execute");
    let mut sleeper = client.arg("select sleep(60)").start();
    let mut id = String::new();
    sleeper.until("it sleeps", |_| {
        id = database
            .sql("select id from information_schema.processlist where info = 'select sleep(60)'");
        !id.is_empty()
    });
    database.sql(&format!("kill {id}"));
    let finished = sleeper.wait();
    format!(
        "{:?} {}{}",
        finished.status.code(),
        finished.errors,
        database.sql("select 6 * 7")
    )
}
