//! The guard: a connection that its rings slow down goes to kernel TCP and says so, and comes back when
//! they do not any more; one that gains by them stays; and no byte is lost on the way, however often.

use std::fs;
use std::time::{Duration, Instant};

use tests::ends::{Ends, Side, kernel_only};
use tests::place::Place;
use tests::program::Running;
use tests::{ports, top, wait};

use crate::script;

/// An echo server and a client whose calls all sleep; the client checks every byte that comes back.
struct Echo {
    server: Running,
    client: Running,
    place: Place,
}

impl Echo {
    /// Options of the server's may follow its name.
    fn start(place: Place, server: &str, conns: usize, options: &str) -> Self {
        let port = ports::free();
        let (server, more) = server.split_once(' ').unwrap_or((server, ""));
        let server = place
            .own(Side::Server, server)
            .args(&format!("port={port} conns={conns} {more}"))
            .piped()
            .start()
            .listening(port);
        let client = place
            .own(Side::Client, "echo_client")
            .args(&format!("port={port} conns={conns} {options}"))
            .start();
        Self {
            server,
            client,
            place,
        }
    }

    /// One connection, small messages, until it is stopped.
    fn small(place: Place) -> Self {
        let options = "rounds=1000000000 fixed=64";
        Self::start(place.with("ULSOCK_SPIN_US", 0), "echo_threads", 1, options)
    }

    /// Waits until both ends say this about their connection.
    fn until(&mut self, what: &str, say: impl Fn(&top::Row) -> bool) {
        let run_dir = self.place.run_dir().to_owned();
        self.client.until(what, |_| {
            let rows = top::rows(&run_dir);
            rows.len() == 2 && rows.iter().all(&say)
        });
    }

    /// Demands that for so long, at every look, both ends say this about their connection.
    fn throughout(&self, time: Duration, what: &str, say: impl Fn(&top::Row) -> bool) {
        wait::throughout(time, what, || {
            let rows = top::rows(self.place.run_dir());
            let holds = rows.len() == 2 && rows.iter().all(&say);
            holds.then_some(()).ok_or_else(|| format!("{rows:?}"))
        });
    }

    fn stop(self) -> Place {
        assert_eq!(self.client.errors(), "");
        self.client.stop(libc::SIGTERM);
        self.server.stop(libc::SIGTERM);
        self.place
    }
}

fn is_slower(row: &top::Row) -> bool {
    let carriers = (row.carrier_tx.as_str(), row.carrier_rx.as_str());
    carriers == ("kernel", "kernel") && row.reason == "slower"
}

#[test]
fn who_loses_by_rings_goes_to_the_kernel() {
    if kernel_only() {
        return;
    }
    let mut echo = Echo::small(Place::new(Ends::both()).with("ULSOCK_DRAG", 500));
    echo.until("it is on the kernel", is_slower);
    // It is tried again, and goes there again.
    echo.until("the rings are tried", |row| !is_slower(row));
    echo.until("it is on the kernel again", is_slower);
    echo.stop().check_quiet();
}

#[test]
fn it_comes_back_when_rings_are_faster_again() {
    if kernel_only() {
        return;
    }
    let begin = Instant::now();
    let mut echo = Echo::small(Place::new(Ends::both()).with("ULSOCK_DRAG", "500:1500"));
    echo.until("it is on the kernel", is_slower);
    // A trial that has begun before the drag's end may be lost a moment after it.
    let is_fast_again = || begin.elapsed() > Duration::from_millis(1500 + 500);
    echo.until("it is back", |row| row.is_accelerated() && is_fast_again());
    // The kernel is tried for some milliseconds now and then, and must not win.
    echo.throughout(Duration::from_secs(2), "rings are not slower", |row| {
        row.reason.is_empty()
    });
    echo.until("it is on rings", top::Row::is_accelerated);
    echo.stop().check_quiet();
}

#[test]
fn without_it_nothing_moves() {
    if kernel_only() {
        return;
    }
    let place = Place::new(Ends::both()).with("ULSOCK_GUARD", 0);
    let mut echo = Echo::small(place.with("ULSOCK_DRAG", 500));
    echo.until("it is on rings", top::Row::is_accelerated);
    echo.throughout(
        Duration::from_secs(2),
        "it is on rings",
        top::Row::is_accelerated,
    );
    echo.stop().check_quiet();
}

/// Trials come after 50 ms, and then 1, 2 and 4 s after the one before.
#[test]
fn who_gains_by_rings_is_tried_seldom_and_stays() {
    const TIME: Duration = Duration::from_secs(4);
    const TRIALS: usize = 4;
    if kernel_only() {
        return;
    }
    for spin in ["0", "auto"] {
        let place = Place::new(Ends::both());
        let log = place.folder().join("guard.log");
        let place = place
            .with("ULSOCK_SPIN_US", spin)
            .with("ULSOCK_LOG", "debug")
            .with("ULSOCK_LOG_FILE", log.display());
        let options = "rounds=1000000000 fixed=64";
        let echo = Echo::start(place, "echo_threads", 1, options);
        std::thread::sleep(TIME);
        let rows = top::rows(echo.place.run_dir());
        let text = fs::read_to_string(&log).expect("the log");
        assert!(rows.iter().all(|row| row.reason != "slower"), "{rows:?}");
        assert!(!text.contains("is slower"), "{text}");
        let trials = text.matches("is not slower").count();
        assert!(trials <= TRIALS, "{trials} trials: {text}");
        echo.stop().check_quiet();
    }
}

#[test]
fn every_byte_survives_any_number_of_moves() {
    for server in ["echo_threads", "echo_epoll"] {
        for (spin, ring) in [("0", 16384), ("auto", 4 << 20)] {
            let place = Place::new(Ends::both())
                .eager()
                .with("ULSOCK_GUARD", "eager")
                .with("ULSOCK_SPIN_US", spin)
                .with("ULSOCK_RING", ring);
            let echo = Echo::start(place, server, 6, "rounds=3000 max=4000");
            echo.client.succeed();
            echo.server.stop(libc::SIGTERM);
            echo.place.check_quiet();
            let (report, _) = echo.place.report(Side::Client);
            if echo.place.ends() == Ends::Both {
                assert!(report.ring_bytes() > 0, "{report:?}");
                assert!(report.kernel_bytes() > 100_000, "{report:?}");
            }
        }
    }
}

/// Where each end makes two sends and then waits, Nagle's algorithm and delayed acknowledgements cost
/// kernel TCP 80 ms a round. Rings know neither, and so a guard that goes to the kernel brings none: else
/// the kernel would lose against the slowest of rings.
#[test]
fn no_nagle_on_the_way() {
    if kernel_only() {
        return;
    }
    let place = Place::new(Ends::both())
        .with("ULSOCK_DRAG", 500)
        .with("ULSOCK_SPIN_US", 0);
    let options = "rounds=1000000000 fixed=64 pieces=2";
    let mut echo = Echo::start(place, "echo_threads whole=64", 1, options);
    echo.until("it is on the kernel", is_slower);
    echo.stop().check_quiet();
}

/// A thread that sleeps in the kernel's own receive hears of no ring: as long as it does, its direction has none,
/// however often the guard has come back to them in the other.
#[test]
fn a_reader_from_before_the_rings() {
    let places = [
        Place::new(Ends::both()).eager(),
        Place::new(Ends::both())
            .eager()
            .with("ULSOCK_GUARD", "eager"),
    ];
    for place in places {
        let program = place.client("/usr/bin/python3");
        let said = program.arg(script("early_reader.py")).limit(60).run();
        assert_eq!(said, "ok\n");
        place.check_quiet();
    }
}
