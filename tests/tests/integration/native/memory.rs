//! Remote memory between processes: shared on one host, by messages elsewhere; whoever is killed is missed, and others go on.

use std::fs;
use std::path::PathBuf;
use std::thread;
use std::time::Duration;

use tests::ends::{Ends, Side};
use tests::hosts::Hosts;
use tests::place::Place;
use tests::ports;
use tests::program::{Program, Running};
use tests::wait;

/// A place, and where the exporter is found in it.
struct World {
    place: Place,
    port: u16,
    key: PathBuf,
}

impl World {
    fn new(place: Place) -> World {
        let key = place.folder().join("key");
        World {
            place,
            port: ports::free(),
            key,
        }
    }

    fn memory(&self, side: Side, words: &str) -> Program {
        let program = self.place.own(side, "memory").without("LD_PRELOAD");
        let program = match self.place.ends().covers(side) {
            true => program.env("ULSOCK_RUN_DIR", self.place.run_dir()),
            false => program.env("ULSOCK", "0"),
        };
        let own = format!("{words} port={} file={}", self.port, self.key.display());
        program.args(&own)
    }

    fn exporter(&self, slots: usize) -> Running {
        let _ = fs::remove_file(&self.key);
        let exporter = self.memory(Side::Server, &format!("export slots={slots}"));
        let exporter = exporter.piped().start();
        wait::until("it has exported", || self.key.exists());
        exporter
    }

    /// One that has begun to write.
    fn writer(&self, words: &str) -> Running {
        let writer = self.memory(Side::Client, &format!("write {words}"));
        let mut writer = writer.piped().start();
        writer.until("it writes", |writer| {
            writer.output().starts_with(self.how())
        });
        writer
    }

    /// How a writer gets its bytes there.
    fn how(&self) -> &'static str {
        match self.place.ends() {
            Ends::Kernel => "messages\n",
            _ => "shared\n",
        }
    }

    /// Nothing is left of processes that were killed, once others have come and gone.
    fn check_clean(&self, killed: &[u32]) {
        if self.place.ends() == Ends::Kernel {
            return;
        }
        let exporter = self.exporter(1);
        self.writer("rounds=10").succeed();
        assert_eq!(exporter.succeed(), "10\n");
        for file in fs::read_dir(self.place.run_dir()).expect("the run directory") {
            let name = file.expect("a file").file_name();
            let name = name.to_string_lossy();
            let pid = name.split('.').nth(1).and_then(|pid| pid.parse().ok());
            let left = pid.is_some_and(|pid| killed.contains(&pid));
            assert!(!left || !name.starts_with("mail."), "{name}");
        }
    }
}

/// Slots that are written at the same time.
const SLOTS: usize = 4;

#[test]
fn on_every_carrier() {
    for ends in [Ends::both(), Ends::Kernel] {
        let world = World::new(Place::new(ends).eager());
        let exporter = world.exporter(SLOTS);
        let rounds = |slot| 3000 + 1000 * slot;
        let words = |slot| format!("slot={slot} rounds={}", rounds(slot));
        let writers = (0..SLOTS).map(|slot| world.writer(&words(slot)));
        for (slot, writer) in writers.collect::<Vec<_>>().into_iter().enumerate() {
            assert_eq!(
                writer.succeed(),
                format!("{}{}\n", world.how(), rounds(slot))
            );
        }
        let seen: String = (0..SLOTS)
            .map(|slot| format!("{}\n", rounds(slot)))
            .collect();
        assert_eq!(exporter.succeed(), seen);
    }
}

/// An importer is killed at some moment, again and again, and another one goes on.
#[test]
fn an_importer_is_killed() {
    for ends in [Ends::both(), Ends::Kernel] {
        let world = World::new(Place::new(ends).eager());
        let exporter = world.exporter(2);
        let other = world.writer("slot=1");
        let mut pids = Vec::new();
        for number in 0..10 {
            let killed = world.writer("slot=0");
            pids.push(killed.pid());
            thread::sleep(Duration::from_millis(number * 3));
            killed.stop(libc::SIGKILL);
        }
        let written = other.succeed();
        let written = written.strip_prefix(world.how()).expect("how it writes");
        let seen = exporter.succeed();
        assert_eq!(seen.lines().nth(1), Some(written.trim_end()));
        world.check_clean(&pids);
    }
}

#[test]
fn an_exporter_is_killed() {
    for ends in [Ends::both(), Ends::Kernel] {
        let world = World::new(Place::new(ends).eager());
        let mut pids = Vec::new();
        for number in 0..5 {
            let exporter = world.exporter(2);
            pids.push(exporter.pid());
            let writers = [0, 1].map(|slot| world.writer(&format!("slot={slot}")));
            thread::sleep(Duration::from_millis(number * 5));
            exporter.stop(libc::SIGKILL);
            for mut writer in writers {
                let end = format!("{}the exporter is gone\n", world.how());
                writer.until("it hears of it", |writer| writer.output() == end);
            }
        }
        world.check_clean(&pids);
    }
}

/// In two network namespaces, with a daemon each.
#[test]
fn between_hosts() {
    let hosts = Hosts::two().eager();
    let key = hosts.folder().join("key");
    let memory = |host, words: &str| {
        let program = hosts.own(host, "memory").without("LD_PRELOAD");
        program
            .args(&format!("{words} port=7000 file={}", key.display()))
            .piped()
    };
    let exporter = memory(0, "export host=:: slots=2").start();
    wait::until("it has exported", || key.exists());
    let address = hosts.host(0).address();
    let near = memory(0, "write slot=0 rounds=3000 host=127.0.0.1").start();
    let far = memory(1, &format!("write slot=1 rounds=4000 host={address}"));
    assert_eq!(far.start().succeed(), "messages\n4000\n");
    near.succeed();
    assert_eq!(exporter.succeed(), "3000\n4000\n");
}
