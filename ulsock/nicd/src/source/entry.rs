//! One entry of a source: who it is of, and a line as of the peers file. Nothing of it is believed yet but its length.

use os::plain::plain;

/// More than any honest line: eight blocks and two keys take some 300 bytes.
pub const LONGEST_LINE: usize = 4096;
/// The longest name that DNS has, and Kubernetes.
pub const LONGEST_ORIGIN: usize = 253;
/// Of an origin that is none, so many bytes are shown.
const SHOWN: usize = 64;

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    /// What tells it from other entries of the source: the key in etcd, the name of the node or the target.
    pub origin: String,
    /// Or why there is none.
    pub line: Result<String, String>,
    /// By this count of the source it was there before those with a higher one; 0, if it does not count.
    pub since: i64,
}

impl Entry {
    pub fn new(origin: &[u8], line: &[u8]) -> Entry {
        match name(origin) {
            Some(origin) => Entry {
                origin: origin.to_owned(),
                line: text(line),
                since: 0,
            },
            None => Entry {
                origin: plain(&origin[..origin.len().min(SHOWN)]),
                line: Err(format!(
                    "its name is none: up to {LONGEST_ORIGIN} visible ASCII characters are wanted"
                )),
                since: 0,
            },
        }
    }

    /// The source has something of that name that cannot be used.
    pub fn broken(origin: &[u8], why: &str) -> Entry {
        Entry {
            line: Err(why.to_owned()),
            ..Entry::new(origin, b"")
        }
    }
}

fn name(origin: &[u8]) -> Option<&str> {
    let fits = (1..=LONGEST_ORIGIN).contains(&origin.len())
        && origin.iter().all(u8::is_ascii_graphic)
        && !origin.contains(&b'#');
    std::str::from_utf8(origin).ok().filter(|_| fits)
}

/// One line, and nothing that a terminal or the saved file would take for more.
fn text(line: &[u8]) -> Result<String, String> {
    if line.len() > LONGEST_LINE {
        return Err(format!("it is longer than {LONGEST_LINE} bytes"));
    }
    let text = std::str::from_utf8(line).map_err(|_| "it is not text".to_owned())?;
    let text = text.trim_ascii();
    match text.chars().any(|it| it.is_control() || it == '#') {
        true => Err("it is not one line as of a peers file, without a comment".to_owned()),
        false if text.is_empty() => Err("it says nothing".to_owned()),
        false => Ok(text.to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_one_plain_line_is_taken() {
        let line = |bytes: &[u8]| Entry::new(b"a", bytes).line;
        assert_eq!(
            line(b" 10.0.0.1 keys=x\n").as_deref(),
            Ok("10.0.0.1 keys=x")
        );
        for bad in [
            &b""[..],
            b" \n",
            b"10.0.0.1\n10.0.0.2",
            b"10.0.0.1 # web",
            b"10.0.0.1\x1b[2J",
            b"\xff",
            &[b'x'; LONGEST_LINE + 1],
        ] {
            assert!(line(bad).is_err(), "{bad:?}");
        }
        assert!(line(&[b'x'; LONGEST_LINE]).is_ok());
    }

    #[test]
    fn names_that_are_none() {
        for bad in [&b""[..], b"a b", b"a\nb", b"a#b", b"\xff", &[b'x'; 254]] {
            let entry = Entry::new(bad, b"10.0.0.1 keys=x");
            assert!(entry.line.is_err() && entry.origin.len() < 300, "{entry:?}");
        }
    }
}
