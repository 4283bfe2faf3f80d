//! `ulsock compare`: every scenario for a moment, its table, JSON and page, the user's own programs,
//! and that nothing is left behind whatever ends it.

use std::fs;
use std::path::Path;

use serde_json::Value;
use tests::ends::{Ends, Side, kernel_only};
use tests::place::Place;
use tests::program::{Finished, Program, built};
use tests::{procfs, wait};

/// All scenarios but those that always take a second for each run: these have a test of their own.
const SCENARIOS: &str = "ping-pong,stream,netpipe,redis,memcached,nginx-short,pgbench,tpc-b,go-ping-pong,go-http,go-redis,java,\
                         zmq,liburing,requests,multicast,mpi,churn,connections,poll,memory,calls,threads,one-core,loaded,blocking,\
                         unix-ping-pong,unix-stream,unix-redis,unix-pgbench,unix-churn";
const SLOW: &str = "sockperf,iperf3,nginx,unix-nginx";

/// The command; its work folder lies in the place's.
pub fn compare(place: &Place) -> Program {
    let program = place.own(Side::Client, "ulsock").without("LD_PRELOAD");
    program.arg("compare").env("TMPDIR", place.folder())
}

/// Runs it with options that make it print JSON.
pub fn json(place: &Place, program: Program) -> (Value, Finished) {
    let finished = program.start().wait();
    let report = serde_json::from_str(&finished.output);
    let report = report.unwrap_or_else(|error| {
        panic!("{error} in {:?}; {}", finished.output, finished.errors);
    });
    assert_no_litter(place);
    (report, finished)
}

/// Its work folder, with whatever was in it, is gone.
pub fn assert_no_litter(place: &Place) {
    let left = litter(place);
    assert!(left.is_empty(), "left behind: {left:?}");
}

pub fn litter(place: &Place) -> Vec<String> {
    let left = fs::read_dir(place.folder()).expect("work folder").flatten();
    let names = left.map(|entry| entry.file_name().to_string_lossy().into_owned());
    names
        .filter(|name| name.starts_with("ulsock-compare"))
        .collect()
}

fn array(value: &Value) -> &[Value] {
    value.as_array().map_or(&[], Vec::as_slice)
}

/// Every line has its figures, and no run failed. That a short run stayed on kernel TCP is no failure.
pub fn assert_measured(report: &Value, names: &str) {
    let sections = array(&report["sections"]);
    let found: Vec<&str> = sections
        .iter()
        .filter_map(|section| section["name"].as_str())
        .collect();
    let mut wanted: Vec<&str> = names.split(',').collect();
    wanted.retain(|name| !found.contains(name));
    assert!(
        wanted.is_empty(),
        "missing: {wanted:?}, skipped: {}",
        report["skipped"]
    );
    for row in sections.iter().flat_map(|section| array(&section["rows"])) {
        let problems = array(&row["problems"]).iter().filter_map(Value::as_str);
        let failed: Vec<&str> = problems
            .filter(|problem| problem.contains("failed"))
            .collect();
        assert!(failed.is_empty(), "{row}");
        for contender in ["kernel", "ulsock"] {
            let figure = &row[contender];
            assert!(
                figure["value"].as_f64().is_some_and(|value| value > 0.0),
                "{contender}: {row}"
            );
            assert!(
                figure["cpu_seconds"]
                    .as_f64()
                    .is_some_and(|value| value > 0.0),
                "{contender}: {row}"
            );
        }
    }
}

fn section<'a>(report: &'a Value, name: &str) -> &'a Value {
    let mut sections = array(&report["sections"]).iter();
    sections
        .find(|section| section["name"] == name)
        .expect("a section")
}

#[test]
fn every_scenario() {
    if kernel_only() {
        return;
    }
    let place = Place::new(Ends::both());
    let page = place.folder().join("page.html");
    let program = compare(&place)
        .args("--runs 1 --seconds 0.02 --json --only")
        .arg(SCENARIOS);
    let (report, finished) = json(&place, program.arg("--html").arg(&page));
    assert_measured(&report, SCENARIOS);
    let lines = finished.errors.lines().filter(|line| line.starts_with('['));
    assert_eq!(
        lines.count(),
        SCENARIOS.split(',').count(),
        "{}",
        finished.errors
    );
    for row in array(&section(&report, "ping-pong")["rows"]) {
        assert!(row["ratio"].is_f64(), "{row}");
    }
    assert_unix(&report);
    let netpipe = [
        "OpenMPI shm",
        "OpenMPI shm, two copies",
        "UCX shm",
        "native messages",
    ];
    assert_references(&report, "netpipe", &netpipe);
    assert_references(&report, "redis", &[]);
    assert_memory(&report);
    assert_page(&page);
}

/// Unix sockets are held against the kernel's Unix sockets, and leave the kernel where they live long enough.
fn assert_unix(report: &Value) {
    for name in ["unix-ping-pong", "unix-stream", "unix-churn"] {
        for row in array(&section(report, name)["rows"]) {
            assert_eq!(row["kernel"]["contender"], "Unix socket", "{row}");
            assert_eq!(row["ulsock"]["contender"], "ulsock, Unix socket", "{row}");
        }
    }
    for row in array(&section(report, "unix-ping-pong")["rows"]) {
        assert!(row["ratio"].is_f64(), "{row}");
    }
}

