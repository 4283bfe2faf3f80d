//! Reads the part of TOML that the configuration file needs: tables, arrays of tables, and entries whose values are
//! strings, whole numbers, booleans, or lists of strings and numbers.
//!
//! What it takes is TOML and means the same there; what it does not take is an error with its line. It never recurses
//! and never reads a byte twice, so its work is bounded by the size of the text. Part of the preload library, where a
//! whole parser would weigh more than everything else that is done at load.

use std::fmt;

/// Why a text cannot be used.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fault {
    /// From 1 on.
    pub line: u32,
    pub problem: String,
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "line {}: {}", self.line, self.problem)
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Value {
    Text(String),
    Number(i64),
    Bool(bool),
    /// Of texts and numbers.
    List(Vec<Value>),
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry<'a> {
    pub line: u32,
    pub key: &'a str,
    pub value: Value,
}

/// `[name]`, `[[name]]`, or what stands in front of the first of them, which has no name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Table<'a> {
    pub line: u32,
    pub name: &'a str,
    /// One of several with this name.
    pub is_element: bool,
    pub entries: Vec<Entry<'a>>,
}

/// All tables, in their order.
pub fn read(text: &str) -> Result<Vec<Table<'_>>, Fault> {
    let mut reader = Reader {
        text,
        at: 0,
        line: 1,
    };
    let mut tables = vec![Table {
        line: 1,
        name: "",
        is_element: false,
        entries: Vec::new(),
    }];
    while reader.skip_to_content()? {
        if reader.peek() == Some(b'[') {
            let table = reader.header()?;
            reader.check_name(&table, &tables)?;
            tables.push(table);
        } else {
            let entry = reader.entry()?;
            let entries = tables.last_mut().map(|table| &mut table.entries);
            reader.add(entry, entries.unwrap_or(&mut Vec::new()))?;
        }
        reader.end_of_line()?;
    }
    Ok(tables)
}

struct Reader<'a> {
    text: &'a str,
    /// Always at the beginning of a character.
    at: usize,
    line: u32,
}

impl<'a> Reader<'a> {
    fn fault<T>(&self, problem: impl Into<String>) -> Result<T, Fault> {
        Err(Fault {
            line: self.line,
            problem: problem.into(),
        })
    }

    fn peek(&self) -> Option<u8> {
        self.text.as_bytes().get(self.at).copied()
    }

