//! The peers of a nicd in DNS: the SRV record `_ulsock._udp.DOMAIN` leads to each host, a TXT record there has its key. Read
//! again when the shortest of their times to live is over.
//!
//! DNS by itself proves nothing. So only what a resolver of this host says that it has validated (DNSSEC, the bit AD) is
//! believed, unless the administrator wants it otherwise.

#![deny(unsafe_code)]

mod message;
mod name;
mod resolver;
mod targets;

use std::io;
use std::net::SocketAddr;
use std::thread;
use std::time::{Duration, Instant};

use nicd::source::{Backoff, Entry, News, PeerSource};

use resolver::Resolver;

/// Records are not read more often, and not less often, whatever their times to live.
const SHORTEST: Duration = Duration::from_secs(5);
const LONGEST: Duration = Duration::from_secs(3600);
/// For all records, when they are read anew: a thousand hosts take 2000 questions.
const READ: Duration = Duration::from_secs(60);

const CURE: &str = "does the resolver answer, and does it say that it has validated the answer (DNSSEC)? see --trust-dns; it \
                    is tried again";

pub struct DnsPeers {
    title: String,
    domain: String,
    resolver: Resolver,
}

impl DnsPeers {
    /// By that resolver, or by those of the system. `trust`: also what nobody has validated.
    pub fn new(domain: &str, server: Option<SocketAddr>, trust: bool) -> Result<DnsPeers, String> {
        name::encode(&targets::service(domain))?;
        Ok(DnsPeers {
            title: format!("DNS records of {}", targets::service(domain)),
            domain: domain.to_owned(),
            resolver: match server {
                Some(server) => Resolver::new(vec![server], trust),
                None => Resolver::of_system(trust)?,
            },
        })
    }
}

impl PeerSource for DnsPeers {
    fn title(&self) -> &str {
        &self.title
    }

    fn cure(&self) -> &str {
        CURE
    }

    fn read(&mut self, within: Duration) -> Result<Vec<Entry>, String> {
        let answer = targets::read(&self.resolver, &self.domain, Instant::now() + within);
        Ok(answer?.entries)
    }

    fn begin(&mut self, news: News) -> io::Result<()> {
        let (resolver, domain) = (self.resolver.clone(), self.domain.clone());
        thread::Builder::new()
            .name("peers".to_owned())
            .spawn(move || serve(&resolver, &domain, news))
            .map(drop)
    }
}

fn serve(resolver: &Resolver, domain: &str, mut news: News) {
    let mut backoff = Backoff::default();
    loop {
        let pause = match targets::read(resolver, domain, Instant::now() + READ) {
            Ok(answer) => {
                backoff.reset();
                news.all(answer.entries);
                later(answer.ttl)
            }
            Err(why) => {
                news.lost(&why);
                backoff.pause()
            }
        };
        thread::sleep(pause);
    }
}

/// Not all hosts at the same moment.
fn later(ttl: Duration) -> Duration {
    let share = os::random().unwrap_or_default() % 250;
    let ttl = ttl.clamp(SHORTEST, LONGEST);
    ttl + ttl.mul_f64(share as f64 / 1000.0)
}
