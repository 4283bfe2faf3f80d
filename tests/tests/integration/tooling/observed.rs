//! What `ulsock events`, `stats` and `metrics` show is what the programs do.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::process::{Command, Stdio};

use serde_json::Value;
use tests::ends::{Ends, Side, kernel_only};
use tests::hosts::{Hosts, Nic};
use tests::place::Place;
use tests::program::{Program, Running, built};
use tests::{ports, wait};

const CONNECTIONS: usize = 3;
const ROUNDS: usize = 40;

/// A subcommand that looks at the programs of the place.
fn looker(place: &Place, words: &str) -> Program {
    let program = place.own(Side::Client, "ulsock").without("LD_PRELOAD");
    program.args(words)
}

fn json(place: &Place, words: &str) -> Value {
    let output = looker(place, words).run();
    serde_json::from_str(&output).unwrap_or_else(|error| panic!("{words}: {error} in {output}"))
}

/// Two programs, whose connections carry something and then wait.
pub struct Pair {
    server: Running,
    client: Running,
}

impl Pair {
    pub fn start(place: &Place) -> Pair {
        let port = ports::free();
        let server = place.own(Side::Server, "echo_epoll");
        let server = server.args(&format!("port={port}")).piped().start();
        let server = server.listening(port);
        let client = place.own(Side::Client, "idle");
        let words = format!("port={port} conns={CONNECTIONS} rounds={ROUNDS} wait=epoll");
        let mut client = client.args(&words).start();
        client.prints("idle");
        Pair { server, client }
    }

    pub fn end(mut self) {
        self.server.tell("poke\n");
        self.client.succeed();
        self.server.succeed();
    }
}

/// The events of a program, in their order.
fn of(events: &[Value], pid: u32) -> Vec<&Value> {
    let own = events.iter().filter(|event| event["pid"] == pid);
    own.collect()
}

fn parsed(output: &str) -> Vec<Value> {
    let lines = output.lines();
    let events = lines.map(|line| {
        serde_json::from_str(line).unwrap_or_else(|error| panic!("{error} in {line:?}"))
    });
    events.collect()
}

/// Each connection is opened, goes to rings in both directions, and is closed.
#[test]
fn events_of_connections() {
    if kernel_only() {
        return;
    }
    let place = Place::new(Ends::both());
    let mut follower = looker(&place, "events --json --past").start();
    let pair = Pair::start(&place);
    let pid = pair.client.pid();
    let count = |name: &str, follower: &Running| follower.output().matches(name).count();
    follower.until("all are opened", |it| {
        count("\"opened\"", it) == 2 * CONNECTIONS
    });
    pair.end();
    follower.until("all are closed", |it| {
        count("\"closed\"", it) == 2 * CONNECTIONS
    });
    let output = follower.output();
    follower.stop(libc::SIGINT);
    let events = parsed(&output);
    let own = of(&events, pid);
    let count = |name: &str| own.iter().filter(|it| it["event"] == name).count();
    assert_eq!(count("opened"), CONNECTIONS, "{output}");
    assert_eq!(count("promoted"), 2 * CONNECTIONS, "{output}");
    assert_eq!(count("closed"), CONNECTIONS, "{output}");
    assert_eq!(count("reset"), 0, "{output}");
    for closed in own.iter().filter(|it| it["event"] == "closed") {
        assert_eq!(closed["bytes_sent"], 32 * ROUNDS, "{closed}");
        let connection = &closed["connection"];
        let mut history = own.iter().filter(|it| it["connection"] == *connection);
        let byte = |event: &Value| event["byte"].as_u64().unwrap_or(0) as usize;
        assert_eq!(history.next().expect("its first")["event"], "opened");
        assert!(history.all(|it| byte(it) <= 32 * ROUNDS), "{output}");
    }
    place.check_quiet();
}

/// What has been carried and counted since the programs began, and since an earlier look.
#[test]
fn totals() {
    if kernel_only() {
        return;
    }
    let place = Place::new(Ends::both());
    let pair = Pair::start(&place);
    let first = looker(&place, "stats --json").run();
    let file = place.folder().join("first.json");
    std::fs::write(&file, &first).expect("written");
    let stats: Value = serde_json::from_str(&first).expect("JSON");
    let own = |stats: &Value| -> Value {
        let programs = stats["programs"].as_array().expect("programs");
        let own = programs.iter().find(|it| it["program"] == "idle");
        own.unwrap_or_else(|| panic!("{stats}")).clone()
    };
    let client = own(&stats);
    let sum = |it: &Value, parts: [&str; 2]| {
        parts
            .iter()
            .map(|it_| it[it_].as_u64().unwrap())
            .sum::<u64>()
    };
    let sent = sum(&client, ["ring_bytes_sent", "kernel_bytes_sent"]);
    assert_eq!(sent as usize, CONNECTIONS * ROUNDS * 32, "{client}");
    assert_eq!(client["live"], CONNECTIONS, "{client}");
    assert_eq!(client["promoted_shm"], CONNECTIONS, "{client}");
    assert!(sum(&client, ["waits_awake", "waits_slept"]) > 0, "{client}");
    let since = own(&json(
        &place,
        &format!("stats --json --since {}", file.display()),
    ));
    let sent = sum(&since, ["ring_bytes_sent", "kernel_bytes_sent"]);
    assert_eq!((sent, &since["live"]), (0, &client["live"]), "{since}");
    let text = looker(&place, "stats --program idle").run();
    assert!(text.contains("PROGRAM") && text.contains("idle"), "{text}");
    assert!(!text.contains("echo_epoll"), "{text}");
    pair.end();
}

