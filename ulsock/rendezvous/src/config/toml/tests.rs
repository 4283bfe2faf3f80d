//! What is read, what is refused, and that a whole parser of TOML agrees.

use std::time::Duration;

use super::{Table, Value, read};

fn text(text: &str) -> Value {
    Value::Text(text.to_owned())
}

/// The value of the only entry.
fn value(written: &str) -> Result<Value, String> {
    let line = format!("key = {written}\n");
    let mut tables = read(&line).map_err(|fault| fault.to_string())?;
    let entry = tables[0].entries.pop().expect("an entry");
    assert!(tables.len() == 1 && tables[0].entries.is_empty());
    Ok(entry.value)
}

#[test]
fn values() {
    for (written, meant) in [
        ("\"\"", text("")),
        ("'C:\\x'", text("C:\\x")),
        (
            r#""a\"\\\n\u00e4\U0001F600""#,
            text("a\"\\\n\u{e4}\u{1f600}"),
        ),
        ("0", Value::Number(0)),
        ("-7", Value::Number(-7)),
        ("+65536", Value::Number(65_536)),
        ("true # yes", Value::Bool(true)),
        ("[]", Value::List(vec![])),
        (
            "[22, \"10.0.0.0/8\",\n  # all\n  '::1' , ]",
            Value::List(vec![Value::Number(22), text("10.0.0.0/8"), text("::1")]),
        ),
    ] {
        assert_eq!(value(written), Ok(meant), "{written}");
    }
}

#[test]
fn tables_in_their_order() {
    let file = "a = 1\r\n\r\n[defaults] # all\nb='x'\n[[ rule ]]\nc = false\n[[rule]]\nc = true";
    let tables = read(file).expect("tables");
    let shown = |table: &Table<'_>| (table.line, table.name.to_owned(), table.is_element);
    let shown: Vec<_> = tables.iter().map(shown).collect();
    let expected = [
        (1, "", false),
        (3, "defaults", false),
        (5, "rule", true),
        (7, "rule", true),
    ];
    let expected: Vec<_> = expected
        .iter()
        .map(|(l, n, e)| (*l, n.to_string(), *e))
        .collect();
    assert_eq!(shown, expected);
    assert_eq!(tables[3].entries[0].value, Value::Bool(true));
    assert_eq!(tables[3].entries[0].line, 8);
}

#[test]
fn what_is_wrong_is_named_with_its_line() {
    for (file, line, said) in [
        ("\n\nkey", 3, "behind key"),
        ("key = ", 1, "where a value should begin"),
        ("key = 1 2", 1, "where the line should end"),
        ("key = 1\nkey = 2", 2, "set already, in line 1"),
        ("[a]\n[a]", 2, "there already, in line 1"),
        ("[a]\n[[a]]", 2, "there already"),
        ("[[a]]\n[a]", 2, "there already"),
        ("a = 1\n[a]", 2, "there already"),
        ("[a.b]", 1, "in the name of a table"),
        ("a.b = 1", 1, "behind a"),
        ("\"a\" = 1", 1, "names are of letters"),
        ("key = 1.5", 1, "cannot use 1.5"),
        ("key = 1979-05-27", 1, "cannot use"),
        ("key = 01", 1, "cannot use"),
        ("key = 99999999999999999999", 1, "cannot use"),
        ("key = off", 1, "cannot use off: give a string in quotes"),
        ("key = {a = 1}", 1, "where a value should begin"),
        ("key = [[1]]", 1, "where a value should begin"),
        ("key = [true]", 1, "of strings and whole numbers"),
        ("key = [1 2]", 1, "give , or ]"),
        ("key = [1,\n", 2, "a list without its end"),
        ("key = \"a", 1, "a string without its end"),
        ("key = 'a\n'", 1, "a string without its end"),
        ("key = \"\"\"a\"\"\"", 1, "several lines"),
        (r#"key = "\q""#, 1, "no such escape"),
        (r#"key = "\ud800""#, 1, "not a character"),
        (r#"key = "\uU0041""#, 1, "not a character"),
        (r#"key = "\UU00000041""#, 1, "not a character"),
        ("key = 1 # \u{1}", 1, "where the line should end"),
        ("key = 1\rkey = 2", 1, "where the line should end"),
    ] {
        let fault = read(file).expect_err(file);
        assert_eq!(fault.line, line, "{file:?}: {fault}");
        assert!(fault.problem.contains(said), "{file:?}: {fault}");
    }
}

/// Does the value mean the same to a whole parser?
fn is_same(ours: &Value, theirs: &toml::Value) -> bool {
    match (ours, theirs) {
        (Value::Text(ours), toml::Value::String(theirs)) => ours == theirs,
        (Value::Number(ours), toml::Value::Integer(theirs)) => ours == theirs,
        (Value::Bool(ours), toml::Value::Boolean(theirs)) => ours == theirs,
        (Value::List(ours), toml::Value::Array(theirs)) => {
            ours.len() == theirs.len() && ours.iter().zip(theirs).all(|(a, b)| is_same(a, b))
        }
        _ => false,
    }
}

/// What we take a whole parser takes, too, and it means the same.
fn check_against_whole_parser(file: &str) {
    let Ok(tables) = read(file) else { return };
    let theirs: toml::Table = file.parse().unwrap_or_else(|why| panic!("{file:?}: {why}"));
    let mut elements = std::collections::HashMap::new();
    for table in &tables {
        let found = match (table.name, table.is_element) {
            ("", false) => Some(&theirs),
            (name, false) => theirs.get(name).and_then(toml::Value::as_table),
            (name, true) => {
                let nth = elements.entry(name).or_insert(0_usize);
                *nth += 1;
                let all = theirs.get(name).and_then(toml::Value::as_array);
                all.and_then(|all| all.get(*nth - 1)?.as_table())
            }
        };
        let found = found.unwrap_or_else(|| panic!("{file:?}: no {}", table.name));
        for entry in &table.entries {
            let same = found
                .get(entry.key)
                .is_some_and(|it| is_same(&entry.value, it));
            assert!(same, "{file:?}: {} is {:?} to us", entry.key, entry.value);
        }
    }
}

/// Whatever bytes there are: no panic, and nothing that means something else in TOML.
#[test]
fn fuzz() {
    let target = bolero::check!().with_test_time(Duration::from_secs(1));
    target.for_each(|bytes: &[u8]| {
        if let Ok(text) = std::str::from_utf8(bytes) {
            check_against_whole_parser(text);
        }
    });
}

/// The same of texts that are nearly right.
#[test]
fn fuzz_with_words_of_the_language() {
    const WORDS: [&str; 32] = [
        "[",
        "]",
        "[[",
        "]]",
        "=",
        "\"",
        "'",
        "#",
        ",",
        "\n",
        "\r\n",
        " ",
        "\t",
        "a",
        "b",
        "rule",
        "true",
        "false",
        "0",
        "7",
        "-",
        "+",
        "_",
        ".",
        "\\",
        "\\u0041",
        "\\n",
        "1979",
        "a = 1\n",
        "[a]\n",
        "[[r]]\n",
        "k = [1, 'x']\n",
    ];
    let target = bolero::check!().with_test_time(Duration::from_secs(1));
    target.for_each(|choices: &[u8]| {
        let words = choices
            .iter()
            .map(|choice| WORDS[usize::from(*choice) % WORDS.len()]);
        check_against_whole_parser(&words.collect::<String>());
    });
}