/// Memory is a cost and no race; a connection that has carried little takes little.
fn assert_memory(report: &Value) {
    const MOST_KIB: f64 = 64.0;
    let rows = array(&section(report, "memory")["rows"]);
    assert!(rows.iter().all(|row| row["ratio"].is_null()), "{rows:?}");
    let kib = |row: usize| rows[row]["ulsock"]["value"].as_f64().expect("a figure");
    assert!(kib(0) <= MOST_KIB, "{rows:?}");
    assert!(
        kib(2) >= kib(1) + 2048.0 && kib(2) >= kib(3) + 2048.0,
        "{rows:?}"
    );
}

/// Runs scenarios with all their cases and references.
fn full(names: &str) -> Value {
    let place = Place::new(Ends::both());
    let program = compare(&place).args("--full --runs 1 --seconds 0.01 --json --only");
    let (report, _) = json(&place, program.arg(names));
    assert_measured(&report, names);
    report
}

/// The first and the last message size or number of connections.
fn span(report: &Value, name: &str) -> [Option<f64>; 2] {
    let rows = array(&section(report, name)["rows"]);
    [rows.first(), rows.last()].map(|row| row.and_then(|row| row["x"].as_f64()))
}

fn assert_remarks(report: &Value, name: &str, wanted: &[&str]) {
    let remarks = &section(report, name)["remarks"];
    for said in wanted {
        let mut texts = array(remarks).iter().filter_map(Value::as_str);
        assert!(texts.any(|text| text.contains(said)), "{said}: {remarks}");
    }
}

#[test]
fn full_sizes() {
    if kernel_only() {
        return;
    }
    let report = full("stream,calls");
    let stream = ["Unix socket", "bare ring", "native messages"];
    assert_references(&report, "stream", &stream);
    assert_references(&report, "calls", &["bare ring"]);
    assert_eq!(span(&report, "stream"), [Some(1.0), Some((4 << 20) as f64)]);
    assert_remarks(
        &report,
        "stream",
        &["Half of its peak", "bare ring's bandwidth: 1 B"],
    );
    assert_remarks(&report, "calls", &["send, 64 B", "In instructions"]);
}

#[test]
fn full_programs() {
    if kernel_only() {
        return;
    }
    let names = "redis,memcached,pgbench";
    let report = full(&format!("{names},unix-redis,unix-pgbench,unix-churn"));
    for name in names.split(',') {
        assert_references(&report, name, &["Unix socket"]);
    }
    for name in ["unix-redis", "unix-pgbench", "unix-churn"] {
        assert_references(&report, name, &["kernel TCP", "ulsock"]);
    }
}

#[test]
fn full_connections() {
    if kernel_only() {
        return;
    }
    let report = full("connections,poll");
    assert_eq!(span(&report, "connections"), [Some(1.0), Some(5000.0)]);
    assert_remarks(
        &report,
        "connections",
        &["From 1 connection to 5000 connections"],
    );
}

/// Every line of the scenario is held against these.
fn assert_references(report: &Value, name: &str, wanted: &[&str]) {
    for row in array(&section(report, name)["rows"]) {
        let references = array(&row["references"]).iter();
        let found: Vec<&Value> = references.map(|figure| &figure["contender"]).collect();
        assert_eq!(found, wanted, "{name}: {row}");
    }
}

/// These know whole seconds only; and on one CPU there is no second placement.
#[test]
fn programs_with_whole_seconds() {
    if kernel_only() {
        return;
    }
    let place = Place::new(Ends::both());
    let program = place.program(Side::Client, "taskset").without("LD_PRELOAD");
    let program = program
        .arg("-c")
        .arg(procfs::first_cpu())
        .arg(built("ulsock"));
    let program = program.args("compare --runs 1 --seconds 0.02 --json --only");
    let program = program.arg(SLOW).env("TMPDIR", place.folder());
    let (report, _) = json(&place, program);
    assert_measured(&report, SLOW);
    let row = &section(&report, "sockperf")["rows"][0];
    let percents: Vec<f64> = array(&row["ulsock"]["percentiles"])
        .iter()
        .filter_map(|point| point[0].as_f64())
        .collect();
    assert_eq!(percents.last(), Some(&99.99), "{row}");
}

/// Self-contained, and every element that is opened is closed.
fn assert_page(path: &Path) {
    let text = fs::read_to_string(path).expect("the page");
    for foreign in [
        "://", "src=", "href=", "<script", "@import", "url(", "NaN", "inf\"",
    ] {
        assert!(!text.contains(foreign), "{foreign}");
    }
    for part in [
        "<path",
        "<circle",
        "class=\"bar ulsock\"",
        "class=\"cards\"",
        "class=\"spread\"",
        "CPU time of both ends",
        "prefers-color-scheme: dark",
        "Percentiles",
    ] {
        assert!(text.contains(part), "{part}");
    }
    let mut open: Vec<&str> = Vec::new();
    for tag in text.split('<').skip(1).filter(|tag| !tag.starts_with('!')) {
        let (tag, _) = tag.split_once('>').expect("a tag ends");
        let name = tag
            .split([' ', '/'])
            .find(|word| !word.is_empty())
            .unwrap_or_default();
        if let Some(closed) = tag.strip_prefix('/') {
            assert_eq!(open.pop(), Some(closed), "in {path:?}");
        } else if !tag.ends_with('/') && name != "meta" {
            open.push(name);
        }
    }
    assert!(open.is_empty(), "{open:?}");
}