/// The samples of a page, each line with its value.
fn samples(page: &str) -> Vec<(&str, f64)> {
    let lines = page.lines().filter(|line| !line.starts_with('#'));
    let sample = |line| {
        let (name, value): (&str, &str) = str::rsplit_once(line, ' ')?;
        Some((name, value.parse().ok()?))
    };
    lines
        .map(|line| sample(line).unwrap_or_else(|| panic!("{line:?} in {page}")))
        .collect()
}

fn page(port: u16) -> String {
    let mut stream = TcpStream::connect(("127.0.0.1", port)).expect("connect");
    stream
        .write_all(b"GET /metrics HTTP/1.1\r\nHost: a\r\n\r\n")
        .expect("send");
    let mut answer = String::new();
    stream.read_to_string(&mut answer).expect("receive");
    let (head, page) = answer.split_once("\r\n\r\n").expect("a head");
    assert!(head.starts_with("HTTP/1.1 200 OK"), "{head}");
    page.to_owned()
}

/// Counters do not go back when the programs end.
#[test]
fn metrics() {
    if kernel_only() {
        return;
    }
    let place = Place::new(Ends::Both);
    let port = ports::free();
    let server = looker(&place, &format!("metrics --listen 127.0.0.1:{port}")).start();
    let server = server.listening(port);
    let pair = Pair::start(&place);
    let value = |page: &str, name: &str| -> Option<f64> {
        let samples = samples(page);
        let own = samples.iter().find(|(sample, _)| *sample == name);
        own.map(|(_, value)| *value)
    };
    let opened = "ulsock_connections_opened_total{program=\"idle\"}";
    let live = "ulsock_connections{program=\"idle\",carrier=\"shm\"}";
    let page_now = wait::until_some("the programs are counted", || {
        let page = page(port);
        value(&page, opened).map(|_| page)
    });
    let connections = Some(CONNECTIONS as f64);
    assert_eq!(value(&page_now, opened), connections, "{page_now}");
    assert_eq!(value(&page_now, live), connections, "{page_now}");
    pair.end();
    wait::until("the programs have ended", || {
        value(&page(port), "ulsock_programs{program=\"idle\"}") == Some(0.0)
    });
    let page = page(port);
    assert_eq!(value(&page, opened), connections, "{page}");
    assert_eq!(value(&page, live), Some(0.0), "{page}");
    server.stop(libc::SIGTERM);
}

/// Connections that go by the link, and the link.
#[test]
fn links_of_the_daemon() {
    if kernel_only() {
        return;
    }
    let hosts = Hosts::two();
    let server = hosts.own(0, "echo_epoll").args("host=:: port=7000");
    let mut server = server.piped().start().listening(7000);
    let words = format!("port=7000 conns={CONNECTIONS} rounds=2000 wait=epoll");
    let client = hosts.own(1, "idle").args(&words);
    let mut client = client
        .args(&format!("host={}", hosts.host(0).address()))
        .start();
    client.prints("idle");
    let look = |words: &str| {
        let ulsock = hosts.own(1, "ulsock").without("LD_PRELOAD");
        ulsock.args(words).run()
    };
    let page = look("metrics --once");
    let sum = |name: &str, label: &str| -> f64 {
        let samples = samples(&page).into_iter();
        let own = samples.filter(|(sample, _)| sample.starts_with(name) && sample.contains(label));
        own.map(|(_, value)| value).sum()
    };
    assert_eq!(sum("ulsock_nicd_peer_in_touch{", ""), 1.0, "{page}");
    assert_eq!(sum("ulsock_nicd_link_up{", ""), 1.0, "{page}");
    assert!(
        sum("ulsock_nicd_link_sent_packets_total{", "") > 0.0,
        "{page}"
    );
    assert!(sum("ulsock_nicd_link_window_bytes{", "") > 0.0, "{page}");
    assert!(
        sum("ulsock_promotions_total{", "carrier=\"nic\"") >= 1.0,
        "{page}"
    );
    let events = look("events --once --program idle");
    assert!(events.contains("sends by nic from byte"), "{events}");
    server.tell("poke\n");
    client.succeed();
    server.succeed();
    hosts.check(Nic::Most);
}

/// Who spins, and never sleeps, needs no bell.
#[test]
fn only_sleepers_are_woken() {
    if kernel_only() {
        return;
    }
    let place = Place::new(Ends::both()).with("ULSOCK_SPIN_US", -1);
    let pair = Pair::start(&place);
    let stats = json(&place, "stats --json");
    let sum = |name: &str| -> u64 {
        let programs = stats["programs"].as_array().expect("programs").iter();
        programs.map(|it| it[name].as_u64().expect(name)).sum()
    };
    assert!(sum("wake_ups") <= 2 * sum("waits_slept") + 4, "{stats}");
    assert!(sum("waits_awake") > 0, "{stats}");
    pair.end();
}

