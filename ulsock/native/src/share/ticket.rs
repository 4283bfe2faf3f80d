//! Tickets: where descriptors are to be had, and the secret that proves the right to them.

use std::fmt;

use rendezvous::codec::{Reader, Writer};
use rendezvous::mailbox::MailboxName;
use rustix::io::{self, Errno};
use rustix::rand::{GetRandomFlags, getrandom};

/// Bytes of a ticket in a message.
pub const LEN: usize = 28;

/// Nobody guesses it.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Secret(pub [u8; 16]);

impl Secret {
    pub fn new() -> io::Result<Secret> {
        let mut bytes = [0; 16];
        match getrandom(&mut bytes, GetRandomFlags::empty())? == bytes.len() {
            true => Ok(Secret(bytes)),
            false => Err(Errno::AGAIN),
        }
    }
}

#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Ticket {
    pub(super) mailbox: MailboxName,
    pub(super) secret: Secret,
}

impl Ticket {
    pub fn to_bytes(self) -> [u8; LEN] {
        let written = Writer::<LEN>::default()
            .u32(self.mailbox.pid)
            .u64(self.mailbox.random)
            .put(&self.secret.0);
        let mut bytes = [0; LEN];
        bytes.copy_from_slice(written.as_bytes());
        bytes
    }

    pub fn from_bytes(bytes: [u8; LEN]) -> Option<Ticket> {
        let mut rest = Reader(&bytes);
        let mailbox = MailboxName {
            pid: rest.u32()?,
            random: rest.u64()?,
        };
        let secret = Secret(rest.take()?);
        rest.ends(Ticket { mailbox, secret })
    }
}

/// Without the secret: this may be printed.
impl fmt::Debug for Ticket {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Ticket").field(&self.mailbox).finish()
    }
}
