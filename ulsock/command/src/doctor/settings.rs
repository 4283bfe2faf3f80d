//! The settings in force, and where each comes from: a variable, the profile, or the default.

use crate::probe;
use os::log::Level;
use rendezvous::config::{AwakeScope, Config, ConfigFile, FileValue, Guarding, Report, Spin};
use tabled::builder::Builder;
use tabled::settings::Style;

/// One line for each setting.
pub fn table(config: &Config) -> String {
    let mut builder = Builder::default();
    for (what, variable, value) in rows(config) {
        builder.push_record([what.to_owned(), value, source(config, variable)]);
    }
    let mut table = builder.build();
    table.with(Style::empty());
    let text = table.to_string();
    let lines: Vec<&str> = text.lines().map(str::trim).collect();
    lines.join("\n")
}

/// What a setting is called, its variable, and its value.
fn rows(config: &Config) -> Vec<(&'static str, &'static str, String)> {
    let of = |variable: &str| value(config, variable).unwrap_or_default();
    vec![
        ("connections", "ULSOCK_CLUSTER", cluster(config)),
        ("excluded", "ULSOCK_EXCLUDE", or_none(of("ULSOCK_EXCLUDE"))),
        ("profile", "ULSOCK_PROFILE", profile(config)),
        ("waiting", "ULSOCK_SPIN_US", spin(config.spin)),
        ("awake on kernel TCP", "ULSOCK_AWAKE", awake(config)),
        ("upgrade", "ULSOCK_UPGRADE_AFTER", upgrade(config)),
        ("largest ring", "ULSOCK_RING", ring(config)),
        ("Go programs", "ULSOCK_GO", go(config.go)),
        ("guard", "ULSOCK_GUARD", guard(config.guard)),
        ("kernel TLS", "ULSOCK_KTLS", kernel_tls(config.kernel_tls)),
        (
            "translated addresses",
            "ULSOCK_REDIRECTED",
            redirected(config.redirected),
        ),
        ("Unix sockets", "ULSOCK_UNIX", unix(config.unix)),
        (
            "run directory",
            "ULSOCK_RUN_DIR",
            config.run_dir.display().to_string(),
        ),
        ("log", "ULSOCK_LOG", log(config)),
        ("report", "ULSOCK_REPORT", report(&config.report)),
        ("chaos (test aid)", "ULSOCK_CHAOS", config.chaos.to_string()),
    ]
}

fn set(variable: &str) -> Option<String> {
    let value = std::env::var_os(variable)?;
    Some(value.to_string_lossy().into_owned())
}

fn source(config: &Config, variable: &str) -> String {
    let by_profile = variable == "ULSOCK_SPIN_US" && value(config, "ULSOCK_PROFILE").is_some();
    match (set(variable), in_file(config, variable)) {
        (Some(_), _) => format!("from {variable}"),
        (None, None) if by_profile => "from the profile".to_owned(),
        (None, Some(value)) => format!("from the file, line {}", value.line),
        (None, None) => format!("default ({variable})"),
    }
}

/// What the file says of it for this command; the last line counts.
fn in_file<'a>(config: &'a Config, variable: &str) -> Option<&'a FileValue> {
    let ConfigFile::Used(used) = &config.file else {
        return None;
    };
    used.set.iter().rev().find(|it| it.variable == variable)
}

/// The text of a setting, by the variable or the file.
fn value(config: &Config, variable: &str) -> Option<String> {
    set(variable).or_else(|| Some(in_file(config, variable)?.text.clone()))
}

fn or_none(text: String) -> String {
    match text.is_empty() {
        true => "none".to_owned(),
        false => text,
    }
}

fn cluster(config: &Config) -> String {
    value(config, "ULSOCK_CLUSTER")
        .unwrap_or_else(|| "loopback, and those between two equal addresses".to_owned())
}

fn awake(config: &Config) -> String {
    if config.spin == Spin::Fixed(0) {
        return "never: waits sleep at once".to_owned();
    }
    match config.scope.awake() {
        AwakeScope::Off => "never",
        AwakeScope::Private => "to private addresses and the cluster's",
        AwakeScope::All => "to all addresses",
    }
    .to_owned()
}

fn profile(config: &Config) -> String {
    value(config, "ULSOCK_PROFILE").unwrap_or_else(|| "balanced".to_owned())
}

fn spin(spin: Spin) -> String {
    match spin {
        Spin::Auto(most) => {
            format!("automatic: spin up to {most} us while it pays, give way, or sleep")
        }
        Spin::Fixed(0) => "sleep at once".to_owned(),
        Spin::Fixed(us) => format!("always spin up to {us} us, then sleep"),
        Spin::Forever => "spin for ever".to_owned(),
    }
}

fn upgrade(config: &Config) -> String {
    let [first, least, most] = probe::upgrade_calls();
    match config.upgrade_after {
        None => format!(
            "automatic: after {first} calls at first, then after {least} to {most}, as it would have paid"
        ),
        Some(0) => "in connect and accept".to_owned(),
        Some(calls) => format!("after {calls} calls"),
    }
}

fn ring(config: &Config) -> String {
    let kib = 16u64 << (2 * config.largest);
    format!("{kib} KiB each way")
}

fn kernel_tls(is_on: bool) -> String {
    match is_on {
        true => "whenever a program asks for it: the connection stays on kernel TCP",
        false => "not where rings may carry the connection: the program encrypts",
    }
    .to_owned()
}

fn redirected(may_leave: bool) -> String {
    match may_leave {
        true => "may leave kernel TCP, by the host's nicd",
        false => "stay on kernel TCP",
    }
    .to_owned()
}

fn unix(may_leave: bool) -> String {
    match may_leave {
        true => "streams may leave the kernel",
        false => "stay on the kernel",
    }
    .to_owned()
}

fn go(served: bool) -> String {
    match served {
        true => "their calls are led to the library",
        false => "stay on kernel TCP",
    }
    .to_owned()
}

fn guard(guard: Guarding) -> String {
    match guard {
        Guarding::Off => "off".to_owned(),
        Guarding::On => "connections that kernel TCP serves faster go back to it".to_owned(),
        Guarding::Eager => {
            "connections go to kernel TCP and back all the time (test aid)".to_owned()
        }
    }
}

fn log(config: &Config) -> String {
    let level = match config.log {
        Level::Off => "off",
        Level::Error => "error",
        Level::Info => "info",
        Level::Debug => "debug",
    };
    match &config.log_file {
        Some(file) => format!("{level}, to {}", file.display()),
        None => format!("{level}, to stderr"),
    }
}

fn report(report: &Report) -> String {
    match report {
        Report::Off => "none".to_owned(),
        Report::Stderr => "to stderr".to_owned(),
        Report::File(path) => format!("to {}", path.display()),
    }
}
