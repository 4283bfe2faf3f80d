//! The names that the configuration file knows, and what each may hold. What it gives to a setting goes through the
//! same check as the variable of that setting.

use std::ops::RangeInclusive;

use super::Carrier;
use crate::config::rules::Direction;
use crate::config::toml::{Entry, Fault, Table, Value};
use crate::config::{Cidr, Config};

/// Settings, each with its variable. Test aids are variables alone, and so is what says where files of ours are.
const SETTINGS: [(&str, &str); 18] = [
    ("awake", "ULSOCK_AWAKE"),
    ("cluster", "ULSOCK_CLUSTER"),
    ("enabled", "ULSOCK"),
    ("exclude", "ULSOCK_EXCLUDE"),
    ("go", "ULSOCK_GO"),
    ("guard", "ULSOCK_GUARD"),
    ("ktls", "ULSOCK_KTLS"),
    ("log", "ULSOCK_LOG"),
    ("log_file", "ULSOCK_LOG_FILE"),
    ("nic", "ULSOCK_NIC"),
    ("profile", "ULSOCK_PROFILE"),
    ("redirected", "ULSOCK_REDIRECTED"),
    ("report", "ULSOCK_REPORT"),
    ("ring", "ULSOCK_RING"),
    ("run_dir", "ULSOCK_RUN_DIR"),
    ("spin_us", "ULSOCK_SPIN_US"),
    ("unix", "ULSOCK_UNIX"),
    ("upgrade_after", "ULSOCK_UPGRADE_AFTER"),
];
/// Those that one connection can have in another way than the next.
const OF_CONNECTIONS: [&str; 2] = ["ring", "upgrade_after"];
/// What a rule has besides settings.
const OF_RULES: &str = "program, user, address, port, path, direction, carrier";

#[derive(Debug)]
pub struct Setting {
    pub line: u32,
    pub name: &'static str,
    pub variable: &'static str,
    /// As the variable would hold it.
    pub text: String,
}

impl Setting {
    pub fn is_of_connections(&self) -> bool {
        OF_CONNECTIONS.contains(&self.name)
    }

    /// The profile comes first: it sets what the others refine.
    pub fn rank(&self) -> bool {
        self.name != "profile"
    }

    fn of(entry: &Entry<'_>, others: &str) -> Result<Setting, Fault> {
        let line = entry.line;
        let fault = |problem| Fault { line, problem };
        let mut known = SETTINGS.iter();
        let Some((name, variable)) = known.find(|(name, _)| *name == entry.key) else {
            let names: Vec<_> = SETTINGS.iter().map(|(name, _)| *name).collect();
            let (key, names) = (entry.key, names.join(", "));
            return Err(fault(format!(
                "no such name: {key} (known: {others}{names})"
            )));
        };
        let text = text_of(&entry.value);
        let tried = Config::default().set(variable, &text);
        tried.map_err(|wanted| fault(format!("{name}: cannot use \"{text}\": give {wanted}")))?;
        Ok(Setting {
            line,
            name,
            variable,
            text,
        })
    }
}

/// What `[defaults]` sets.
pub fn defaults(table: &Table<'_>) -> Result<Vec<Setting>, Fault> {
    let settings = table.entries.iter().map(|entry| Setting::of(entry, ""));
    let mut settings = settings.collect::<Result<Vec<_>, Fault>>()?;
    settings.sort_by_key(Setting::rank);
    Ok(settings)
}

/// An entry of a rule.
pub enum Keys {
    Program(Vec<String>),
    User(Vec<String>),
    Address(Vec<Cidr>),
    Port(Vec<RangeInclusive<u16>>),
    Path(Vec<String>),
    Direction(Direction),
    Carrier(Carrier),
    Setting(Setting),
}

impl Keys {
    pub fn of(entry: &Entry<'_>) -> Result<Keys, Fault> {
        let (key, value) = (entry.key, &entry.value);
        let found = match key {
            "program" => items(value, name).map(Keys::Program),
            "user" => items(value, name).map(Keys::User),
            "address" => items(value, |item| Cidr::parse(&text_of(item))).map(Keys::Address),
            "port" => items(value, ports).map(Keys::Port),
            "path" => items(value, socket_name).map(Keys::Path),
            "direction" => direction(value).map(Keys::Direction),
            "carrier" => carrier(value).map(Keys::Carrier),
            // A rule has the carrier for that.
            "enabled" => None,
            _ => return Setting::of(entry, &format!("{OF_RULES}, ")).map(Keys::Setting),
        };
        let wanted = match key {
            "program" => "a name or a path, or a list of them, such as [\"redis-*\", \"/opt/*\"]",
            "user" => "a name or a number, or a list of them",
            "address" => "an address or a block such as \"10.0.0.0/8\", or a list of them",
            "port" => "a port such as 6379, ports such as \"7000-7010\", or a list of them",
            "path" => "the path of a Unix socket, an abstract name behind @, or a list of them",
            "direction" => "\"connect\" or \"accept\"",
            "carrier" => "\"on\", \"kernel\" or \"off\"",
            _ => "carrier = \"on\" or \"off\" instead",
        };
        found.ok_or_else(|| Fault {
            line: entry.line,
            problem: format!("{key}: cannot use \"{}\": give {wanted}", text_of(value)),
        })
    }
}

/// As a variable would hold it.
fn text_of(value: &Value) -> String {
    match value {
        Value::Text(text) => text.clone(),
        Value::Number(number) => number.to_string(),
        Value::Bool(true) => "1".to_owned(),
        Value::Bool(false) => "0".to_owned(),
        Value::List(items) => items.iter().map(text_of).collect::<Vec<_>>().join(","),
    }
}

/// One value, or a list of some.
fn items<T>(value: &Value, item: impl Fn(&Value) -> Option<T>) -> Option<Vec<T>> {
    match value {
        // It would match nothing, or all; nobody can mean that.
        Value::List(list) if list.is_empty() => None,
        Value::List(list) => list.iter().map(item).collect(),
        one => Some(vec![item(one)?]),
    }
}

fn name(value: &Value) -> Option<String> {
    match value {
        Value::Text(text) if !text.is_empty() => Some(text.clone()),
        Value::Number(number) => u32::try_from(*number).ok().map(|it| it.to_string()),
        _ => None,
    }
}

/// A relative path is bound as it is written, and may be meant by `*`.
fn socket_name(value: &Value) -> Option<String> {
    match value {
        Value::Text(text) if text.starts_with(['/', '@', '*', '?', '.']) => Some(text.clone()),
        _ => None,
    }
}

fn ports(value: &Value) -> Option<RangeInclusive<u16>> {
    let port = |text: &str| text.trim().parse::<u16>().ok();
    let (first, last) = match value {
        Value::Number(number) => (u16::try_from(*number).ok()?, u16::try_from(*number).ok()?),
        Value::Text(text) => match text.split_once('-') {
            Some((first, last)) => (port(first)?, port(last)?),
            None => (port(text)?, port(text)?),
        },
        _ => return None,
    };
    (first <= last).then_some(first..=last)
}

fn direction(value: &Value) -> Option<Direction> {
    match text_of(value).as_str() {
        "connect" => Some(Direction::Connect),
        "accept" => Some(Direction::Accept),
        _ => None,
    }
}

fn carrier(value: &Value) -> Option<Carrier> {
    match text_of(value).as_str() {
        "on" => Some(Carrier::On),
        "kernel" => Some(Carrier::Kernel),
        "off" => Some(Carrier::Off),
        _ => None,
    }
}
