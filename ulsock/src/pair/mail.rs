//! What comes over the channel of a pair: from whom it may come, and where it goes.

use std::collections::VecDeque;
use std::os::fd::AsFd;

use super::{Claim, Other, Pair};
use crate::doorbell::Ringer;
use crate::mailbox::MailboxName;
use crate::message::{Introduction, Message, Queue, Route, VERSION};
use crate::segment::Segment;
use crate::sys::fds::InternalFd;
use crate::waiter::PAGE;

/// Letters that wait to be read: nobody may fill our fd table.
const MOST_MAIL: usize = 256;
/// The same from other programs, who have little to say.
const MOST_OF_PEER: usize = 2;

/// What comes beside claims: between a library and the daemon of its host, and from a peer in another
/// network namespace.
#[derive(Debug)]
pub enum Mail {
    /// To the daemon: see [`Message::Show`].
    Shown {
        cookie: u64,
        connected: bool,
        socket: InternalFd,
    },
    /// To the daemon: see [`Message::Leave`].
    Left {
        segment: u32,
        conn: u32,
        socket: InternalFd,
    },
    /// To the daemon: see [`Message::Ask`].
    Asked,
    /// To the daemon: see [`Message::Entrust`].
    Entrusted {
        segment: u32,
        conn: u32,
        socket: InternalFd,
    },
    /// From the daemon: see [`Message::Queue`].
    Queue { queue: Queue, socket: InternalFd },
    /// From the daemon: see [`Message::Route`].
    Route(Route),
    /// From the daemon: see [`Message::Refuse`].
    Refused { cookie: u64, reason: u16 },
    /// To the daemon of the host: see [`Message::Seek`].
    Sought {
        cookie: u64,
        connected: bool,
        socket: InternalFd,
    },
    /// From that daemon: see [`Message::Introduce`].
    Introduced {
        it: Introduction,
        channel: InternalFd,
    },
    /// From that daemon: see [`Message::Found`].
    Found {
        cookie: u64,
        other: u64,
        number: u32,
    },
    /// From a peer: see [`Message::Window`].
    Window {
        offer_cookie: u64,
        mailbox: MailboxName,
        returned: bool,
        window: InternalFd,
    },
}

impl Other {
    /// Programs leave the making of rings to the daemon; and that of a host has none to give.
    fn may_make_rings(self) -> bool {
        matches!(self, Other::Peer | Other::Daemon | Other::Introduced)
    }
}

impl Pair {
    pub(super) fn accept(
        &self,
        message: Message,
        fd: Option<InternalFd>,
        claims: &mut VecDeque<Claim>,
    ) -> bool {
        let about_rings = matches!(message, Message::Segment { .. } | Message::Claim { .. });
        if about_rings && !self.other.may_make_rings() {
            return false;
        }
        // Whoever has a use for a bell has shown before why we should ring it.
        if self.is_stranger() && matches!(message, Message::Doorbell { .. }) {
            return false;
        }
        match message {
            Message::Hello { version, .. } => {
                let page = fd.and_then(|fd| Segment::adopt_readonly(fd.as_fd(), PAGE).ok());
                version == VERSION && page.is_some_and(|page| self.page.set(page).is_ok())
            }
            Message::Doorbell { waiter, kind } => {
                let ringer = fd.and_then(|fd| Ringer::adopt(kind, fd, self.same_uid).ok());
                ringer.is_some_and(|ringer| self.keep_ringer(waiter, ringer))
            }
            Message::Segment { segment, conns } => fd.is_some_and(|fd| {
                let segments = self.segments.lock();
                let known = !self.is_stranger();
                segments.is_ok_and(|mut segments| segments.keep(segment, conns, fd, known))
            }),
            Message::Claim {
                offer_cookie,
                claim_cookie,
                segment,
                conn,
            } => {
                claims.push_back(Claim {
                    offer_cookie,
                    claim_cookie,
                    segment,
                    conn,
                });
                true
            }
            Message::Show { cookie, connected } => fd.is_some_and(|socket| {
                self.keep_mail(
                    Other::Program,
                    Mail::Shown {
                        cookie,
                        connected,
                        socket,
                    },
                )
            }),
            Message::Leave { segment, conn } => fd.is_some_and(|socket| {
                self.keep_mail(
                    Other::Program,
                    Mail::Left {
                        segment,
                        conn,
                        socket,
                    },
                )
            }),
            Message::Ask => self.keep_mail(Other::Program, Mail::Asked),
            Message::Entrust { segment, conn } => fd.is_some_and(|socket| {
                self.keep_mail(
                    Other::Program,
                    Mail::Entrusted {
                        segment,
                        conn,
                        socket,
                    },
                )
            }),
            Message::Queue(queue) => fd
                .is_some_and(|socket| self.keep_mail(Other::Daemon, Mail::Queue { queue, socket })),
            Message::Route(route) => self.keep_mail(Other::Daemon, Mail::Route(route)),
            Message::Refuse { cookie, reason } => {
                let from = match self.other {
                    Other::HostDaemon => Other::HostDaemon,
                    _ => Other::Daemon,
                };
                self.keep_mail(from, Mail::Refused { cookie, reason })
            }
            Message::Seek { cookie, connected } => fd.is_some_and(|socket| {
                self.keep_mail(
                    Other::Guest,
                    Mail::Sought {
                        cookie,
                        connected,
                        socket,
                    },
                )
            }),
            Message::Introduce(it) => fd.is_some_and(|channel| {
                self.keep_mail(Other::HostDaemon, Mail::Introduced { it, channel })
            }),
            Message::Found {
                cookie,
                other,
                number,
            } => self.keep_mail(
                Other::HostDaemon,
                Mail::Found {
                    cookie,
                    other,
                    number,
                },
            ),
            Message::Window {
                offer_cookie,
                mailbox,
                returned,
            } => fd.is_some_and(|window| {
                self.keep_mail(
                    Other::Peer,
                    Mail::Window {
                        offer_cookie,
                        mailbox,
                        returned,
                        window,
                    },
                )
            }),
        }
    }

    /// What comes beyond waits in the channel until some has been read.
    pub(super) fn has_full_mail(&self) -> bool {
        let most = match self.other {
            Other::Peer => MOST_OF_PEER,
            _ => MOST_MAIL,
        };
        self.mail.lock().is_ok_and(|mail| mail.len() >= most)
    }

    /// `false` if it is not for the other end to write such a thing.
    fn keep_mail(&self, from: Other, mail: Mail) -> bool {
        let Ok(mut kept) = self.mail.lock() else {
            return false;
        };
        kept.push_back(mail);
        self.other == from
    }

    pub fn next_mail(&self) -> Option<Mail> {
        self.mail.lock().ok()?.pop_front()
    }
}
