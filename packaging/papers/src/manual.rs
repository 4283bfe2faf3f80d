//! Finds chapters of a Markdown document by their headings.

/// How much of a chapter is wanted.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Extent {
    /// What comes before its first subheading.
    Own,
    /// Its subheadings, too.
    All,
}

/// The text under a heading, without the heading.
pub fn chapter<'a>(document: &'a str, title: &str, extent: Extent) -> Option<&'a str> {
    let headings = headings(document);
    let found = headings.iter().position(|heading| heading.title == title)?;
    let own = &headings[found];
    let ends = |heading: &&Heading| extent == Extent::Own || heading.level <= own.level;
    let next = headings[found + 1..].iter().find(ends);
    let end = next.map_or(document.len(), |heading| heading.start);
    Some(&document[own.end..end])
}

struct Heading<'a> {
    level: usize,
    title: &'a str,
    start: usize,
    end: usize,
}

/// All headings, but not what looks like one in a block of code.
fn headings(document: &str) -> Vec<Heading<'_>> {
    let mut found = Vec::new();
    let (mut in_code, mut start) = (false, 0);
    for line in document.split_inclusive('\n') {
        in_code ^= line.starts_with("```");
        let title = line.trim_start_matches('#');
        let level = line.len() - title.len();
        let end = start + line.len();
        if !in_code && level > 0 && title.starts_with(' ') {
            let title = title.trim();
            found.push(Heading {
                level,
                title,
                start,
                end,
            });
        }
        start = end;
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    const DOCUMENT: &str = "# All\n## A\na\n```\n# no heading\n```\n### B\nb\n## C\nc\n";

    #[test]
    fn a_chapter_ends_before_the_next_of_its_level() {
        let all = chapter(DOCUMENT, "A", Extent::All).unwrap();
        assert_eq!(all, "a\n```\n# no heading\n```\n### B\nb\n");
        let own = chapter(DOCUMENT, "A", Extent::Own).unwrap();
        assert_eq!(own, "a\n```\n# no heading\n```\n");
        assert_eq!(chapter(DOCUMENT, "C", Extent::All), Some("c\n"));
        assert_eq!(chapter(DOCUMENT, "no heading", Extent::All), None);
    }
}
