//! As much of HTTP as a scraper needs. Whoever connects gets little time and memory.

use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

/// For a whole request, and its answer.
const TIME: Duration = Duration::from_secs(5);
const LARGEST_REQUEST: usize = 8 << 10;
/// At the same time; more are turned away.
const CALLERS: usize = 8;
const PAUSE: Duration = Duration::from_millis(100);

pub struct Listener {
    listener: TcpListener,
    pub address: SocketAddr,
}

impl Listener {
    pub fn bind(address: SocketAddr) -> io::Result<Listener> {
        let listener = TcpListener::bind(address)?;
        let address = listener.local_addr()?;
        Ok(Listener { listener, address })
    }

    /// For ever.
    pub fn serve(self, page: &(impl Fn() -> String + Clone + Send + 'static)) {
        let callers = Arc::new(AtomicUsize::new(0));
        loop {
            let Ok((caller, _)) = self.listener.accept() else {
                // No descriptor is free, for example.
                std::thread::sleep(PAUSE);
                continue;
            };
            if callers.fetch_add(1, Ordering::Relaxed) >= CALLERS {
                callers.fetch_sub(1, Ordering::Relaxed);
                continue;
            }
            let (page, here) = (page.clone(), Here(Arc::clone(&callers)));
            // A thread that cannot be started drops what it was to have, and its caller is turned away.
            let _ = std::thread::Builder::new().spawn(move || {
                let _here = here;
                // A caller that goes away is none of our business.
                let _ = answer(caller, &page);
            });
        }
    }
}

/// One that is counted.
struct Here(Arc<AtomicUsize>);

impl Drop for Here {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

fn answer(mut caller: TcpStream, page: &impl Fn() -> String) -> io::Result<()> {
    let end = Instant::now() + TIME;
    let request = request(&mut caller, end)?;
    let line = request.lines().next().unwrap_or_default();
    let mut words = line.split(' ');
    let (method, target) = (words.next(), words.next().unwrap_or_default());
    let path = target.split('?').next();
    let (status, body) = match (method, path) {
        (Some("GET" | "HEAD"), Some("/metrics")) => ("200 OK", page()),
        (Some("GET" | "HEAD"), Some("/")) => ("200 OK", "see /metrics\n".to_owned()),
        (Some("GET" | "HEAD"), _) => ("404 Not Found", "see /metrics\n".to_owned()),
        _ => ("405 Method Not Allowed", "only GET\n".to_owned()),
    };
    let kind = match path {
        Some("/metrics") => "text/plain; version=0.0.4; charset=utf-8",
        _ => "text/plain; charset=utf-8",
    };
    let length = body.len();
    let body = if method == Some("HEAD") { "" } else { &body };
    let answer = format!(
        "HTTP/1.1 {status}\r\nContent-Type: {kind}\r\nContent-Length: {length}\r\nConnection: close\r\n\r\n{body}"
    );
    send(&mut caller, answer.as_bytes(), end)
}

/// What is left until then; nothing is an error.
fn left(end: Instant) -> io::Result<Duration> {
    let left = end.saturating_duration_since(Instant::now());
    match left.is_zero() {
        true => Err(io::ErrorKind::TimedOut.into()),
        false => Ok(left),
    }
}

fn send(caller: &mut TcpStream, mut bytes: &[u8], end: Instant) -> io::Result<()> {
    while !bytes.is_empty() {
        caller.set_write_timeout(Some(left(end)?))?;
        match caller.write(bytes)? {
            0 => return Err(io::ErrorKind::WriteZero.into()),
            n => bytes = &bytes[n..],
        }
    }
    Ok(())
}

/// All of it, up to the empty line.
fn request(caller: &mut TcpStream, end: Instant) -> io::Result<String> {
    let mut request = Vec::new();
    while !request.windows(4).any(|four| four == b"\r\n\r\n") {
        if request.len() >= LARGEST_REQUEST {
            return Err(io::ErrorKind::InvalidData.into());
        }
        caller.set_read_timeout(Some(left(end)?))?;
        let mut buffer = [0; 1024];
        match caller.read(&mut buffer)? {
            0 => return Err(io::ErrorKind::UnexpectedEof.into()),
            n => request.extend_from_slice(&buffer[..n]),
        }
    }
    Ok(String::from_utf8_lossy(&request).into_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ask(address: SocketAddr, request: &str) -> String {
        let mut caller = TcpStream::connect(address).unwrap();
        caller.write_all(request.as_bytes()).unwrap();
        // A refused caller may be reset.
        let _ = caller.shutdown(std::net::Shutdown::Write);
        let mut answer = String::new();
        let _ = caller.read_to_string(&mut answer);
        answer
    }

    #[test]
    fn only_what_is_asked_for_well() {
        let listener = Listener::bind("127.0.0.1:0".parse().unwrap()).unwrap();
        let address = listener.address;
        std::thread::spawn(move || listener.serve(&|| "a 1\n".to_owned()));
        let whole = ask(address, "GET /metrics?x=1 HTTP/1.1\r\nHost: a\r\n\r\n");
        assert!(whole.starts_with("HTTP/1.1 200 OK\r\n"), "{whole}");
        assert!(whole.ends_with("\r\n\r\na 1\n"), "{whole}");
        let cases = [
            ("GET /other HTTP/1.1\r\n\r\n", "HTTP/1.1 404"),
            ("POST /metrics HTTP/1.1\r\n\r\n", "HTTP/1.1 405"),
            ("GET /metrics HTTP/1.1\r\n", ""),
            ("\r\n\r\n", "HTTP/1.1 405"),
        ];
        for (request, expected) in cases {
            let answer = ask(address, request);
            assert!(answer.starts_with(expected), "{request:?}: {answer}");
        }
        let long = format!("GET /metrics HTTP/1.1\r\nA: {}\r\n\r\n", "x".repeat(9000));
        assert_eq!(ask(address, &long), "");
    }
}
