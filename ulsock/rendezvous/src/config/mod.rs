//! The configuration of this process, read once from environment variables, and from the file behind them.
//!
//! A bad value or an unknown name is an error: the preload library says so in one line and stays on
//! kernel TCP, `ulsock run` refuses to start. A bad file is as none, for it is in every program of the host: the library
//! says so only to who asks (`ULSOCK_LOG=info`), and `ulsock doctor` says why. Nothing here touches the network.

mod cidr;
pub mod file;
mod glob;
mod layers;
pub mod rules;
mod scope;
mod toml;
mod who;

use os::log;
use std::fmt;
use std::path::PathBuf;

pub use cidr::Cidr;
pub use file::FileError;
pub use layers::{ConfigFile, FileUse, FileValue};
pub use rules::Rules;
pub use scope::{AwakeScope, OutOfScope, Reach, Scope};
pub use toml::Fault;
pub use who::Who;

use netstack::ring::mark::LEVEL_SIZE;

/// Every variable that we know; anything else with our prefix is a mistake.
pub const KNOWN: &[&str] = &[
    "ULSOCK",
    "ULSOCK_AWAKE",
    "ULSOCK_CHAOS",
    "ULSOCK_CLUSTER",
    "ULSOCK_CONFIG_FILE",
    "ULSOCK_DIE",
    "ULSOCK_DRAG",
    "ULSOCK_EXCLUDE",
    "ULSOCK_GO",
    "ULSOCK_GUARD",
    "ULSOCK_KTLS",
    "ULSOCK_LATE",
    "ULSOCK_LIB",
    "ULSOCK_LOG",
    "ULSOCK_LOG_FILE",
    "ULSOCK_NIC",
    "ULSOCK_PROFILE",
    "ULSOCK_REDIRECTED",
    "ULSOCK_REPORT",
    "ULSOCK_RING",
    "ULSOCK_RUN_DIR",
    "ULSOCK_SPIN_US",
    "ULSOCK_TRACE",
    "ULSOCK_UNIX",
    "ULSOCK_UPGRADE_AFTER",
];

/// How long a waiter spins before it sleeps.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Spin {
    /// Up to this many microseconds, while the host has idle CPUs and spinning has paid off.
    Auto(u32),
    /// Always this many microseconds.
    Fixed(u32),
    Forever,
}

/// Whether connections that the kernel would serve faster go back there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Guarding {
    Off,
    On,
    /// A test aid: at every occasion, and for a moment.
    Eager,
}

/// Whether connections to other hosts use the daemon of this one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Nic {
    Off,
    /// If there is one that has a core to itself, and it is faster than the kernel.
    Auto,
    /// If there is one, and it is faster than the kernel.
    Measured,
    /// If there is one.
    Daemon,
    /// By an engine of our own, on a queue that the daemon leases to us; by the daemon's if it does not.
    Inline,
}

/// A test aid: a handicap for rings.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Drag {
    /// Every sleep on a ring ends so late.
    pub us: u32,
    /// For so long, from the first of them.
    pub ms: u32,
}

/// A test aid: the steps of a fail-over.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// The word is frozen.
    Frozen,
    /// What the record will say is in the block.
    Noted,
    /// The record is in the kernel.
    Written,
    /// Some of the ring's bytes are, too.
    Midway,
    /// All of them are; the peer's record has not come.
    Resent,
}

/// Where the report at exit goes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Report {
    Off,
    Stderr,
    File(PathBuf),
}