/// Programs with another run directory, only for who asks for them.
#[test]
fn other_run_directories() {
    if kernel_only() {
        return;
    }
    let [place, other] = [Place::new(Ends::both()), Place::new(Ends::both())];
    let pair = Pair::start(&other);
    let pid = pair.client.pid();
    let of = |words: &str| -> bool {
        let rows = json(&place, words);
        let rows = rows.as_array().or_else(|| rows["programs"].as_array());
        rows.expect("rows").iter().any(|row| row["pid"] == pid)
    };
    for words in ["top --once --json", "stats --json"] {
        assert!(!of(words), "{words}");
        assert!(of(&format!("{words} --all")), "{words} --all");
    }
    let events = looker(&place, &format!("events --once --json --all --pid {pid}")).run();
    assert!(!parsed(&events).is_empty(), "{events}");
    let page = looker(&place, "metrics --once --all").run();
    assert!(page.contains("program=\"idle\""), "{page}");
    pair.end();
}

/// In a pid namespace of its own a process knows itself by another number than we do.
#[test]
fn numbers_of_processes_are_the_viewers() {
    if kernel_only() {
        return;
    }
    let place = Place::new(Ends::both());
    let port = ports::free();
    let server = place.own(Side::Server, "echo_epoll");
    let server = server.args(&format!("port={port}")).piped().start();
    let mut server = server.listening(port);
    let idle = built("idle").display().to_string();
    let words = format!("--pid --fork {idle} port={port} conns=1 rounds={ROUNDS} wait=epoll");
    let mut client = place.program(Side::Client, "unshare").args(&words).start();
    client.prints("idle");
    let rows = json(&place, "top --once --json --program idle");
    let pid = rows[0]["pid"].as_u64().expect("a number");
    let name = std::fs::read_to_string(format!("/proc/{pid}/comm")).expect("it runs");
    assert_eq!(
        (rows[0]["program"].as_str(), name.trim()),
        (Some("idle"), "idle")
    );
    assert_ne!(pid, u64::from(client.pid()), "its child");
    let events = looker(&place, &format!("events --once --json --pid {pid}")).run();
    assert!(
        events.contains("opened") && events.contains("promoted"),
        "{events}"
    );
    let told = looker(&place, &format!("doctor {pid}")).start().wait();
    assert!(told.output.contains("1 connection: shm"), "{}", told.output);
    server.tell("poke\n");
    client.succeed();
    server.succeed();
}

/// What people try first is answered.
#[test]
fn words_that_are_not_what_was_meant() {
    let place = Place::new(Ends::both());
    let stats = looker(&place, "stats --since 5m").start().wait();
    assert_eq!(stats.status.code(), Some(2), "{}", stats.output);
    let errors = format!("{}{}", stats.output, stats.errors);
    for text in ["no history", "--for SECONDS", "--json > FILE"] {
        assert!(errors.contains(text), "{text:?} in {errors}");
    }
    let doctor = looker(&place, "doctor sh").start().wait();
    assert!(doctor.output.starts_with("program sh"), "{}", doctor.output);
    let ulsock = built("ulsock").display().to_string();
    let words = format!("{ulsock} doctor sh | head -1; test ${{PIPESTATUS[0]}} -le 1");
    let head = Command::new("bash").args(["-c", &words]).output();
    let head = head.expect("bash runs");
    assert!(head.status.success() && head.stderr.is_empty(), "{head:?}");
}

/// By the checker of those who read it.
#[test]
fn the_page_is_as_prometheus_wants_it() {
    let place = Place::new(Ends::both());
    let pair = (!kernel_only()).then(|| Pair::start(&place));
    let page = looker(&place, "metrics --once").run();
    if let Some(pair) = pair {
        pair.end();
    }
    let mut check = Command::new("promtool")
        .args(["check", "metrics"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("promtool runs");
    let mut input = check.stdin.take().expect("piped");
    input.write_all(page.as_bytes()).expect("read");
    drop(input);
    let told = check.wait_with_output().expect("ended");
    assert!(told.status.success(), "{told:?} in {page}");
    assert!(told.stdout.is_empty() && told.stderr.is_empty(), "{told:?}");
}

/// As bpftrace finds them.
#[test]
fn probes_are_in_the_library() {
    let library = built("libulsock_preload.so");
    let notes = Command::new("readelf").arg("-n").arg(library).output();
    let notes = notes.expect("readelf runs");
    let notes = String::from_utf8_lossy(&notes.stdout).into_owned();
    let names = [
        "opened", "reset", "closed", "promoted", "demoted", "sleep", "wake",
    ];
    for name in names {
        assert!(
            notes.contains(&format!("    Name: {name}\n")),
            "{name} in {notes}"
        );
    }
    assert!(notes.contains("Provider: ulsock"), "{notes}");
}
