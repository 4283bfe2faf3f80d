//! ulsock(7): variables, reasons and differences, from the chapters of the manual that describe them. The tables must
//! name every variable that the library knows and every reason that it can give, and no other.

use rendezvous::config::KNOWN;
use rendezvous::reason::Reason;

use crate::manual::{Extent, chapter};
use crate::roff;

/// Titles in the page, chapters of the manual, and how much of them.
const CHAPTERS: [(&str, &str, Extent); 7] = [
    (ENVIRONMENT, "Configuration", Extent::Own),
    ("PROFILES", "Profiles", Extent::All),
    ("RUN DIRECTORY", "The run directory", Extent::All),
    (REASONS, "Why is my connection on kernel TCP?", Extent::All),
    ("REPORT", "The report", Extent::All),
    (
        "DIFFERENCES FROM KERNEL TCP",
        "Differences from kernel TCP",
        Extent::All,
    ),
    ("TROUBLESHOOTING", "Troubleshooting", Extent::All),
];
const ENVIRONMENT: &str = "ENVIRONMENT";
const REASONS: &str = "REASONS";

const NAME: &str = "ulsock \\- variables, reasons and differences of user\\-space sockets";
const DESCRIPTION: &str = "Programs that are started with \\fBulsock run\\fR load a library that moves TCP connections \
between them from the kernel to shared memory. This page lists the environment variables that configure it, the reasons \
for which a connection stays on or returns to kernel TCP, and what a program can notice. It is a part of the manual.";

pub fn make(manual: &str) -> Result<String, String> {
    let version = env!("CARGO_PKG_VERSION");
    let mut page =
        format!(".TH ulsock 7 \"\" \"ulsock {version}\" \"ulsock\"\n.ad l\n.SH NAME\n{NAME}\n");
    page += &format!(".SH DESCRIPTION\n{DESCRIPTION}\n");
    for (title, heading, extent) in CHAPTERS {
        let text = chapter(manual, heading, extent)
            .ok_or_else(|| format!("it has no chapter \"{heading}\""))?;
        let rendered = roff::render(text);
        let wanted: Vec<&str> = match title {
            ENVIRONMENT => KNOWN.to_vec(),
            REASONS => reasons(),
            _ => Vec::new(),
        };
        compare(heading, &rendered.terms, &wanted)?;
        page += &format!(".SH \"{title}\"\n{}", rendered.text);
    }
    page += ".SH \"SEE ALSO\"\n.BR ulsock (1)\n";
    Ok(page)
}

fn reasons() -> Vec<&'static str> {
    let names = Reason::ALL.iter().map(|reason| reason.name());
    names.filter(|name| !name.is_empty()).collect()
}

/// The tables of a chapter about things in the code list these and no others.
fn compare(heading: &str, listed: &[String], wanted: &[&str]) -> Result<(), String> {
    if wanted.is_empty() {
        return Ok(());
    }
    let missing = wanted
        .iter()
        .find(|name| !listed.iter().any(|it| it == *name));
    if let Some(missing) = missing {
        return Err(format!("the table of \"{heading}\" lacks {missing}"));
    }
    let unknown = listed.iter().find(|it| !wanted.contains(&it.as_str()));
    match unknown {
        Some(unknown) => Err(format!(
            "the table of \"{heading}\" has {unknown}, which the code does not have"
        )),
        None => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MANUAL: &str = include_str!("../../../docs/manual.md");

    #[test]
    fn the_manual_makes_a_page_with_every_variable_and_reason() {
        let page = make(MANUAL).unwrap();
        for name in KNOWN.iter().copied().chain(reasons()) {
            let term = format!(".TP\n\\fB{}\\fR\n", name.replace('-', "\\-"));
            assert!(page.contains(&term), "no {name}");
        }
        assert!(!page.contains("](") && !page.contains("\n| "));
    }

    #[test]
    fn a_manual_that_lacks_a_variable_or_has_another_is_refused() {
        let other = MANUAL.replace("| `ULSOCK_RING` |", "| `ULSOCK_WRING` |");
        assert!(make(&other).unwrap_err().contains("ULSOCK_RING"));
        let more = MANUAL.replace(
            "| `ULSOCK_RING` |",
            "| `ULSOCK_X` | | | |\n| `ULSOCK_RING` |",
        );
        assert!(make(&more).unwrap_err().contains("ULSOCK_X"));
        let without = MANUAL.replace("## The report", "## A report");
        assert!(make(&without).unwrap_err().contains("The report"));
    }
}