#[derive(Clone, Debug)]
pub struct Config {
    pub enabled: bool,
    pub scope: Scope,
    pub spin: Spin,
    /// The largest ring level that a connection may grow to.
    pub largest: u8,
    /// Data calls before an upgrade; `None`: as earlier connections suggest.
    pub upgrade_after: Option<u32>,
    pub run_dir: PathBuf,
    pub log: log::Level,
    pub log_file: Option<PathBuf>,
    pub report: Report,
    /// A test aid: carriers change at random on about this many of 1000 calls.
    pub chaos: u32,
    /// Whether the calls of a Go program come to us.
    pub go: bool,
    pub guard: Guarding,
    /// Whether a program that asks the kernel to encrypt a connection (`TCP_ULP` "tls") has that also where the connection
    /// could be on rings.
    pub kernel_tls: bool,
    pub drag: Option<Drag>,
    /// A test aid: so many microseconds pass before a tripwire is armed.
    pub late: u32,
    /// A test aid: the process is killed after this step.
    pub die: Option<Step>,
    pub nic: Nic,
    /// Whether connections whose addresses kernel rules have translated may leave the kernel.
    pub redirected: bool,
    /// Unix stream sockets may leave the kernel, too.
    pub unix: bool,
    /// For single connections of this program.
    pub rules: Rules,
    pub file: ConfigFile,
}

/// A variable that cannot be used, and what it may hold instead.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ConfigError {
    name: String,
    problem: String,
}

impl fmt::Display for ConfigError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.name, self.problem)
    }
}

impl std::error::Error for ConfigError {}

impl Config {
    /// Of this process: from its environment and the file.
    pub fn from_env() -> Result<Config, ConfigError> {
        let vars = std::env::vars_os().filter_map(|(name, value)| {
            let name = name.into_string().ok()?;
            let value = value.to_string_lossy().into_owned();
            name.starts_with("ULSOCK").then_some((name, value))
        });
        match file::may_be_read() {
            true => Config::of(vars, Who::myself),
            false => Config::from_vars(vars),
        }
    }

    /// From any list of variables that carry our prefix, and from nothing else.
    pub fn from_vars(vars: impl Iterator<Item = (String, String)>) -> Result<Config, ConfigError> {
        let mut config = Config::default();
        config.set_all(vars.collect())?;
        Ok(config)
    }

    fn set_all(&mut self, mut vars: Vec<(String, String)>) -> Result<(), ConfigError> {
        // The profile sets defaults that the other variables refine, whatever their order.
        vars.sort_by_key(|(name, _)| name != "ULSOCK_PROFILE");
        for (name, value) in &vars {
            if !KNOWN.contains(&name.as_str()) {
                let problem = format!("no such variable (known: {})", KNOWN.join(", "));
                return Err(ConfigError {
                    name: name.clone(),
                    problem,
                });
            }
            self.set(name, value).map_err(|wanted| ConfigError {
                name: name.clone(),
                problem: format!("cannot use \"{value}\": give {wanted}"),
            })?;
        }
        Ok(())
    }

    fn set(&mut self, name: &str, value: &str) -> Result<(), &'static str> {
        match name {
            "ULSOCK" => self.enabled = flag(value)?,
            "ULSOCK_AWAKE" => self.scope.set_awake(value)?,
            "ULSOCK_CLUSTER" => self.scope.set_cluster(value)?,
            file::VARIABLE => file::check_name(value)?,
            "ULSOCK_EXCLUDE" => self.scope.set_exclude(value)?,
            "ULSOCK_PROFILE" => self.set_profile(value)?,
            "ULSOCK_SPIN_US" => self.spin = spin(value)?,
            "ULSOCK_RING" => self.largest = largest(value)?,
            "ULSOCK_UPGRADE_AFTER" => self.upgrade_after = upgrade_after(value)?,
            "ULSOCK_RUN_DIR" => self.run_dir = absolute(value)?,
            "ULSOCK_LOG" => self.log = log_level(value)?,
            "ULSOCK_LOG_FILE" => self.log_file = Some(absolute(value)?),
            "ULSOCK_REPORT" => self.report = report(value)?,
            "ULSOCK_CHAOS" => self.chaos = per_mille(value)?,
            "ULSOCK_GO" => self.go = flag(value)?,
            "ULSOCK_GUARD" => self.guard = guarding(value)?,
            "ULSOCK_KTLS" => self.kernel_tls = flag(value)?,
            "ULSOCK_NIC" => self.nic = nic(value)?,
            "ULSOCK_REDIRECTED" => self.redirected = flag(value)?,
            "ULSOCK_UNIX" => self.unix = flag(value)?,
            "ULSOCK_DIE" => self.die = Some(step(value)?),
            "ULSOCK_DRAG" => self.drag = Some(drag(value)?),
            "ULSOCK_LATE" => self.late = microseconds(value)?,
            _ => {}
        }
        Ok(())
    }

    fn set_profile(&mut self, value: &str) -> Result<(), &'static str> {
        self.spin = match value {
            "latency" => Spin::Fixed(200),
            "balanced" => Spin::Auto(50),
            "throughput" => Spin::Auto(20),
            "frugal" => Spin::Fixed(0),
            _ => return Err("latency, balanced, throughput or frugal"),
        };
        Ok(())
    }
}

