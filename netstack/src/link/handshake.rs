//! Finding each other: HELLO, WELCOME, CONFIRM.

use core::hash::Hasher;
use core::time::Duration;

use siphasher::sip::SipHasher24;

use super::config::Identity;
use crate::time::Instant;
use crate::wire::body::{Hello, Welcome};

/// `[H1]` When HELLO is repeated, and for how long.
const FIRST_PAUSE: Duration = Duration::from_millis(20);
const LONGEST_PAUSE: Duration = Duration::from_secs(1);
const GREETING_TIME: Duration = Duration::from_secs(5);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Shake {
    /// Nobody has anything to say.
    Down,
    /// HELLO goes at `at`.
    Greeting {
        since: Instant,
        at: Instant,
        pause: Duration,
    },
    Up {
        peer: Hello,
        /// `[H3]` A packet of the link has arrived.
        heard: bool,
    },
}

impl Shake {
    pub fn greet(now: Instant) -> Shake {
        Shake::Greeting {
            since: now,
            at: now,
            pause: FIRST_PAUSE,
        }
    }

    pub fn peer(&self) -> Option<Hello> {
        match self {
            Shake::Up { peer, .. } => Some(*peer),
            _ => None,
        }
    }

    pub fn deadline(&self) -> Option<Instant> {
        match self {
            Shake::Greeting { since, at, .. } => Some((*at).min(*since + GREETING_TIME)),
            _ => None,
        }
    }

    /// `[H1]`
    pub fn is_in_vain(&self, now: Instant) -> bool {
        matches!(self, Shake::Greeting { since, .. } if now - *since >= GREETING_TIME)
    }

    /// Whether HELLO goes now; then the next one goes later.
    pub fn says_hello(&mut self, now: Instant) -> bool {
        match self {
            Shake::Greeting { at, pause, .. } if *at <= now => {
                *at = now + *pause;
                *pause = (*pause * 2).min(LONGEST_PAUSE);
                true
            }
            _ => false,
        }
    }
}

/// `[H2]` What only a host that receives at that address can send back. It holds until the next link
/// begins: a late CONFIRM of an earlier one proves nothing.
pub fn challenge(me: &Identity, links: u64, peer: u64) -> u64 {
    let [first, second] = me.secret;
    let mut hash = SipHasher24::new_with_keys(first, second);
    hash.write_u64(me.incarnation);
    hash.write_u64(peer);
    hash.write_u64(links);
    hash.finish()
}

/// `[H2]` The answer to a HELLO.
pub fn welcome(me: &Identity, links: u64, hello: &Hello) -> Welcome {
    Welcome {
        me: Hello {
            incarnation: me.incarnation,
            tag: me.tag,
        },
        you: hello.incarnation,
        challenge: challenge(me, links, hello.incarnation),
    }
}
