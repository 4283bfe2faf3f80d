//! Words that somebody else has written, for a terminal: what would move the cursor, colour or reorder the text, or
//! cannot be seen, is spelled out. A program's name is whatever the program likes.

/// Printable text, whatever the bytes are. A backslash is doubled, so that nothing looks like what it is not.
pub fn plain(bytes: &[u8]) -> String {
    let mut text = String::with_capacity(bytes.len());
    for chunk in bytes.utf8_chunks() {
        chunk.valid().chars().for_each(|it| push(&mut text, it));
        for byte in chunk.invalid() {
            text.push_str(&format!("\\x{byte:02x}"));
        }
    }
    text
}

fn push(text: &mut String, it: char) {
    match it {
        '"' | '\'' => text.push(it),
        // Control characters, C1 too, those of direction and other invisible ones, and what no font has.
        _ => text.extend(it.escape_debug()),
    }
}

#[cfg(test)]
mod tests {
    use super::plain;

    #[test]
    fn names_stay_as_they_are() {
        for name in ["redis-server", "it's \"me\" (7)", "größe", "東京", ""] {
            assert_eq!(plain(name.as_bytes()), name);
        }
    }

    #[test]
    fn nothing_reaches_a_terminal_but_text() {
        let hostile = [
            "\x1b[2J\x1b[Hroot# \x07".as_bytes(),
            "\u{9b}2J".as_bytes(),
            "a\nb\r\tc\0\x7f".as_bytes(),
            "\u{202e}txt.exe\u{2066}\u{200f}\u{200b}\u{feff}".as_bytes(),
            "\u{2028}\u{2029}\u{a0}\u{ad}\u{e000}".as_bytes(),
            b"\xff\xc0\x80\xed\xa0\x80\x9b31m",
            "\\x1b[2J".as_bytes(),
        ];
        for bytes in hostile {
            let text = plain(bytes);
            assert!(
                text.bytes().all(|byte| (b' '..0x7f).contains(&byte)),
                "{text:?}"
            );
        }
        assert_eq!(plain(b"\x1b[31m\xff"), "\\u{1b}[31m\\xff");
        assert_ne!(plain(b"\\u{1b}"), plain(b"\x1b"));
    }

    /// Marks that pile up on what stands before them.
    #[test]
    fn a_name_cannot_grow_over_its_neighbours() {
        assert_eq!(plain("a\u{334}".as_bytes()), "a\\u{334}");
    }
}