impl Default for Config {
    fn default() -> Config {
        Config {
            enabled: true,
            scope: Scope::default(),
            spin: Spin::Auto(50),
            largest: LEVEL_SIZE.len() as u8 - 1,
            upgrade_after: None,
            run_dir: PathBuf::from("/dev/shm/ulsock"),
            log: log::Level::Error,
            log_file: None,
            report: Report::Off,
            chaos: 0,
            go: true,
            guard: Guarding::On,
            kernel_tls: false,
            drag: None,
            late: 0,
            die: None,
            nic: Nic::Auto,
            redirected: true,
            unix: true,
            rules: Rules::default(),
            file: ConfigFile::None,
        }
    }
}

fn flag(value: &str) -> Result<bool, &'static str> {
    match value {
        "0" => Ok(false),
        "1" => Ok(true),
        _ => Err("0 or 1"),
    }
}

fn spin(value: &str) -> Result<Spin, &'static str> {
    const WANTED: &str =
        "auto, 0 (never), a number of microseconds up to 1000000, or -1 (for ever)";
    match value {
        "auto" => Ok(Spin::Auto(50)),
        "-1" => Ok(Spin::Forever),
        _ => match value.parse() {
            Ok(n) if n <= 1_000_000 => Ok(Spin::Fixed(n)),
            _ => Err(WANTED),
        },
    }
}

fn largest(value: &str) -> Result<u8, &'static str> {
    let bytes: u64 = value.parse().unwrap_or(0);
    let fits = LEVEL_SIZE.iter().rposition(|size| *size <= bytes);
    match fits {
        Some(level) if bytes <= LEVEL_SIZE[LEVEL_SIZE.len() - 1] => Ok(level as u8),
        _ => Err("a number of bytes from 16384 to 4194304"),
    }
}

fn upgrade_after(value: &str) -> Result<Option<u32>, &'static str> {
    match (value, value.parse()) {
        ("auto", _) => Ok(None),
        (_, Ok(n)) if n <= 1_000_000 => Ok(Some(n)),
        _ => Err("auto, or a number of calls from 0 to 1000000"),
    }
}

fn per_mille(value: &str) -> Result<u32, &'static str> {
    match value.parse() {
        Ok(n) if n <= 1000 => Ok(n),
        _ => Err("a number from 0 to 1000"),
    }
}

fn guarding(value: &str) -> Result<Guarding, &'static str> {
    match value {
        "0" => Ok(Guarding::Off),
        "1" => Ok(Guarding::On),
        "eager" => Ok(Guarding::Eager),
        _ => Err("0, 1 or eager"),
    }
}

fn nic(value: &str) -> Result<Nic, &'static str> {
    match value {
        "off" => Ok(Nic::Off),
        "auto" => Ok(Nic::Auto),
        "measured" => Ok(Nic::Measured),
        "daemon" => Ok(Nic::Daemon),
        "inline" => Ok(Nic::Inline),
        _ => Err("auto, off, measured, daemon or inline"),
    }
}

