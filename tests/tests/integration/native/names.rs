//! Names on one host: processes that register them, withdraw them and are killed, and others that hear of it.

mod etcd;
mod hosts;

use std::collections::HashSet;
use std::fs;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use tests::ends::{Ends, Side};
use tests::place::Place;
use tests::ports;
use tests::program::{Program, Running};
use tests::rng::Rng;
use tests::wait;

/// What docs/native.md promises of the notice that a process has been killed.
const NOTICE: Duration = Duration::from_millis(500);

/// A line of a watcher.
#[derive(Debug)]
struct Told {
    appeared: bool,
    instance: u32,
    pid: u32,
    host: String,
    nanoseconds: u128,
}

/// All that a watcher has told so far.
fn told(watcher: &Running) -> Vec<Told> {
    let output = watcher.output();
    // The last line may be half written.
    let whole = output.rfind('\n').map_or("", |end| &output[..end]);
    let lines = whole.lines().filter(|line| *line != "watches");
    lines
        .map(|line| {
            let words: Vec<&str> = line.split(' ').collect();
            Told {
                appeared: words[0] == "+",
                instance: words[1].parse().expect("an instance"),
                pid: words[2].parse().expect("a pid"),
                host: words[4].to_owned(),
                nanoseconds: words[5].parse().expect("a time"),
            }
        })
        .collect()
}

/// Who is there, by what a watcher has told, which must be one after the other.
fn present(watcher: &Running) -> HashSet<(u32, u32)> {
    let mut present = HashSet::new();
    for told in told(watcher) {
        let place = (told.instance, told.pid);
        match told.appeared {
            true => assert!(present.insert(place), "{place:?} appears twice"),
            false => assert!(present.remove(&place), "{place:?} was not there"),
        }
    }
    present
}

fn names(place: &Place, words: &str) -> Program {
    let program = place.own(Side::Server, "names").without("LD_PRELOAD");
    program.env("ULSOCK_RUN_DIR", place.run_dir()).args(words)
}

fn watchers(place: &Place) -> [Running; 2] {
    ["blocking", "tasks"].map(|how| {
        let mut watcher = names(place, &format!("watch service=db how={how}")).start();
        watcher.prints("watches");
        watcher
    })
}

fn holder(place: &Place, instance: u32) -> Running {
    let words = format!("hold service=db instance={instance}");
    let mut holder = names(place, &words).piped().start();
    holder.prints("held");
    holder
}

/// No file is left of any name.
pub fn check_clean(place: &Place) {
    let left = names(place, "range service=db").run();
    assert_eq!(left, "");
    for entry in fs::read_dir(place.run_dir()).expect("the run directory") {
        let path = entry.expect("an entry").path();
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        if name.starts_with("names.") {
            let files = fs::read_dir(&path).expect("a folder").flatten();
            let files: Vec<_> = files.map(|file| file.file_name()).collect();
            assert!(files.is_empty(), "{files:?} in {name}");
        }
    }
}

#[test]
fn withdrawn_and_killed() {
    let place = Place::new(Ends::Kernel);
    let watchers = watchers(&place);
    let mut slowest = Duration::ZERO;
    for round in 0..20 {
        let holder = holder(&place, round);
        let pid = holder.pid();
        for watcher in &watchers {
            wait::until("it has appeared", || {
                present(watcher).contains(&(round, pid))
            });
        }
        let since = SystemTime::now();
        match round % 2 {
            0 => drop(holder.succeed()),
            _ => drop(holder.stop(libc::SIGKILL)),
        }
        for watcher in &watchers {
            wait::until("it has disappeared", || present(watcher).is_empty());
            let last = told(watcher).pop().expect("an event");
            let since = since.duration_since(UNIX_EPOCH).expect("after 1970");
            let took = last.nanoseconds.saturating_sub(since.as_nanos());
            slowest = slowest.max(Duration::from_nanos(took as u64));
        }
    }
    println!("the slowest notice took {slowest:?}");
    assert!(slowest < NOTICE, "{slowest:?}");
    check_clean(&place);
}

/// Also where the last owner has been killed, and everybody finds its file.
#[test]
fn of_many_processes_exactly_one_wins() {
    let place = Place::new(Ends::Kernel);
    for round in 0..10 {
        let go = place.folder().join(format!("go-{round}"));
        let words = format!("race service=db instance=1 go={}", go.display());
        let mut racers: Vec<Running> = (0..12)
            .map(|_| names(&place, &words).piped().start())
            .collect();
        fs::write(&go, "").expect("a file");
        for racer in &mut racers {
            racer.until("it has raced", |racer| racer.output().ends_with('\n'));
        }
        let won = |racer: &Running| racer.output() == "held\n";
        let winners: Vec<usize> = (0..racers.len()).filter(|it| won(&racers[*it])).collect();
        assert_eq!(winners.len(), 1, "round {round}");
        let winner = racers.swap_remove(winners[0]);
        let taken = format!("taken {}\n", winner.pid());
        for racer in racers {
            assert_eq!(racer.succeed(), taken);
        }
        winner.stop(libc::SIGKILL);
    }
    check_clean(&place);
}

/// Processes that register and withdraw all the time, each killed at some moment, while others live on.
#[test]
fn killed_at_any_moment() {
    let place = Place::new(Ends::Kernel);
    let watchers = watchers(&place);
    let lasting = [holder(&place, 1000), holder(&place, 1001)];
    let mut rng = Rng::new(3, 1);
    for round in 0..30 {
        let churn = |_| {
            let words = format!("churn service=db instance={}", round % 3);
            names(&place, &words).start()
        };
        let churners: Vec<Running> = (0..2).map(churn).collect();
        for churner in churners {
            std::thread::sleep(Duration::from_micros(rng.below(40_000) as u64));
            churner.stop(libc::SIGKILL);
        }
    }
    let there = (1000..).zip(lasting.iter().map(Running::pid)).collect();
    for watcher in &watchers {
        wait::until("only those are there that live", || {
            present(watcher) == there
        });
    }
    let found = names(&place, "range service=db").run();
    assert_eq!(found.lines().count(), 2, "{found}");
    lasting.into_iter().for_each(|it| drop(it.succeed()));
    for watcher in &watchers {
        wait::until("nobody is there", || present(watcher).is_empty());
    }
    check_clean(&place);
}

#[test]
fn a_call_by_name() {
    let place = Place::new(Ends::Kernel);
    let port = ports::free();
    let words = format!("echo service=db instance=5 host=0.0.0.0 port={port}");
    let mut server = names(&place, &words).start();
    server.prints("held");
    let called = names(&place, "call service=db instance=5").run();
    let (pid, address) = (server.pid(), format!("127.0.0.1:{port}"));
    assert!(
        called.starts_with(&format!("5 {pid} {address} here ")),
        "{called}"
    );
    let nobody = names(&place, "find service=db instance=6").run();
    assert_eq!(nobody, "nobody has the name\n");
    server.stop(libc::SIGKILL);
    let nobody = names(&place, "find service=db instance=5").run();
    assert_eq!(nobody, "nobody has the name\n");
}