    fn rest(&self) -> &'a str {
        self.text.get(self.at..).unwrap_or_default()
    }

    /// Takes `what`, if it comes next.
    fn take(&mut self, what: &str) -> bool {
        let comes = self.rest().starts_with(what);
        if comes {
            self.at += what.len();
        }
        comes
    }

    fn take_while(&mut self, wanted: impl Fn(char) -> bool) -> &'a str {
        let rest = self.rest();
        let end = rest.find(|c| !wanted(c)).unwrap_or(rest.len());
        self.at += end;
        &rest[..end]
    }

    fn skip_blanks(&mut self) {
        self.take_while(|c| c == ' ' || c == '\t');
    }

    fn skip_comment(&mut self) -> Result<(), Fault> {
        if self.take("#") {
            self.take_while(|c| !is_control(c));
        }
        Ok(())
    }

    fn take_newline(&mut self) -> bool {
        let taken = self.take("\n") || self.take("\r\n");
        self.line += u32::from(taken);
        taken
    }

    /// Skips blanks, comments and empty lines. `false`: the text is at its end.
    fn skip_to_content(&mut self) -> Result<bool, Fault> {
        loop {
            self.skip_blanks();
            self.skip_comment()?;
            if !self.take_newline() {
                return Ok(self.peek().is_some());
            }
        }
    }

    fn end_of_line(&mut self) -> Result<(), Fault> {
        self.skip_blanks();
        self.skip_comment()?;
        if self.take_newline() || self.peek().is_none() {
            return Ok(());
        }
        let found = self.found();
        self.fault(format!("{found} where the line should end: remove it"))
    }

    /// What comes next, for a message.
    fn found(&self) -> String {
        match self.rest().chars().next() {
            Some('\n' | '\r') => "the end of the line".to_owned(),
            Some(c) => format!("{c:?}"),
            None => "the end of the file".to_owned(),
        }
    }

    fn bare_key(&mut self) -> Result<&'a str, Fault> {
        let key = self.take_while(|c| c.is_ascii_alphanumeric() || c == '_' || c == '-');
        if key.is_empty() {
            let found = self.found();
            return self.fault(format!(
                "{found} where a name should begin: names are of letters, digits, - and _"
            ));
        }
        Ok(key)
    }

    fn header(&mut self) -> Result<Table<'a>, Fault> {
        let line = self.line;
        let is_element = self.take("[[");
        if !is_element {
            self.take("[");
        }
        self.skip_blanks();
        let name = self.bare_key()?;
        self.skip_blanks();
        if !self.take(if is_element { "]]" } else { "]" }) {
            let found = self.found();
            return self.fault(format!("{found} in the name of a table: give one word"));
        }
        Ok(Table {
            line,
            name,
            is_element,
            entries: Vec::new(),
        })
    }

    fn check_name(&self, table: &Table<'_>, others: &[Table<'_>]) -> Result<(), Fault> {
        let name = table.name;
        let root = others.first().map_or(&[][..], |root| &root.entries);
        let same = others.iter().skip(1).find(|other| other.name == name);
        let again = match same {
            Some(other) if !(other.is_element && table.is_element) => Some(other.line),
            _ => root
                .iter()
                .find(|entry| entry.key == name)
                .map(|entry| entry.line),
        };
        match again {
            Some(line) => self.fault(format!("{name} is there already, in line {line}")),
            None => Ok(()),
        }
    }

    fn add(&self, entry: Entry<'a>, entries: &mut Vec<Entry<'a>>) -> Result<(), Fault> {
        let (key, line) = (entry.key, entry.line);
        if let Some(other) = entries.iter().find(|other| other.key == key) {
            let problem = format!("{key} is set already, in line {}", other.line);
            return Err(Fault { line, problem });
        }
        entries.push(entry);
        Ok(())
    }

    fn entry(&mut self) -> Result<Entry<'a>, Fault> {
        let line = self.line;
        let key = self.bare_key()?;
        self.skip_blanks();
        if !self.take("=") {
            let found = self.found();
            return self.fault(format!("{found} behind {key}: give {key} = VALUE"));
        }
        self.skip_blanks();
        let value = match self.peek() {
            Some(b'[') => self.list()?,
            _ => self.scalar()?,
        };
        Ok(Entry { line, key, value })
    }

    fn list(&mut self) -> Result<Value, Fault> {
        self.take("[");
        let mut items = Vec::new();
        loop {
            if !self.skip_to_content()? {
                return self.fault("a list without its end: give ]");
            }
            if self.take("]") {
                return Ok(Value::List(items));
            }
            match self.scalar()? {
                Value::Bool(_) => return self.fault("a list is of strings and whole numbers"),
                item => items.push(item),
            }
            self.skip_to_content()?;
            if !self.take(",") && self.peek() != Some(b']') {
                let found = self.found();
                return self.fault(format!("{found} in a list: give , or ]"));
            }
        }
    }

    fn scalar(&mut self) -> Result<Value, Fault> {
        match self.peek() {
            Some(b'"' | b'\'') if self.is_long_string() => {
                self.fault("a string of several lines: give one line")
            }
            Some(b'"') => self.basic_string(),
            Some(b'\'') => self.literal_string(),
            _ => self.word(),
        }
    }

    fn is_long_string(&self) -> bool {
        ["\"\"\"", "'''"].iter().any(|q| self.rest().starts_with(q))
    }

    fn literal_string(&mut self) -> Result<Value, Fault> {
        self.take("'");
        let text = self.take_while(|c| c != '\'' && !is_control(c));
        match self.take("'") {
            true => Ok(Value::Text(text.to_owned())),
            false => self.fault("a string without its end: give '"),
        }
    }

    fn basic_string(&mut self) -> Result<Value, Fault> {
        self.take("\"");
        let mut text = String::new();
        loop {
            text.push_str(self.take_while(|c| c != '"' && c != '\\' && !is_control(c)));
            if self.take("\"") {
                return Ok(Value::Text(text));
            }
            if !self.take("\\") {
                return self.fault("a string without its end: give \"");
            }
            text.push(self.escape()?);
        }
    }

    fn escape(&mut self) -> Result<char, Fault> {
        let escapes = [
            ("\"", '"'),
            ("\\", '\\'),
            ("b", '\u{8}'),
            ("t", '\t'),
            ("n", '\n'),
            ("f", '\u{c}'),
            ("r", '\r'),
        ];
        if let Some((_, c)) = escapes.into_iter().find(|(name, _)| self.take(name)) {
            return Ok(c);
        }
        let digits = if self.take("u") {
            4
        } else if self.take("U") {
            8
        } else {
            return self.fault("no such escape: write \\\\ for a backslash");
        };
        let number = self.rest().get(..digits);
        let number = number.filter(|text| text.bytes().all(|b| b.is_ascii_hexdigit()));
        let number = number.and_then(|text| u32::from_str_radix(text, 16).ok());
        match number.and_then(char::from_u32) {
            Some(c) => {
                self.at += digits;
                Ok(c)
            }
            None => self.fault(format!("not a character: give {digits} hexadecimal digits")),
        }
    }

    /// A boolean or a number.
    fn word(&mut self) -> Result<Value, Fault> {
        let word = self.take_while(|c| c.is_alphanumeric() || "_+-.:".contains(c));
        match word {
            "true" => return Ok(Value::Bool(true)),
            "false" => return Ok(Value::Bool(false)),
            _ => {}
        }
        let digits = word.strip_prefix(['+', '-']).unwrap_or(word);
        let is_plain = !digits.is_empty()
            && digits.bytes().all(|b| b.is_ascii_digit())
            && (digits == "0" || !digits.starts_with('0'));
        match word.parse() {
            Ok(number) if is_plain => Ok(Value::Number(number)),
            _ if word.is_empty() => {
                let found = self.found();
                self.fault(format!("{found} where a value should begin"))
            }
            _ => self.fault(format!(
                "cannot use {word}: give a string in quotes, a whole number, true or false"
            )),
        }
    }
}

/// TOML has none of these outside of line ends.
fn is_control(c: char) -> bool {
    c.is_ascii_control() && c != '\t'
}

#[cfg(test)]
mod tests;
