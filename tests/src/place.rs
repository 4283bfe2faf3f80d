//! A test's own corner of the machine: a work folder, a run directory, report files; and the one
//! place that knows how a program is put under ulsock and what its reports must then say.

use std::cell::Cell;
use std::fs::{self, File};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};

use crate::ends::{Ends, Side};
use crate::program::{Program, built};
use crate::report::Report;

/// How much of the traffic must have gone through rings when both ends are under ulsock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rings {
    /// Whatever the product decided; only the results count.
    Any,
    /// Something.
    Some,
    /// At least as much as through kernel TCP.
    Most,
}

/// The corner; removed on drop, with the programs' output printed first if the test failed. It must
/// be dropped after the programs that it started.
pub struct Place {
    ends: Ends,
    folder: PathBuf,
    run_dir: PathBuf,
    settings: Vec<(String, String)>,
    programs: Cell<u32>,
}

impl Place {
    /// A new one for a test that runs with these `ends`.
    pub fn new(ends: Ends) -> Self {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let name = format!("ulsock-test-{}-{number}", std::process::id());
        let place = Self {
            ends,
            folder: std::env::temp_dir().join(&name),
            run_dir: Path::new("/dev/shm").join(&name),
            settings: Vec::new(),
            programs: Cell::new(0),
        };
        fs::create_dir_all(&place.folder).expect("work folder");
        // Servers that drop their privileges still read the folder and append to the reports.
        allow(&place.folder, 0o755);
        for side in [Side::Server, Side::Client] {
            let file = place.report_file(side);
            File::create(&file).expect("report file");
            allow(&file, 0o666);
        }
        place
    }

    /// Sets an `ULSOCK_` variable for all programs under ulsock.
    pub fn with(mut self, name: &str, value: impl ToString) -> Self {
        self.settings.push((name.to_owned(), value.to_string()));
        self
    }

    /// Connections are offered at once: for programs that make few calls.
    pub fn eager(self) -> Self {
        self.with("ULSOCK_UPGRADE_AFTER", 1)
    }

    /// Connections have their rings when connect and accept return, if both ends are under ulsock.
    pub fn at_once(self) -> Self {
        self.with("ULSOCK_UPGRADE_AFTER", 0)
    }

    /// Which ends are under ulsock here.
    pub fn ends(&self) -> Ends {
        self.ends
    }

    /// The work folder.
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// The run directory, which the product creates.
    pub fn run_dir(&self) -> &Path {
        &self.run_dir
    }

    /// A program of the system on the server's side.
    pub fn server(&self, program: &str) -> Program {
        self.program(Side::Server, program)
    }

    /// A program of the system on the client's side.
    pub fn client(&self, program: &str) -> Program {
        self.program(Side::Client, program)
    }

    /// One of our own test programs on `side`.
    pub fn own(&self, side: Side, program: &str) -> Program {
        self.program(side, built(program))
    }

    /// A program on `side`.
    pub fn program(&self, side: Side, path: impl AsRef<Path>) -> Program {
        let path = path.as_ref();
        let number = self.programs.replace(self.programs.get() + 1);
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        let log = self.folder.join(format!("log-{number:03}-{name}"));
        let mut program = Program::new(path, &log).without_ulsock();
        if self.ends.covers(side) {
            program = program
                .preload(&self.run_dir)
                .env("ULSOCK_REPORT", self.report_file(side));
            for (name, value) in self.settings.iter().chain(&extra_settings()) {
                program = program.env(name, value);
            }
        }
        program
    }

    /// The sum of the reports of one side, and their number.
    pub fn report(&self, side: Side) -> (Report, usize) {
        Report::sum(&self.report_file(side))
    }

    /// Demands that rings were used exactly when both ends are under ulsock, and that nobody
    /// complained; for when all programs have ended.
    pub fn check(&self, rings: Rings) {
        self.check_quiet();
        for side in [Side::Server, Side::Client] {
            self.check_side(side, rings);
        }
    }

    fn check_side(&self, side: Side, rings: Rings) {
        let (report, lines) = self.report(side);
        let context = format!("{:?}, {lines} report lines of the {side:?}", self.ends);
        if self.ends != Ends::Both {
            assert_eq!(report.upgraded, 0, "{context}: {report:?}");
            assert_eq!(report.ring_bytes(), 0, "{context}: {report:?}");
        }
        if rings == Rings::Any {
            return;
        }
        assert_eq!(lines > 0, self.ends.covers(side), "{context}");
        if self.ends != Ends::Both {
            return;
        }
        let wanted = if rings == Rings::Most && extra_settings().is_empty() {
            report.kernel_bytes().max(1)
        } else {
            1
        };
        assert!(
            report.upgraded > 0 && report.ring_bytes() >= wanted,
            "{rings:?} of the traffic through rings, {context}: {report:?}"
        );
    }

    /// Demands that no program printed a line of ours.
    pub fn check_quiet(&self) {
        for log in self.logs("err") {
            let text = fs::read(&log).unwrap_or_default();
            let text = String::from_utf8_lossy(&text);
            let complaint = text.lines().find(|line| line.starts_with("ulsock:"));
            assert_eq!(complaint, None, "in {}", log.display());
        }
    }

    fn report_file(&self, side: Side) -> PathBuf {
        self.folder.join(match side {
            Side::Server => "report.server",
            Side::Client => "report.client",
        })
    }

    fn logs(&self, ending: &str) -> Vec<PathBuf> {
        let entries = fs::read_dir(&self.folder).expect("work folder");
        let mut logs: Vec<PathBuf> = entries
            .flatten()
            .map(|entry| entry.path())
            .filter(|path| path.extension().is_some_and(|found| found == ending))
            .collect();
        logs.sort();
        logs
    }

    fn explain(&self) {
        eprintln!("---- {:?}, {:?}", self.ends, self.settings);
        for ending in ["out", "err", "server", "client"] {
            for log in self.logs(ending) {
                print_tail(&log);
            }
        }
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        if std::thread::panicking() {
            self.explain();
        }
        for path in [&self.folder, &self.run_dir] {
            if path.exists() {
                fs::remove_dir_all(path).unwrap_or_else(|error| eprintln!("{path:?}: {error}"));
            }
        }
    }
}

/// `TESTS_SETTINGS="ULSOCK_CHAOS=50 ULSOCK_UPGRADE_AFTER=1"` runs any test with other settings, to
/// hunt for bugs.
pub(crate) fn extra_settings() -> Vec<(String, String)> {
    let text = std::env::var("TESTS_SETTINGS").unwrap_or_default();
    text.split_whitespace()
        .filter_map(|word| word.split_once('='))
        .map(|(name, value)| (name.to_owned(), value.to_owned()))
        .collect()
}

fn allow(path: &Path, mode: u32) {
    fs::set_permissions(path, fs::Permissions::from_mode(mode)).expect("chmod");
}

/// The last lines of a program's output.
pub(crate) fn print_tail(log: &Path) {
    const LINES: usize = 25;
    let text = fs::read(log).unwrap_or_default();
    let text = String::from_utf8_lossy(&text);
    let skipped = text.lines().count().saturating_sub(LINES);
    if !text.is_empty() {
        eprintln!("---- {} ({skipped} lines skipped)", log.display());
    }
    for line in text.lines().skip(skipped) {
        eprintln!("{}", line.chars().take(2000).collect::<String>());
    }
}
