//! Channels over loopback: two honest nicds, and all that a dishonest one may try.

mod channel;
mod handshake;

use std::io::{Read, Write};
use std::net::TcpListener;

use super::*;

/// Two hosts, 127.0.0.1 and 127.0.0.2, and the listener of the second.
struct Cluster {
    identities: [Identity; 2],
    peers: Peers,
    listener: TcpListener,
    now: Instant,
}

impl Cluster {
    fn new() -> Cluster {
        let identities = [(); 2].map(|()| Identity::generate().unwrap());
        Cluster::with_keys(identities, |key, _| key.to_string())
    }

    /// `keys` gives what stands in a host's line, from its own key and its index.
    fn with_keys(identities: [Identity; 2], keys: impl Fn(PublicKey, usize) -> String) -> Cluster {
        let listener = TcpListener::bind("127.0.0.2:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        let lines: Vec<String> = identities
            .iter()
            .enumerate()
            .map(|(i, identity)| {
                format!(
                    "127.0.0.{}:{port} keys={}\n",
                    i + 1,
                    keys(identity.public(), i)
                )
            })
            .collect();
        Cluster {
            identities,
            peers: Peers::parse(&lines.concat()).unwrap(),
            listener,
            now: Instant::now(),
        }
    }

    fn own(&self) -> &Peer {
        self.peers.get(0).unwrap()
    }

    fn other(&self) -> &Peer {
        self.peers.get(1).unwrap()
    }

    fn call(&self) -> Secure {
        let stream = dial(self.own(), self.other()).unwrap();
        Secure::connect(stream, &self.identities[0], self.other(), self.now).unwrap()
    }

    fn take(&self) -> Result<Secure, Closed> {
        let (stream, _) = self.listener.accept().unwrap();
        Secure::accept(stream, &self.identities[1], &self.peers, self.now)
    }

    /// A stranger's bare stream from the first host, and the second host's end of it.
    fn bare(&self) -> (TcpStream, Secure) {
        let stream = dial(self.own(), self.other()).unwrap();
        stream.set_nonblocking(false).unwrap();
        (stream, self.take().unwrap())
    }

    fn pair(&self) -> (Secure, Secure) {
        let mut caller = self.call();
        let mut called = self.take().unwrap();
        turns(self.now, &mut caller, &mut called, |a, b| {
            a.peer().is_some() && b.peer().is_some()
        })
        .unwrap();
        (caller, called)
    }
}

/// Both take turns until all is done; the first error of either.
fn turns(
    now: Instant,
    a: &mut Secure,
    b: &mut Secure,
    done: impl Fn(&mut Secure, &mut Secure) -> bool,
) -> Result<(), Closed> {
    let started = Instant::now();
    while !done(a, b) {
        a.progress(now)?;
        b.progress(now)?;
        assert!(started.elapsed() < Duration::from_secs(20), "no progress");
    }
    Ok(())
}

/// Its end, which must come without time having passed.
fn end(secure: &mut Secure, now: Instant) -> Closed {
    let started = Instant::now();
    loop {
        if let Err(why) = secure.progress(now) {
            assert!(secure.peer().is_none() && secure.key().is_none());
            assert_eq!(secure.send(b"x"), Err(NotSent::Closed));
            return why;
        }
        assert!(started.elapsed() < Duration::from_secs(20), "still open");
    }
}

fn frame(bytes: &[u8]) -> Vec<u8> {
    [&(bytes.len() as u16).to_be_bytes(), bytes].concat()
}

fn pass_on(from: &mut TcpStream, to: &mut TcpStream) -> Vec<u8> {
    let mut bytes = [0; 4096];
    let count = from.read(&mut bytes).unwrap_or(0);
    to.write_all(&bytes[..count]).unwrap();
    bytes[..count].to_vec()
}