#[test]
fn own_programs() {
    if kernel_only() {
        return;
    }
    let place = Place::new(Ends::both());
    let program = compare(&place).args("--runs 1 --json -- redis-server --port {port} --save");
    let program = program
        .arg("")
        .args("-- redis-benchmark -p {port} -t get -n 3000 -c 3 -q");
    let (report, finished) = json(&place, program);
    assert_eq!(finished.status.code(), Some(0), "{report}");
    assert_measured(&report, "own");
    let rows = array(&section(&report, "own")["rows"]);
    let units: Vec<&Value> = rows.iter().map(|row| &row["unit"]).collect();
    assert_eq!(units, ["requests per second", "s"], "{report}");
}

/// The user says where the figure is; the server ends by itself.
#[test]
fn own_figure() {
    if kernel_only() {
        return;
    }
    let place = Place::new(Ends::both());
    let pingpong = built("pingpong");
    let program = compare(&place).args("--runs 1 --json --figure \"mean_us\" --");
    let program = program
        .arg(&pingpong)
        .args("server {port} --")
        .arg(&pingpong);
    let (report, _) = json(
        &place,
        program.args("client 127.0.0.1:{port} --seconds 0.1"),
    );
    assert_measured(&report, "own");
    let row = &section(&report, "own")["rows"][0];
    assert_eq!(row["unit"], "mean_us", "{row}");
    assert!(row["ratio"].is_f64(), "{row}");
}

#[test]
fn what_is_missing_is_said() {
    let place = Place::new(Ends::both());
    let nowhere = place.folder().join("nowhere");
    let program = compare(&place).args("--runs 1 --seconds 0.02 --only sockperf,redis");
    let finished = program.env("PATH", nowhere).start().wait();
    assert_eq!(finished.status.code(), Some(0), "{}", finished.errors);
    for said in [
        "sockperf skipped: not installed; apt install sockperf",
        "redis-server redis-tools",
    ] {
        assert!(finished.output.contains(said), "{}", finished.output);
    }
    let list = compare(&place).args("--list").run();
    assert!(list.lines().count() >= 20, "{list}");
}

/// A scenario that cannot work does not keep the others from it; kernel TCP is not sold as ulsock.
#[test]
fn failures_are_told_apart() {
    if kernel_only() {
        return;
    }
    let place = Place::new(Ends::both());
    let broken = place.folder().join("bin");
    fs::create_dir(&broken).expect("bin");
    std::os::unix::fs::symlink("/bin/false", broken.join("iperf3")).expect("a broken iperf3");
    let path = format!(
        "{}:{}",
        broken.display(),
        std::env::var("PATH").expect("PATH")
    );
    let program = compare(&place).args("--runs 1 --seconds 0.02 --only iperf3,churn");
    let finished = program.env("PATH", path).start().wait();
    assert_eq!(finished.status.code(), Some(1), "{}", finished.output);
    for said in ["server: ended before it listens", "connect, 64 B, close"] {
        assert!(finished.output.contains(said), "{}", finished.output);
    }
    let off = compare(&place)
        .args("--runs 1 --seconds 0.02 --only blocking")
        .env("ULSOCK", "0");
    let finished = off.start().wait();
    assert_eq!(finished.status.code(), Some(1), "{}", finished.output);
    assert!(finished.output.contains("not used"), "{}", finished.output);
    for wrong in ["--only nonsense", "-- a b", "--figure x", "--seconds 0"] {
        let finished = compare(&place).args(wrong).start().wait();
        assert_eq!(
            finished.status.code(),
            Some(2),
            "{wrong}: {}",
            finished.errors
        );
    }
}

/// nginx has a worker, memcached another user, mpirun processes of its own.
#[test]
fn nothing_outlives_it() {
    for (signal, scenario) in [
        (libc::SIGKILL, "nginx"),
        (libc::SIGINT, "memcached"),
        (libc::SIGTERM, "mpi"),
    ] {
        let place = Place::new(Ends::both());
        let program = compare(&place)
            .args("--runs 1 --seconds 60 --only")
            .arg(scenario);
        let mut running = program.start();
        let programs = || procfs::working_in(place.folder()).len();
        // The guard and the command itself do not work there.
        running.until("both ends run", |_| programs() >= 2);
        running.stop(signal);
        wait::until(&format!("{scenario}: no program is left"), || {
            programs() == 0
        });
        wait::until(&format!("{scenario}: no folder is left"), || {
            let mut left = fs::read_dir(place.folder()).expect("folder").flatten();
            !left.any(|entry| entry.path().is_dir())
        });
    }
}