/// Microseconds, and for how many milliseconds.
fn drag(value: &str) -> Result<Drag, &'static str> {
    let (us, ms) = value.split_once(':').unwrap_or((value, "4294967295"));
    match (us.parse(), ms.parse()) {
        (Ok(us), Ok(ms)) if us <= 1_000_000 => Ok(Drag { us, ms }),
        _ => Err("microseconds up to 1000000, or these and milliseconds, as in 300:2000"),
    }
}

fn microseconds(value: &str) -> Result<u32, &'static str> {
    match value.parse() {
        Ok(us) if us <= 1_000_000 => Ok(us),
        _ => Err("microseconds up to 1000000"),
    }
}

fn step(value: &str) -> Result<Step, &'static str> {
    match value {
        "frozen" => Ok(Step::Frozen),
        "noted" => Ok(Step::Noted),
        "written" => Ok(Step::Written),
        "midway" => Ok(Step::Midway),
        "resent" => Ok(Step::Resent),
        _ => Err("frozen, noted, written, midway or resent"),
    }
}

fn absolute(value: &str) -> Result<PathBuf, &'static str> {
    if value.starts_with('/') {
        Ok(PathBuf::from(value))
    } else {
        Err("an absolute path")
    }
}

fn log_level(value: &str) -> Result<log::Level, &'static str> {
    match value {
        "off" => Ok(log::Level::Off),
        "error" => Ok(log::Level::Error),
        "info" => Ok(log::Level::Info),
        "debug" => Ok(log::Level::Debug),
        _ => Err("off, error, info or debug"),
    }
}

fn report(value: &str) -> Result<Report, &'static str> {
    match value {
        "0" => Ok(Report::Off),
        "1" | "stderr" => Ok(Report::Stderr),
        path if path.starts_with('/') => Ok(Report::File(PathBuf::from(path))),
        _ => Err("0, stderr or the absolute path of a file"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn with(name: &str, value: &str) -> Result<Config, ConfigError> {
        Config::from_vars([(name.to_string(), value.to_string())].into_iter())
    }

    #[test]
    fn unknown_names_and_bad_values_are_errors() {
        for (name, value) in [
            ("ULSOCK_FOO", "1"),
            ("ULSOCK", "yes"),
            ("ULSOCK_AWAKE", "1"),
            ("ULSOCK_CLUSTER", "10.0.0.0/33"),
            ("ULSOCK_CONFIG_FILE", "ulsock.toml"),
            ("ULSOCK_EXCLUDE", "70000"),
            ("ULSOCK_PROFILE", "fast"),
            ("ULSOCK_SPIN_US", "-2"),
            ("ULSOCK_RING", "1"),
            ("ULSOCK_UPGRADE_AFTER", "1000001"),
            ("ULSOCK_RUN_DIR", "here"),
            ("ULSOCK_LOG", "loud"),
            ("ULSOCK_REPORT", "x"),
            ("ULSOCK_CHAOS", "1001"),
            ("ULSOCK_GUARD", "maybe"),
            ("ULSOCK_DRAG", "300:"),
            ("ULSOCK_LATE", "1000001"),
            ("ULSOCK_DIE", "soon"),
        ] {
            let error = with(name, value).expect_err(name);
            assert!(error.to_string().starts_with(name), "{error}");
        }
    }

    #[test]
    fn a_variable_refines_the_profile_whatever_the_order() {
        let vars = [("ULSOCK_SPIN_US", "7"), ("ULSOCK_PROFILE", "frugal")];
        let vars = vars.map(|(name, value)| (name.to_string(), value.to_string()));
        assert_eq!(
            Config::from_vars(vars.into_iter()).unwrap().spin,
            Spin::Fixed(7)
        );
    }

    #[test]
    fn the_ring_limit_is_rounded_down_to_a_level() {
        assert_eq!(with("ULSOCK_RING", "16384").unwrap().largest, 0);
        assert_eq!(with("ULSOCK_RING", "300000").unwrap().largest, 2);
        assert_eq!(with("ULSOCK_RING", "4194304").unwrap().largest, 4);
    }
}
