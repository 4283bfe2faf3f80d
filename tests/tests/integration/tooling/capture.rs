//! `ulsock capture` and its interface of Wireshark: what programs send by rings is in the file, byte for byte, and tshark
//! reads it as what it is.

mod pcapng;
mod scene;

use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::Value;
use tests::ends::{Side, kernel_only};
use tests::place::Place;
use tests::program::{Running, built};

use crate::pattern_file;
use pcapng::{Segment, segments};
use scene::{Pair, Redis, capture, command, place};

const LARGE: usize = 12 << 20;

fn has_both_directions(file: &Path, port: u16) -> bool {
    let segments = segments(file);
    segments.iter().any(|it| it.from.port() == port)
        && segments.iter().any(|it| it.to.port() == port)
}

/// Ends a capture; what it says.
fn end(capture: Running, file: &Path) -> String {
    let finished = capture.stop(libc::SIGINT);
    assert!(finished.status.success(), "{}", finished.errors);
    assert!(pcapng::is_whole(file));
    finished.errors
}

fn tshark(file: &Path, words: &str) -> String {
    let mut command = Command::new("tshark");
    command.arg("-r").arg(file).args(words.split_whitespace());
    let output = command.output().expect("tshark");
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{words}: {errors}");
    String::from_utf8(output.stdout).expect("text")
}

/// Bytes that programs have copied for captures since they began.
fn copied(place: &Place) -> u64 {
    let stats = command(place, "stats --json").run();
    let stats: Value = serde_json::from_str(&stats).expect("JSON");
    let programs = stats["programs"].as_array().expect("programs");
    let copied = programs
        .iter()
        .map(|it| it["copied_bytes"].as_u64().expect("a count"));
    copied.sum()
}

#[test]
fn redis_as_tshark_reads_it() {
    if kernel_only() {
        return;
    }
    let place = place();
    let mut pair = Pair::start(&place, "127.0.0.1");
    let mut redis = Redis::start(&place);
    redis.say("ping\n", "PONG");
    let (mut capture, file) = capture(&place, "");
    // The pair speaks all the time: when it is captured, so are the others, which were found with it.
    let port = pair.port;
    capture.until("the capture has begun", |_| {
        has_both_directions(&file, port)
    });
    redis.say("set colour ultramarine\n", "OK");
    redis.say("get colour\n", "ultramarine");
    redis.say("incrby number 4711\n", "4711");
    pair.goes_on();
    let said = end(capture, &file);
    assert!(said.contains("missed none"), "{said}");
    let resp = format!("-d tcp.port=={},resp", redis.port);
    let values = format!(
        "{resp} -Y resp -T fields -e tcp.dstport -e resp.bulk_string.value -e resp.integer -e resp.string"
    );
    let lines = tshark(&file, &values);
    for wanted in [
        format!(
            "{}\t{}",
            redis.port,
            ["set", "colour", "ultramarine"].map(hex).join(",")
        ),
        format!("{}\t{}", redis.port, ["get", "colour"].map(hex).join(",")),
        format!("\t{}\t", hex("ultramarine")),
        "\t4711\t".to_owned(),
        "\tOK".to_owned(),
    ] {
        assert!(lines.contains(&wanted), "{wanted} in {lines}");
    }
    check_stream(&file, redis.port);
    check_headers(&file);
    redis.end();
    pair.end();
    place.check_quiet();
}

fn hex(text: &str) -> String {
    text.bytes().map(|it| format!("{it:02x}")).collect()
}

/// What "follow stream" shows is what was said.
fn check_stream(file: &Path, port: u16) {
    let first = tshark(
        file,
        &format!("-Y tcp.port=={port} -T fields -e tcp.stream"),
    );
    let stream = first.lines().next().expect("a stream");
    let followed = tshark(file, &format!("-q -z follow,tcp,raw,{stream}"));
    let is_said = |line: &&str| !line.is_empty() && !line.contains(['=', ':']);
    let said = followed.lines().filter(is_said);
    let said: Vec<&str> = said.map(str::trim).collect();
    let wanted = [
        "*3\r\n$3\r\nset\r\n$6\r\ncolour\r\n$11\r\nultramarine\r\n",
        "+OK\r\n",
        "*2\r\n$3\r\nget\r\n$6\r\ncolour\r\n",
        "$11\r\nultramarine\r\n",
        "*3\r\n$6\r\nincrby\r\n$6\r\nnumber\r\n$4\r\n4711\r\n",
        ":4711\r\n",
    ];
    assert_eq!(said, wanted.map(hex), "{followed}");
}

