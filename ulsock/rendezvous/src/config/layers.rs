//! The configuration file, as far as it is configuration: `[defaults]` with the values of variables, and `[[rule]]`
//! with what holds for one program, user, address or port. Below them are our own defaults, above them the environment.

mod keys;

use std::path::{Path, PathBuf};

use super::file::{self, FileError};
use super::rules::{Ends, Rule, Rules};
use super::toml::{self, Fault, Table};
use super::who::{Who, uid_of};
use super::{Config, ConfigError};
use keys::{Keys, Setting};
use os::fds::Transient;

/// What became of the configuration file.
#[derive(Clone, Debug, Default)]
pub enum ConfigFile {
    /// There is none.
    #[default]
    None,
    Used(FileUse),
    /// Nothing of it counts.
    Refused(FileError),
}

/// A line of the file that sets what a variable would set.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FileValue {
    pub variable: &'static str,
    pub line: u32,
    /// As the variable would hold it.
    pub text: String,
}

#[derive(Clone, Debug)]
pub struct FileUse {
    pub path: PathBuf,
    /// What it gives variables; the last of a variable counts.
    pub set: Vec<FileValue>,
    /// The rule for this whole program, by its line.
    pub rule: Option<u32>,
    /// Whose process it was read for.
    uid: u32,
}

/// What a rule makes of connections.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Carrier {
    /// As without a rule.
    On,
    /// They stay on kernel TCP.
    Kernel,
    /// The whole program is as without ulsock.
    Off,
}

#[derive(Debug, Default)]
struct RuleText {
    line: u32,
    programs: Vec<String>,
    users: Vec<String>,
    ends: Ends,
    carrier: Option<Carrier>,
    settings: Vec<Setting>,
}

impl RuleText {
    fn is_for(&self, who: &Who) -> bool {
        let (programs, users) = (&self.programs, &self.users);
        let is_program = programs.is_empty() || programs.iter().any(|name| who.is_program(name));
        is_program && (users.is_empty() || users.iter().any(|user| who.is_user(user)))
    }

    fn is_for_all(&self) -> bool {
        self.programs.is_empty() && self.users.is_empty() && self.ends.are_all()
    }

    fn rule(&self, is_set: &impl Fn(&str) -> bool) -> Rule {
        let mut config = Config::default();
        let mut says = |variable: &str| {
            let mut settings = self.settings.iter();
            let setting = settings.find(|setting| setting.variable == variable);
            let setting = setting.filter(|_| !is_set(variable));
            setting.is_some_and(|it| config.set(variable, &it.text).is_ok())
        };
        let (when, largest) = (says("ULSOCK_UPGRADE_AFTER"), says("ULSOCK_RING"));
        Rule {
            line: self.line,
            ends: self.ends.clone(),
            on_kernel: self.carrier == Some(Carrier::Kernel),
            upgrade_after: when.then_some(config.upgrade_after),
            largest: largest.then_some(config.largest),
        }
    }
}

/// A file that is well written.
#[derive(Debug, Default)]
pub struct Layers {
    defaults: Vec<Setting>,
    rules: Vec<RuleText>,
}

impl Layers {
    pub fn read(text: &str) -> Result<Layers, Fault> {
        let mut layers = Layers::default();
        for table in &toml::read(text)? {
            match (table.name, table.is_element) {
                ("", _) if table.entries.is_empty() => {}
                ("defaults", false) => layers.defaults = keys::defaults(table)?,
                ("rule", true) => layers.rules.push(read_rule(table)?),
                _ => return Err(stray(table)),
            }
        }
        Ok(layers)
    }

    /// What somebody who looks after the file should know, though it can be used.
    fn doubts(&self) -> Vec<Fault> {
        let mut doubts = Vec::new();
        let last = self.rules.iter().find(|rule| rule.is_for_all());
        for rule in &self.rules {
            let line = rule.line;
            let mut doubt = |problem| doubts.push(Fault { line, problem });
            if let Some(last) = last.filter(|last| last.line < line) {
                doubt(format!(
                    "never reached: the rule in line {} is for everything",
                    last.line
                ));
            }
            let named = rule
                .users
                .iter()
                .filter(|user| user.parse::<u32>().is_err());
            for user in named.filter(|user| uid_of(user).is_none()) {
                doubt(format!(
                    "no user {user} in /etc/passwd: give the number of the user"
                ));
            }
        }
        doubts
    }

    /// What holds for this program, in the order in which it is set, and the rules for its connections.
    fn choose(&self, who: &Who, is_set: impl Fn(&str) -> bool) -> Chosen<'_> {
        let mut chosen = Chosen {
            settings: self.defaults.iter().collect(),
            enabled: None,
            rule: None,
            rules: Rules::default(),
        };
        for text in self.rules.iter().filter(|text| text.is_for(who)) {
            if !text.ends.are_all() {
                chosen.rules.list.push(text.rule(&is_set));
                continue;
            }
            chosen.settings.extend(&text.settings);
            chosen.enabled = text.carrier.map(|carrier| carrier != Carrier::Off);
            chosen.rule = Some(text.line);
            if text.carrier == Some(Carrier::Kernel) {
                chosen.rules.list.push(Rule {
                    line: text.line,
                    on_kernel: true,
                    ..Rule::default()
                });
            }
            break;
        }
        let mut says_when = chosen.rules.list.iter().map(|rule| rule.upgrade_after);
        chosen.rules.times = says_when.any(|when| when.is_some());
        chosen
    }
}

