//! A copy as a line of text.

use std::time::{Duration, UNIX_EPOCH};

use os::plain::plain;
use sockets::capture::Copied;

use crate::utc;

/// So many of its bytes are shown.
const SHOWN: usize = 48;

pub fn text(copied: &Copied, program: &str) -> String {
    let time = utc::text(UNIX_EPOCH + Duration::from_nanos(copied.time));
    let Copied {
        pid,
        local,
        peer,
        offset,
        ref bytes,
        ..
    } = *copied;
    let shown = &bytes[..bytes.len().min(SHOWN)];
    let more = if shown.len() < bytes.len() { "..." } else { "" };
    let (len, shown) = (bytes.len(), plain(shown));
    format!("{time} {program}[{pid}] {local} > {peer} byte {offset} length {len}: {shown}{more}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_reaches_a_terminal_but_text() {
        let copied = Copied {
            time: 1_500_000_000_000_000_000,
            pid: 7,
            record: 0,
            generation: 0,
            by_link: false,
            local: "127.0.0.1:1".parse().unwrap(),
            peer: "[::1]:2".parse().unwrap(),
            offset: 9,
            read: 0,
            bytes: b"\x1b[2Jok".to_vec(),
        };
        let line =
            "2017-07-14T02:40:00.000000Z it[7] 127.0.0.1:1 > [::1]:2 byte 9 length 6: \\u{1b}[2Jok";
        assert_eq!(text(&copied, "it"), line);
        let long = Copied {
            bytes: vec![b'a'; 50],
            ..copied
        };
        assert!(text(&long, "it").ends_with(&format!("length 50: {}...", "a".repeat(SHOWN))));
    }
}
