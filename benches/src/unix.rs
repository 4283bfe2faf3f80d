//! How the programs are told a Unix address: `unix:PATH`, or `unix:@NAME` for an abstract name, as `ss` writes it.
//! A path that begins with `@` is told as `./@...`.

use std::io;
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr, UnixListener, UnixStream};

const SCHEME: &str = "unix:";

/// What follows `unix:`, if the address is one of a Unix socket.
pub fn name_of(address: &str) -> Option<&str> {
    address.strip_prefix(SCHEME)
}

pub fn listen(name: &str) -> io::Result<UnixListener> {
    UnixListener::bind_addr(&parse(name)?)
}

pub fn connect(name: &str) -> io::Result<UnixStream> {
    UnixStream::connect_addr(&parse(name)?)
}

fn parse(name: &str) -> io::Result<SocketAddr> {
    match name.strip_prefix('@') {
        Some(name) => SocketAddr::from_abstract_name(name),
        None => SocketAddr::from_pathname(name),
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;

    #[test]
    fn paths_and_abstract_names() {
        let name = |address| parse(name_of(address).expect("of a Unix socket")).expect("fits");
        let path = name("unix:/run/a@b");
        assert_eq!(path.as_pathname(), Some(Path::new("/run/a@b")));
        let path = name("unix:./@a");
        assert_eq!(path.as_pathname(), Some(Path::new("./@a")));
        assert_eq!(name("unix:@a/b").as_abstract_name(), Some(&b"a/b"[..]));
        assert!(name_of("127.0.0.1:7000").is_none());
    }

    #[test]
    fn names_that_are_too_long() {
        let long = "x".repeat(108);
        assert!(parse(&long).is_err() && parse(&format!("@{long}")).is_err());
    }

    #[test]
    fn an_abstract_name_is_listened_at() {
        let name = format!("@ulsock-benches-{}", std::process::id());
        assert!(connect(&name).is_err());
        let _listener = listen(&name).expect("a free name");
        assert!(connect(&name).is_ok());
    }
}