struct Chosen<'a> {
    settings: Vec<&'a Setting>,
    enabled: Option<bool>,
    /// The line of the rule for the whole program.
    rule: Option<u32>,
    rules: Rules,
}

fn stray(table: &Table<'_>) -> Fault {
    let problem = match (table.name, table.entries.first()) {
        ("", Some(entry)) => {
            let key = entry.key;
            format!("{key} is in no table: put it below [defaults] or a [[rule]]")
        }
        ("defaults", _) => "write [defaults], in single brackets".to_owned(),
        ("rule", _) => "write [[rule]], in double brackets".to_owned(),
        (name, _) => format!("no such table: {name} (known: [defaults] and [[rule]])"),
    };
    let line = table.entries.first().filter(|_| table.name.is_empty());
    Fault {
        line: line.map_or(table.line, |entry| entry.line),
        problem,
    }
}

fn read_rule(table: &Table<'_>) -> Result<RuleText, Fault> {
    let mut rule = RuleText {
        line: table.line,
        ..RuleText::default()
    };
    for entry in &table.entries {
        match Keys::of(entry)? {
            Keys::Program(patterns) => rule.programs = patterns,
            Keys::User(users) => rule.users = users,
            Keys::Address(blocks) => rule.ends.addresses = blocks,
            Keys::Port(ranges) => rule.ends.ports = ranges,
            Keys::Path(patterns) => rule.ends.paths = patterns,
            Keys::Direction(direction) => rule.ends.direction = Some(direction),
            Keys::Carrier(carrier) => rule.carrier = Some(carrier),
            Keys::Setting(setting) => rule.settings.push(setting),
        }
    }
    check_rule(&rule)?;
    rule.settings.sort_by_key(Setting::rank);
    Ok(rule)
}

/// Does it set something, and nothing that a connection cannot have for itself?
fn check_rule(rule: &RuleText) -> Result<(), Fault> {
    let fault = |line, problem: String| Err(Fault { line, problem });
    if rule.carrier.is_none() && rule.settings.is_empty() {
        let problem = "the rule sets nothing: give it carrier = \"on\", \"kernel\" or \"off\"";
        return fault(rule.line, problem.to_owned());
    }
    if rule.ends.are_all() {
        return Ok(());
    }
    if rule.ends.are_none() {
        let problem = "path is of Unix sockets, which have no address and port: make two rules";
        return fault(rule.line, problem.to_owned());
    }
    if rule.carrier == Some(Carrier::Off) {
        let problem = "carrier = \"off\" is for a whole program: give \"kernel\", or no address, \
                       port, path and direction";
        return fault(rule.line, problem.to_owned());
    }
    match rule.settings.iter().find(|it| !it.is_of_connections()) {
        Some(setting) => fault(
            setting.line,
            format!(
                "{} is for a whole program: put it into a rule without address, port, path and direction",
                setting.name
            ),
        ),
        None => Ok(()),
    }
}

impl Config {
    /// From variables, and from the file behind them; `who` is the program that it is for.
    pub fn of(
        vars: impl Iterator<Item = (String, String)>,
        who: impl FnOnce() -> Who,
    ) -> Result<Config, ConfigError> {
        let vars: Vec<_> = vars.collect();
        let mut config = Config::from_vars(vars.iter().cloned())?;
        let named = vars.iter().find(|(name, _)| name == file::VARIABLE);
        let is_named = named.is_some();
        let path = named.map_or(file::DEFAULT, |(_, path)| path).to_owned();
        if path == file::NONE {
            return Ok(config);
        }
        let path = Path::new(&path);
        let refused = match file::find(path, !is_named) {
            Ok(None) => return Ok(config),
            Ok(Some(file)) => {
                let who = who();
                match read(&file, path, who.uid) {
                    Ok(layers) => return Config::upon(path, &layers, &who, vars),
                    Err(error) => error,
                }
            }
            Err(error) => error,
        };
        config.file = ConfigFile::Refused(refused);
        Ok(config)
    }

    fn upon(
        path: &Path,
        layers: &Layers,
        who: &Who,
        vars: Vec<(String, String)>,
    ) -> Result<Config, ConfigError> {
        let chosen = layers.choose(who, |variable| {
            vars.iter().any(|(name, _)| name == variable)
        });
        let mut config = Config::default();
        for setting in &chosen.settings {
            // Each was tried when the file was read.
            let _ = config.set(setting.variable, &setting.text);
        }
        config.enabled = chosen.enabled.unwrap_or(config.enabled);
        config.set_all(vars)?;
        let value = |it: &&Setting| FileValue {
            variable: it.variable,
            line: it.line,
            text: it.text.clone(),
        };
        config.file = ConfigFile::Used(FileUse {
            path: path.to_owned(),
            set: chosen.settings.iter().map(value).collect(),
            rule: chosen.rule,
            uid: who.uid,
        });
        config.rules = chosen.rules;
        Ok(config)
    }

    /// What is odd in the file that it was made with, though nothing is wrong.
    pub fn doubts(&self) -> Vec<Fault> {
        let ConfigFile::Used(used) = &self.file else {
            return Vec::new();
        };
        let file = file::find(&used.path, true).ok().flatten();
        let layers = file.and_then(|file| read(&file, &used.path, used.uid).ok());
        layers.map_or_else(Vec::new, |layers| layers.doubts())
    }
}

fn read(file: &Transient, path: &Path, uid: u32) -> Result<Layers, FileError> {
    let text = file::text(file, path, uid)?;
    Layers::read(&text).map_err(|fault| FileError::at(path, fault))
}

#[cfg(test)]
mod tests;
