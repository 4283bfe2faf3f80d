//! Clients of real servers (redis-server, memcached, nginx) that check each answer, byte by byte.

use std::io::{self, Error, ErrorKind};
use std::os::fd::{AsRawFd, OwnedFd};
use std::sync::atomic::Ordering::Release;

use super::board::Slot;
use super::talk::send_all;
use crate::rng::Rng;
use crate::{pattern, sock};

const MOST_REQUESTS: usize = 200;
const LARGEST_VALUE: usize = 64 * 1024;
/// The file that nginx serves.
pub const PAGE: usize = 100_000;

/// Requests on one connection; the counts go to the board.
pub fn visit(kind: &str, fd: OwnedFd, id: u64, slot: &Slot, rng: &mut Rng) -> io::Result<()> {
    let (mut sent, mut received) = (0, 0);
    for _ in 0..rng.size(MOST_REQUESTS) {
        let (request, answer) = exchange(kind, id, rng);
        send_all(fd.as_raw_fd(), &request)?;
        sent += request.len() as u64;
        slot.sent.store(sent, Release);
        received += expect(kind, &fd, &answer)?;
        slot.received.store(received, Release);
    }
    Ok(())
}

/// What is asked, and what has to come back (of nginx the body only).
fn exchange(kind: &str, id: u64, rng: &mut Rng) -> (Vec<u8>, Vec<u8>) {
    let mut value = vec![0; rng.size(LARGEST_VALUE)];
    pattern::fill(0, rng.below(1 << 20) as u64, &mut value);
    let length = value.len();
    let join = |head: String, tail: String| [head.as_bytes(), &value, tail.as_bytes()].concat();
    match kind {
        "redis" => {
            let key = format!("${}\r\nk{id}\r\n", id.to_string().len() + 1);
            let set = format!("*3\r\n$3\r\nSET\r\n{key}${length}\r\n");
            let get = format!("\r\n*2\r\n$3\r\nGET\r\n{key}*2\r\n$3\r\nDEL\r\n{key}");
            let answer = join(format!("+OK\r\n${length}\r\n"), "\r\n:1\r\n".to_owned());
            (join(set, get), answer)
        }
        "memcached" => {
            let set = format!("set k{id} 0 0 {length}\r\n");
            let get = format!("\r\nget k{id}\r\n");
            let head = format!("STORED\r\nVALUE k{id} 0 {length}\r\n");
            (join(set, get), join(head, "\r\nEND\r\n".to_owned()))
        }
        _ => {
            let mut page = vec![0; PAGE];
            pattern::fill(0, 0, &mut page);
            (b"GET /page HTTP/1.1\r\nHost: x\r\n\r\n".to_vec(), page)
        }
    }
}

/// Receives exactly the answer.
fn expect(kind: &str, fd: &OwnedFd, answer: &[u8]) -> io::Result<u64> {
    let mut bytes = Vec::new();
    let mut wanted = answer.len();
    let mut head = if kind == "nginx" { None } else { Some(0) };
    let mut piece = vec![0; LARGEST_VALUE];
    while head.is_none() || bytes.len() < wanted {
        let most = match head {
            None => piece.len(),
            Some(_) => piece.len().min(wanted - bytes.len()),
        };
        match sock::recv(fd.as_raw_fd(), &mut piece[..most], 0) {
            Ok(0) => return Err(ErrorKind::UnexpectedEof.into()),
            Ok(count) => bytes.extend_from_slice(&piece[..count]),
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
        if head.is_none() {
            head = bytes
                .windows(4)
                .position(|four| four == b"\r\n\r\n")
                .map(|at| at + 4);
            wanted += head.unwrap_or(0);
        }
    }
    match &bytes[head.unwrap_or(0)..] == answer {
        true => Ok(bytes.len() as u64),
        false => Err(Error::other(format!("a wrong answer of {kind}"))),
    }
}
