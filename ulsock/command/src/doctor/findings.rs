//! What a doctor has found: lines under titles, as text while they come, or as JSON at the end.

use std::process::ExitCode;

use serde::Serialize;

use crate::failure::Failure;
use os::plain::plain;

#[derive(Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
enum Level {
    Ok,
    Bad,
    /// Neither good nor bad.
    Note,
}

#[derive(Serialize)]
struct Line {
    level: Level,
    what: String,
    text: String,
}

#[derive(Serialize)]
struct Section {
    title: String,
    findings: Vec<Line>,
}

/// The exit status says how it has ended, whether anybody reads the lines or not.
fn say(line: &str) {
    let _ = crate::print::all(&format!("{line}\n"));
}

/// How much of it is bad is counted.
pub struct Findings {
    in_json: bool,
    subject: String,
    pub problems: usize,
    sections: Vec<Section>,
}

impl Findings {
    /// `subject`: what is looked at, in a line.
    pub fn of(subject: String, in_json: bool) -> Findings {
        if !in_json {
            say(&subject);
        }
        Findings {
            in_json,
            subject,
            problems: 0,
            sections: Vec::new(),
        }
    }

    pub fn title(&mut self, text: &str) {
        if !self.in_json {
            say(&format!("\n{text}"));
        }
        self.sections.push(Section {
            title: text.to_owned(),
            findings: Vec::new(),
        });
    }

    /// A line that is neither good nor bad.
    pub fn note(&mut self, text: &str) {
        self.add(Level::Note, "", text);
    }

    /// The same of something that has a name.
    pub fn tell(&mut self, what: &str, text: &str) {
        self.add(Level::Note, what, text);
    }

    pub fn well(&mut self, what: &str, text: &str) {
        self.add(Level::Ok, what, text);
    }

    pub fn bad(&mut self, what: &str, text: &str) {
        self.problems += 1;
        self.add(Level::Bad, what, text);
    }

    /// True if it is well.
    pub fn check<E: std::fmt::Display>(&mut self, what: &str, found: Result<String, E>) -> bool {
        match &found {
            Ok(text) => self.well(what, text),
            Err(problem) => self.bad(what, &problem.to_string()),
        }
        found.is_ok()
    }

    fn add(&mut self, level: Level, what: &str, text: &str) {
        let (what, text) = (
            &*shown(what),
            &*match what {
                // A table of our own has lines.
                "" => text.lines().map(shown).collect::<Vec<_>>().join("\n"),
                _ => shown(text),
            },
        );
        if !self.in_json {
            say(&match (level, what) {
                (Level::Ok, _) => format!("  ok   {what}: {text}"),
                (Level::Bad, _) => format!("  BAD  {what}: {text}"),
                (Level::Note, "") => format!("       {}", text.replace('\n', "\n       ")),
                (Level::Note, _) => format!("       {what}: {text}"),
            });
        }
        if let Some(section) = self.sections.last_mut() {
            section.findings.push(Line {
                level,
                what: what.to_owned(),
                text: text.to_owned(),
            });
        }
    }

    /// The last word, and the exit status.
    pub fn conclude(self, verdict: &str) -> ExitCode {
        if self.in_json {
            let all = serde_json::json!({
                "subject": self.subject,
                "problems": self.problems,
                "verdict": verdict,
                "sections": self.sections,
            });
            say(&all.to_string());
        } else {
            say(&format!("\n{verdict}"));
        }
        match self.problems {
            0 => ExitCode::SUCCESS,
            _ => ExitCode::from(Failure::WORK),
        }
    }
}

/// Names, variables and files can hold anything: nothing of it reaches a terminal but text. What was spelled out before is
/// left as it is.
fn shown(text: &str) -> String {
    let parts = text.split('\\').map(|part| plain(part.as_bytes()));
    parts.collect::<Vec<_>>().join("\\")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_but_text_is_shown() {
        assert_eq!(shown("a \"b\" 'c' /d"), "a \"b\" 'c' /d");
        assert_eq!(shown("\x1b[2J\n  ok   all"), "\\u{1b}[2J\\n  ok   all");
        let once = shown("\x1b\u{202e}");
        assert_eq!(shown(&once), once);
    }
}
