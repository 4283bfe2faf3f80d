//! Faults that befall the programs and the machine, as docs/faults.md lists them, and that no other subject has:
//! a memory limit, processes that stand still, clocks that differ, a host without a free file.

use std::fs;
use std::path::PathBuf;
use std::thread;
use std::time::Duration;

use tests::ends::{Ends, Side, kernel_only};
use tests::place::{Place, Rings};
use tests::program::{Running, built};
use tests::rng::Rng;
use tests::{ports, procfs, top};

use crate::script;

/// A control group for memory, of either version, with a limit.
struct Group(PathBuf);

impl Group {
    /// `None` where this machine lets nobody make one.
    fn new(limit: u64) -> Option<Group> {
        let name = format!("ulsock-test-{}", std::process::id());
        let versions = [
            ("/sys/fs/cgroup/memory", "memory.limit_in_bytes"),
            ("/sys/fs/cgroup", "memory.max"),
        ];
        versions.into_iter().find_map(|(mount, file)| {
            let group = Group(PathBuf::from(mount).join(&name));
            fs::create_dir(&group.0).ok()?;
            fs::write(group.0.join(file), limit.to_string()).ok()?;
            Some(group)
        })
    }

    fn processes(&self) -> PathBuf {
        self.0.join("cgroup.procs")
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        // Who has just ended may still be counted.
        for _ in 0..100 {
            if fs::remove_dir(&self.0).is_ok() {
                return;
            }
            thread::sleep(Duration::from_millis(20));
        }
    }
}

/// Kernel TCP's own buffers do not count there, and 30 rings of 4 MiB would: the kernel would kill a process.
#[test]
fn a_memory_limit_that_rings_would_break() {
    let Some(group) = Group::new(48 << 20) else {
        return eprintln!("not run: no control group can be made here");
    };
    let place = Place::new(Ends::both()).eager();
    let enter = format!(
        "echo $$ >{}; exec \"$0\" \"$@\"",
        group.processes().display()
    );
    let shell = place.client("/bin/sh").arg("-c").arg(enter);
    let said = shell
        .arg("/usr/bin/python3")
        .arg(script("unread.py"))
        .limit(60)
        .run();
    let mut words = said.split_ascii_whitespace();
    let (sent, received) = (words.nth(1), words.nth(1));
    assert!(sent.is_some() && sent == received, "{said}");
    place.check_quiet();
    let (report, _) = place.report(Side::Client);
    assert!(kernel_only() || report.ring_bytes() > 0, "{report:?}");
}

/// Both ends of an echo, each behind these words.
fn echo(place: &Place, before: [&str; 2], rounds: usize) -> [Running; 2] {
    let port = ports::free();
    let start = |side: Side, name: &str, more: String| {
        let mut words = before[side as usize].split_ascii_whitespace();
        let program = match words.next() {
            Some(first) => {
                let behind = words.fold(place.program(side, first), |program, word| {
                    program.arg(word)
                });
                behind.arg(built(name))
            }
            None => place.own(side, name),
        };
        program
            .args(&format!("port={port} conns=8"))
            .args(&more)
            .limit(60)
            .start()
    };
    let server = start(Side::Server, "echo_threads", String::new()).listening(port);
    let client = start(
        Side::Client,
        "echo_client",
        format!("rounds={rounds} max=20000"),
    );
    [server, client]
}

fn succeed(ends: [Running; 2]) {
    let [server, client] = ends;
    client.succeed();
    server.succeed();
}

/// One of them, or both as on a machine that is suspended, again and again, and never where somebody could know it.
#[test]
fn processes_that_stand_still() {
    for stopped in [&[0][..], &[1], &[0, 1]] {
        let place = Place::new(Ends::both()).eager();
        let ends = echo(&place, [""; 2], 20_000);
        let mut rng = Rng::new(1, stopped.len() as u64);
        for _ in 0..12 {
            let tell = |signal| stopped.iter().for_each(|end| ends[*end].signal(signal));
            thread::sleep(Duration::from_micros(rng.below(60_000) as u64));
            tell(libc::SIGSTOP);
            thread::sleep(Duration::from_millis(100));
            tell(libc::SIGCONT);
        }
        succeed(ends);
        place.check(Rings::Most);
    }
}

/// As of containers that were moved here from other machines.
#[test]
fn clocks_that_differ() {
    const AHEAD: &str = "unshare --fork --time --monotonic 10000000 --boottime 10000000";
    for before in [[AHEAD, ""], ["", AHEAD]] {
        let place = Place::new(Ends::both()).eager();
        succeed(echo(&place, before, 2_000));
        place.check(Rings::Most);
    }
}

/// Whoever waits for it sleeps, however long that takes.
#[test]
fn who_waits_for_one_that_stands_still_is_idle() {
    for stopped in [0, 1] {
        let place = Place::new(Ends::both()).eager();
        let mut ends = echo(&place, [""; 2], 20_000);
        ends[1].until("rings are in use", |_| {
            let rows = top::rows(place.run_dir());
            kernel_only() || !rows.is_empty() && rows.iter().all(top::Row::is_accelerated)
        });
        ends[stopped].signal(libc::SIGSTOP);
        // Then who waits for it has had what was under way.
        thread::sleep(Duration::from_millis(200));
        let waits = ends[1 - stopped].pid();
        let (before, time) = (procfs::cpu_time(waits), Duration::from_secs(1));
        thread::sleep(time);
        let used = procfs::cpu_time(waits) - before;
        assert!(used < time / 20, "{used:?} of {time:?}");
        ends[stopped].signal(libc::SIGCONT);
        succeed(ends);
        place.check(Rings::Most);
    }
}

/// These calls fail at one of both ends, from the beginning or later.
fn refused(calls: &[&str], error: &str) {
    for (calls, from) in calls
        .iter()
        .flat_map(|calls| [1, 2, 4].map(|from| (calls, from)))
    {
        let fails = format!(
            "strace -f -qq -o /dev/null --signal=none -e trace={calls} -e inject={calls}:error={error}:when={from}+"
        );
        for before in [[&fails[..], ""], ["", &fails]] {
            let place = Place::new(Ends::both()).eager();
            succeed(echo(&place, before, 200));
        }
    }
}

/// ENFILE, wherever ulsock makes a descriptor and the programs do not.
#[test]
fn a_host_without_a_free_file() {
    let calls = ["memfd_create", "eventfd2", "socketpair"];
    let all = calls.join(",");
    refused(&[&calls[..], &[&all]].concat(), "ENFILE");
}

/// Where segments are made, and where their pages are asked for.
#[test]
fn a_host_without_memory_for_rings() {
    refused(&["memfd_create", "madvise"], "ENOMEM");
}

/// Where tables in the run directory are made, and where their pages are asked for.
#[test]
fn a_quota_on_the_run_directory() {
    refused(&["ftruncate", "fallocate"], "EDQUOT");
}