/// Checksums are right, nothing is missing, repeated or out of order, and acknowledgements fit.
fn check_headers(file: &Path) {
    let checks = "-o tcp.check_checksum:TRUE -o ip.check_checksum:TRUE -T fields";
    let status = tshark(
        file,
        &format!("{checks} -e tcp.checksum.status -e ip.checksum.status"),
    );
    let is_good = |line: &str| matches!(line, "1\t1" | "1\t");
    assert!(status.lines().all(is_good), "{status}");
    let odd =
        "-Y tcp.analysis.flags||_ws.malformed -T fields -e frame.number -e _ws.expert.message";
    assert_eq!(tshark(file, odd), "");
}

#[test]
fn both_directions_by_ipv6() {
    if kernel_only() {
        return;
    }
    let place = place();
    let mut pair = Pair::start(&place, "::1");
    let (mut capture, file) = capture(&place, "");
    let port = pair.port;
    capture.until("both are there", |_| has_both_directions(&file, port));
    pair.goes_on();
    end(capture, &file);
    check_headers(&file);
    let ends = tshark(&file, "-T fields -e ipv6.src -e ipv6.dst");
    assert!(ends.lines().all(|line| line == "::1\t::1"), "{ends}");
    let comments = tshark(&file, "-T fields -e frame.comment");
    let told: Vec<&str> = comments.lines().filter(|it| !it.is_empty()).collect();
    assert_eq!(told.len(), 2, "{comments}");
    assert!(
        told.iter()
            .all(|it| it.starts_with("python3[") && it.ends_with("] sends by a ring"))
    );
    pair.end();
}

/// How many bytes of a direction there are from the first captured one to `end`, all segments checked.
fn check_direction(segments: &[Segment], end: usize, expected: impl Fn(usize, &[u8])) -> usize {
    let mut next = 0;
    for segment in segments {
        let at = segment.number as usize - 1;
        assert!(at >= next, "{at} comes again");
        expected(at, &segment.bytes);
        next = at + segment.bytes.len();
    }
    assert!(next <= end, "{next} of {end}");
    end + 1 - segments[0].number as usize
}

/// What is in the file and what it says is missing is all that was sent since it began.
#[test]
fn a_large_stream() {
    if kernel_only() {
        return;
    }
    let place = place();
    let content = place.folder().join("content");
    pattern_file(&content, LARGE);
    let mut pair = Pair::start(&place, "127.0.0.1");
    let (mut capture, file) = capture(&place, "");
    let port = pair.port;
    capture.until("both are there", |_| has_both_directions(&file, port));
    pair.client.tell(&format!("{}\n", content.display()));
    let told = pair.client.succeed();
    let told = told.trim().strip_prefix("exchanged ").expect("a count");
    let small: usize = 16 * told.parse::<usize>().expect("a number");
    let got = pair.server.succeed();
    assert_eq!(got.trim(), format!("got {LARGE}"));
    let said = end(capture, &file);
    let content = std::fs::read(&content).expect("the content");
    let (there, back): (Vec<_>, Vec<_>) = segments(&file)
        .into_iter()
        .partition(|it| it.to.port() == port);
    let acknowledged = there.iter().map(|it| it.acknowledges).max();
    assert_eq!(acknowledged, Some(small as u32 + 1));
    let before = small + 16;
    let all = check_direction(&there, before + LARGE, |at, bytes| {
        if at >= before {
            assert!(bytes == &content[at - before..][..bytes.len()], "at {at}");
        }
    }) + check_direction(&back, small, |at, bytes| {
        assert_eq!(bytes, format!("{:015}\n", at / 16).as_bytes());
    });
    let captured: usize = there.iter().chain(&back).map(|it| it.bytes.len()).sum();
    let missed = missed_bytes(&said);
    assert_eq!(captured + missed, all, "{said}");
    assert!(captured > LARGE / 8, "{said}");
}

