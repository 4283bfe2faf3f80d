//! What the configuration says: of the file, which lines count for a program, and what is odd in it.

use rendezvous::config::rules::{Ends, Rule};
use rendezvous::config::{Config, ConfigError, ConfigFile};

use super::findings::Findings;

/// Those of this process that are ours.
pub fn own_variables() -> impl Iterator<Item = (String, String)> {
    std::env::vars_os().filter_map(|(name, value)| {
        let name = name.into_string().ok()?;
        let value = value.to_string_lossy().into_owned();
        name.starts_with("ULSOCK").then_some((name, value))
    })
}

/// What is configured for a program, which has these variables.
pub fn tell(
    findings: &mut Findings,
    config: Result<&Config, &ConfigError>,
    variables: &[(String, String)],
) {
    findings.title("Configuration of this program");
    let config = match config {
        Ok(config) => config,
        Err(error) => {
            let problem =
                format!("{error}. It runs on kernel TCP with this: mend or unset the variable");
            return findings.bad("variable", &problem);
        }
    };
    file(findings, config);
    if !config.enabled {
        let by = match &config.file {
            ConfigFile::Used(used) if !variables.iter().any(|(name, _)| name == "ULSOCK") => {
                match used.rule {
                    Some(line) => format!("by the rule in line {line} of {}", used.path.display()),
                    None => format!("by {}", used.path.display()),
                }
            }
            _ => "by ULSOCK=0".to_owned(),
        };
        return findings.bad(
            "off",
            &format!("{by}: all connections stay on kernel TCP; change that, or set ULSOCK=1"),
        );
    }
    let rules = config.rules.all();
    for rule in rules {
        findings.tell(&format!("line {}", rule.line), &rule_text(rule));
    }
    let last = rules.iter().find(|rule| rule.ends.are_all());
    if let Some(last) = last.filter(|_| rules.iter().all(|rule| rule.on_kernel)) {
        findings.bad(
            "rule",
            &format!(
                "line {} keeps all its connections on kernel TCP (reason `rule`): change it, or set \
                 ULSOCK_CONFIG_FILE=none",
                last.line
            ),
        );
    }
}

/// The file itself, and what is odd in it.
pub fn file(findings: &mut Findings, config: &Config) {
    match &config.file {
        ConfigFile::None => findings.tell(
            "file",
            "none (/etc/ulsock.toml, or what ULSOCK_CONFIG_FILE names)",
        ),
        ConfigFile::Refused(error) => {
            findings.bad("file", &format!("{error}. Nothing of it counts until then"))
        }
        ConfigFile::Used(used) => {
            let rule = match used.rule {
                Some(line) => format!("the rule in line {line} is for the whole program"),
                None => "no rule for the whole program".to_owned(),
            };
            findings.well("file", &format!("{}: {rule}", used.path.display()));
            for doubt in config.doubts() {
                findings.tell("note", &doubt.to_string());
            }
        }
    }
}

fn rule_text(rule: &Rule) -> String {
    let mut said = Vec::new();
    if rule.on_kernel {
        said.push("stay on kernel TCP".to_owned());
    }
    match rule.upgrade_after {
        Some(Some(calls)) => said.push(format!("are upgraded after {calls} calls")),
        Some(None) => said.push("are upgraded as has paid".to_owned()),
        None => {}
    }
    if let Some(level) = rule.largest {
        said.push(format!(
            "have rings of {} KiB at most",
            16u64 << (2 * level)
        ));
    }
    if said.is_empty() {
        said.push("are accelerated".to_owned());
    }
    format!("{} {}", ends_text(&rule.ends), said.join(", "))
}

fn ends_text(ends: &Ends) -> String {
    match ends.to_string() {
        text if text.is_empty() => "all connections".to_owned(),
        text => format!("connections {text}"),
    }
}
