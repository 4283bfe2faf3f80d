//! Names of DNS, as text and in messages (RFC 1035, section 3.1).

const LONGEST_LABEL: usize = 63;
/// In a message.
const LONGEST_NAME: usize = 255;
/// Of a name that is written in pieces (RFC 1035, section 4.1.4).
const MOST_JUMPS: usize = 16;

/// As in a question. Only what a host can be called, and names of services.
pub fn encode(name: &str) -> Result<Vec<u8>, String> {
    let mut bytes = Vec::new();
    for label in name.trim_end_matches('.').split('.') {
        let is_label = (1..=LONGEST_LABEL).contains(&label.len()) && label.bytes().all(is_usual);
        if !is_label {
            return Err(format!("{name}: is no name of DNS"));
        }
        bytes.push(label.len() as u8);
        bytes.extend(label.bytes());
    }
    bytes.push(0);
    match bytes.len() <= LONGEST_NAME {
        true => Ok(bytes),
        false => Err(format!("{name}: is too long")),
    }
}

fn is_usual(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || byte == b'-' || byte == b'_'
}

/// The name at `at`, in small letters, without a dot at its end; and where it ends. `None`: it makes no sense, or has
/// characters that no host has.
pub fn decode(message: &[u8], at: usize) -> Option<(String, usize)> {
    let (mut name, mut at, mut end) = (String::new(), at, None);
    let mut jumps = 0;
    loop {
        let length = usize::from(*message.get(at)?);
        match length {
            0 => {
                return Some((name, end.unwrap_or(at + 1)));
            }
            1..=LONGEST_LABEL => {
                let label = message.get(at + 1..at + 1 + length)?;
                if !label.iter().all(|byte| is_usual(*byte)) {
                    return None;
                }
                if !name.is_empty() {
                    name.push('.');
                }
                name.extend(label.iter().map(|it| char::from(it.to_ascii_lowercase())));
                at += 1 + length;
            }
            0xc0.. => {
                let low = usize::from(*message.get(at + 1)?);
                end.get_or_insert(at + 2);
                at = (length & 0x3f) << 8 | low;
                jumps += 1;
            }
            _ => return None,
        }
        if jumps > MOST_JUMPS || name.len() > LONGEST_NAME {
            return None;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_come_back() {
        for name in ["a", "_ulsock._udp.example.org", "host-1.example.org"] {
            let bytes = encode(name).unwrap();
            assert_eq!(decode(&bytes, 0), Some((name.to_owned(), bytes.len())));
        }
        assert_eq!(encode("Example.org."), encode("Example.org"));
        let long = "a".repeat(64);
        let many = "abc.".repeat(70);
        for bad in ["", ".", "a..b", "a b", "a\0b", &long, &many] {
            assert!(encode(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn names_in_pieces() {
        let mut message = encode("example.org").unwrap();
        let at = message.len();
        message.extend([2, b'D', b'b', 0xc0, 0, 99]);
        assert_eq!(
            decode(&message, at),
            Some(("db.example.org".to_owned(), at + 5))
        );
    }

    #[test]
    fn names_without_an_end() {
        assert_eq!(decode(&[0xc0, 0], 0), None, "itself");
        assert_eq!(decode(&[1, b'a', 0xc0, 0], 0), None, "around and around");
        assert_eq!(decode(&[5, b'a'], 0), None, "cut");
        assert_eq!(decode(&[0x80, 0], 0), None, "a length that none has");
        assert_eq!(decode(&[1, 7, 0], 0), None, "a bell");
    }
}