/// "captured 3 packets (48 bytes), missed 2 packets (7 bytes): ..."
fn missed_bytes(said: &str) -> usize {
    let Some((_, missed)) = said
        .split_once("missed ")
        .filter(|it| !it.1.starts_with("none"))
    else {
        return 0;
    };
    let bytes = missed
        .split(['(', ' '])
        .find(|it| it.parse::<usize>().is_ok() && missed.contains(&format!("({it} bytes")));
    bytes
        .and_then(|it| it.parse().ok())
        .expect("a number of bytes")
}

/// The memory of the process's family has pages for a circle of copies.
fn has_circle(pid: u32) -> bool {
    let fds = std::fs::read_dir(format!("/proc/{pid}/fd")).expect("its descriptors");
    let families = fds.flatten().filter(|fd| {
        let target = std::fs::read_link(fd.path()).unwrap_or_default();
        target
            .to_string_lossy()
            .starts_with("/memfd:ulsock-family.")
    });
    let mut blocks = families.map(|fd| std::fs::metadata(fd.path()).map_or(0, |it| it.blocks()));
    blocks.any(|blocks| blocks * 512 > 8 << 20)
}

#[test]
fn afterwards_nothing_is_copied() {
    if kernel_only() {
        return;
    }
    let place = place();
    let mut pair = Pair::start(&place, "127.0.0.1");
    pair.goes_on();
    assert_eq!(copied(&place), 0);
    assert!(!has_circle(pair.client.pid()));
    let (mut capture, file) = capture(&place, "");
    let port = pair.port;
    capture.until("both are there", |_| has_both_directions(&file, port));
    assert!(has_circle(pair.client.pid()));
    end(capture, &file);
    assert!(!has_circle(pair.client.pid()));
    let before = copied(&place);
    assert!(before > 0);
    pair.goes_on();
    assert_eq!(copied(&place), before);
    assert!(!has_circle(pair.client.pid()));
    pair.end();
    place.check_quiet();
}

/// Nobody renews its word: soon nothing is copied any more.
#[test]
fn a_capture_that_is_killed() {
    if kernel_only() {
        return;
    }
    let place = place();
    let mut pair = Pair::start(&place, "127.0.0.1");
    let (mut killed, file) = capture(&place, "");
    let port = pair.port;
    killed.until("both are there", |_| has_both_directions(&file, port));
    killed.stop(libc::SIGKILL);
    let begin = std::time::Instant::now();
    loop {
        let before = copied(&place);
        pair.goes_on();
        if copied(&place) == before {
            break;
        }
        assert!(begin.elapsed().as_secs() < 20, "it goes on copying");
    }
    // The next one takes over what it left.
    let (mut next, file) = capture(&place, "");
    next.until("both are there", |_| has_both_directions(&file, port));
    end(next, &file);
    assert!(!has_circle(pair.client.pid()));
    pair.end();
}

#[test]
fn nobody_waits_for_a_capture_that_is_stopped() {
    if kernel_only() {
        return;
    }
    let place = place();
    let content = place.folder().join("content");
    pattern_file(&content, LARGE);
    let mut pair = Pair::start(&place, "127.0.0.1");
    let (mut capture, file) = capture(&place, "");
    let port = pair.port;
    capture.until("both are there", |_| has_both_directions(&file, port));
    capture.signal(libc::SIGSTOP);
    pair.client.tell(&format!("{}\n", content.display()));
    pair.client.succeed();
    pair.server.succeed();
    capture.signal(libc::SIGCONT);
    end(capture, &file);
}

