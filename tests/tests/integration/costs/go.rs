//! What a program of Go pays: for calls that are none of ulsock's, and while it waits.

use std::time::Duration;

use tests::ends::{Ends, Side, kernel_only};
use tests::go::newest;
use tests::place::{Place, Rings};
use tests::{ports, procfs};

const CALLS: u32 = 100_000;
/// The most that a call may cost more, in nanoseconds. The stub's look-up is a few; a foreign descriptor's a few more.
const MOST: f64 = 60.0;
/// Pairs of runs, of which the best counts: the machine may be busy.
const PAIRS: usize = 3;
const CONNECTIONS: usize = 8;
/// How long programs are watched that wait.
const REST: Duration = Duration::from_secs(2);

/// By the name of the call, nanoseconds.
fn figures(place: &Place) -> Vec<(String, f64)> {
    let program = place.program(Side::Client, newest("cost"));
    let text = program.arg(CALLS.to_string()).run();
    let figure = |line: &str| {
        let (name, number) = line.rsplit_once(": ")?;
        Some((name.to_owned(), number.parse().ok()?))
    };
    text.lines().filter_map(figure).collect()
}

#[test]
fn of_foreign_calls() {
    if kernel_only() {
        return;
    }
    let [kernel, ours] = [Ends::Kernel, Ends::Both].map(Place::new);
    let runs: Vec<_> = (0..PAIRS)
        .map(|_| [figures(&kernel), figures(&ours)])
        .collect();
    let best = |index: usize, which: usize| {
        let of_run = runs.iter().map(|run| run[which][index].1);
        of_run.fold(f64::INFINITY, f64::min)
    };
    for (index, (name, _)) in runs[0][0].iter().enumerate() {
        let [plain, under] = [best(index, 0), best(index, 1)];
        println!("{name}: {plain:.1} ns, under ulsock {under:.1} ns");
        assert!(under - plain < MOST, "{name}: {plain:.1} ns, {under:.1} ns");
    }
}

/// Programs that wait do not compute: neither Go's scheduler nor a call of ours spins while nothing comes.
#[test]
fn at_rest() {
    let place = Place::new(Ends::both()).eager();
    let talk = newest("talk");
    let port = ports::free();
    let server = place.server(&talk.to_string_lossy());
    let server = server.args(&format!("serve {port}")).piped().start();
    let server = server.listening(port);
    let client = place.client(&talk.to_string_lossy());
    let client = client.args(&format!("rest {port} {CONNECTIONS}"));
    let mut client = client.piped().start();
    client.prints("at rest");
    let pids = [server.pid(), client.pid()];
    let used = || pids.map(procfs::cpu_time).iter().sum::<Duration>();
    let before = used();
    std::thread::sleep(REST);
    let used = used() - before;
    assert!(used * 20 < REST, "{used:?} of CPU time in {REST:?}");
    client.succeed();
    server.succeed();
    place.check(Rings::Most);
}
