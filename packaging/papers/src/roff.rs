//! Markdown as roff with the macros of man(7). Knows what our documents use: paragraphs, lists, tables, code,
//! headings, links. A table becomes a list of its first column with the others below, because a terminal is narrow.

use pulldown_cmark::{Event, Options, Parser, Tag, TagEnd};

/// A rendered text.
pub struct Rendered {
    pub text: String,
    /// What stands in the first column of its tables.
    pub terms: Vec<String>,
}

pub fn render(markdown: &str) -> Rendered {
    let mut page = Page::default();
    for event in Parser::new_ext(markdown, Options::ENABLE_TABLES) {
        page.event(event);
    }
    Rendered {
        text: page.out,
        terms: page.terms,
    }
}

#[derive(Default)]
struct Page {
    out: String,
    /// The line that is being put together.
    line: String,
    terms: Vec<String>,
    /// The next paragraph is the first of an item.
    item_begins: bool,
    lists: usize,
    in_code: bool,
    heads: Vec<String>,
    row: Vec<String>,
    /// The plain text of the cell.
    cell: String,
    /// Where the link leads that the text stands for, if it is on the web.
    link: Option<String>,
}

impl Page {
    fn event(&mut self, event: Event) {
        match event {
            Event::Start(tag) => self.start(tag),
            Event::End(tag) => self.end(tag),
            Event::Text(text) if self.in_code => self.line.push_str(&code(&text)),
            Event::Text(text) => self.plain(&text, &prose(&text)),
            Event::Code(text) => self.plain(&text, &format!("\\fB{}\\fR", code(&text))),
            Event::SoftBreak | Event::HardBreak => self.line.push(' '),
            _ => {}
        }
    }

    fn plain(&mut self, text: &str, rendered: &str) {
        self.cell.push_str(text);
        self.line.push_str(rendered);
    }

    fn start(&mut self, tag: Tag) {
        match tag {
            // The text of an item without empty lines has no paragraph of its own.
            Tag::List(_) => {
                self.paragraph();
                self.lists += 1;
                if self.lists > 1 {
                    self.request(".RS 2");
                }
            }
            Tag::Item => self.item_begins = true,
            Tag::CodeBlock(_) => {
                self.paragraph();
                self.request(".PP\n.RS 4\n.nf");
                self.in_code = true;
            }
            Tag::Strong => self.line.push_str("\\fB"),
            Tag::Emphasis => self.line.push_str("\\fI"),
            Tag::TableHead => self.heads.clear(),
            Tag::TableCell => self.cell.clear(),
            Tag::Link { dest_url, .. } => {
                self.link = dest_url.contains("://").then(|| dest_url.into_string());
            }
            _ => {}
        }
    }

    fn end(&mut self, tag: TagEnd) {
        match tag {
            TagEnd::Paragraph | TagEnd::Item => self.paragraph(),
            TagEnd::List(_) => {
                self.lists -= 1;
                if self.lists > 0 {
                    self.request(".RE");
                }
            }
            TagEnd::Heading(_) => {
                let title = std::mem::take(&mut self.line);
                self.request(&format!(".SS {title}"));
            }
            TagEnd::CodeBlock => {
                let text = std::mem::take(&mut self.line);
                text.lines().for_each(|line| self.text(line));
                self.request(".fi\n.RE");
                self.in_code = false;
            }
            TagEnd::Strong | TagEnd::Emphasis => self.line.push_str("\\fR"),
            TagEnd::TableCell => self.row.push(std::mem::take(&mut self.line)),
            TagEnd::TableHead => self.heads = std::mem::take(&mut self.row),
            TagEnd::TableRow => self.table_row(),
            TagEnd::Link => {
                if let Some(url) = self.link.take() {
                    self.line.push_str(&format!(" ({})", code(&url)));
                }
            }
            _ => {}
        }
        if tag == TagEnd::TableCell && self.row.len() == 1 && !self.heads.is_empty() {
            self.terms.push(self.cell.clone());
        }
    }

    fn paragraph(&mut self) {
        if self.line.is_empty() {
            return;
        }
        let line = std::mem::take(&mut self.line);
        self.request(match (self.lists, self.item_begins) {
            (0, _) => ".PP",
            (_, true) => ".IP \\(bu 2",
            (_, false) => ".IP \"\" 2",
        });
        self.item_begins = false;
        self.text(&line);
    }

    fn table_row(&mut self) {
        let row = std::mem::take(&mut self.row);
        let Some((term, others)) = row.split_first() else {
            return;
        };
        self.request(".TP");
        self.text(term);
        let labelled = others.len() > 1;
        let cells = others.iter().zip(self.heads.clone().into_iter().skip(1));
        let cells = cells.filter(|(cell, _)| !cell.is_empty());
        for (number, (cell, head)) in cells.enumerate() {
            if number > 0 {
                self.request(".br");
            }
            match labelled {
                true => self.text(&format!("\\fI{head}\\fR: {cell}")),
                false => self.text(cell),
            }
        }
    }

    fn request(&mut self, lines: &str) {
        self.out.push_str(lines);
        self.out.push('\n');
    }

    /// A line that is no request, whatever it begins with.
    fn text(&mut self, line: &str) {
        if line.starts_with(['.', '\'']) {
            self.out.push_str("\\&");
        }
        self.request(line);
    }
}

fn prose(text: &str) -> String {
    text.replace('\\', "\\e")
}

/// A hyphen in code can be copied and pasted.
fn code(text: &str) -> String {
    prose(text).replace('-', "\\-")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paragraphs_lists_and_code() {
        let rendered =
            render("One `a-b` [two](#x)\nthree.\n\n- **first**\n- .second\n\n```sh\n.x\n```\n");
        let wanted = ".PP\nOne \\fBa\\-b\\fR two three.\n.IP \\(bu 2\n\\fBfirst\\fR\n.IP \\(bu 2\n\\&.second\n\
            .PP\n.RS 4\n.nf\n\\&.x\n.fi\n.RE\n";
        assert_eq!(rendered.text, wanted);
    }

    #[test]
    fn a_table_is_a_list_of_its_first_column() {
        let rendered = render("| a | b | c |\n| --- | --- | --- |\n| `x` | y | |\n| z | | w |\n");
        assert_eq!(
            rendered.text,
            ".TP\n\\fBx\\fR\n\\fIb\\fR: y\n.TP\nz\n\\fIc\\fR: w\n"
        );
        assert_eq!(rendered.terms, ["x", "z"]);
    }
}