#[test]
fn other_users_are_refused() {
    if kernel_only() {
        return;
    }
    let place = place();
    let mut pair = Pair::start(&place, "127.0.0.1");
    pair.goes_on();
    let other = command(&place, "capture --seconds 1")
        .user("nobody")
        .start()
        .wait();
    assert!(other.status.success(), "{}", other.errors);
    assert!(
        other.errors.contains("no program to capture yet"),
        "{}",
        other.errors
    );
    assert!(
        other.errors.contains("captured 0 packets"),
        "{}",
        other.errors
    );
    assert_eq!((other.output.as_str(), copied(&place)), ("", 0));
    pair.end();
}

#[test]
fn only_what_was_selected() {
    if kernel_only() {
        return;
    }
    let place = place();
    let [mut one, mut other] = [0; 2].map(|_| Pair::start(&place, "127.0.0.1"));
    let (mut capture, file) = capture(&place, &format!("--port {}", one.port));
    let mut live = command(&place, &format!("capture --bytes 64 --port {}", other.port)).start();
    let port = one.port;
    capture.until("both are there", |_| has_both_directions(&file, port));
    live.until("it has seen enough", |it| it.errors().contains("captured"));
    let lines = live.succeed();
    let is_of_other = |line: &str| {
        line.contains(&format!(":{} ", other.port)) && line.contains(" length 16: 0000")
    };
    assert!(
        lines.lines().count() >= 4 && lines.lines().all(is_of_other),
        "{lines}"
    );
    one.goes_on();
    other.goes_on();
    end(capture, &file);
    let is_of_one = |it: &Segment| [it.from.port(), it.to.port()].contains(&one.port);
    assert!(segments(&file).iter().all(is_of_one));
    one.end();
    other.end();
}

const EXTCAP: &str = "/usr/lib/x86_64-linux-gnu/wireshark/extcap";

/// A folder as Wireshark has it, with the program that packages put there.
fn extcap_folder(place: &Place) -> PathBuf {
    let folder = place.folder().join("extcap");
    std::fs::create_dir(&folder).expect("a folder");
    let packaged = Path::new(env!("CARGO_MANIFEST_DIR")).join("../packaging/files/extcap");
    let script = folder.join("ulsock");
    std::fs::copy(packaged, &script).expect("the program");
    std::fs::set_permissions(&script, std::fs::Permissions::from_mode(0o755)).expect("to allow");
    folder
}

#[test]
fn wireshark_lists_it_and_captures() {
    if kernel_only() {
        return;
    }
    let place = place();
    let folder = extcap_folder(&place);
    let bin = built("ulsock").parent().expect("a folder").to_owned();
    let path = std::env::var("PATH").unwrap_or_default();
    // As root tshark looks nowhere else; nobody else sees what is there meanwhile.
    let shown = format!(
        "mount --bind {} {EXTCAP} && exec tshark \"$@\"",
        folder.display()
    );
    let tshark = |words: &str| {
        let tshark = place.program(Side::Client, "unshare").without("LD_PRELOAD");
        let tshark = tshark.env("PATH", format!("{}:{path}", bin.display()));
        let tshark = tshark.args("-m sh -c").arg(&shown).arg("tshark");
        tshark.args(words)
    };
    let listed = tshark("-D").run();
    assert!(
        listed.contains("ulsock (ulsock: connections in rings)"),
        "{listed}"
    );
    let types = tshark("-i ulsock -L").start().wait();
    assert!(format!("{}{}", types.output, types.errors).contains("RAW"));
    let mut pair = Pair::start(&place, "127.0.0.1");
    pair.goes_on();
    let fields = "-T fields -e tcp.dstport -e tcp.len";
    let live = tshark(&format!(
        "-i ulsock -o extcap.ulsock.port:{} -c 8 {fields}",
        pair.port
    ))
    .run();
    let port = pair.port.to_string();
    assert_eq!(live.lines().count(), 8, "{live}");
    assert!(live.lines().all(|line| line.ends_with("\t16")), "{live}");
    assert!(live.lines().any(|line| line.starts_with(&port)), "{live}");
    pair.goes_on();
    pair.end();
}
