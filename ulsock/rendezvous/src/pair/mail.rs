//! What comes over the channel of a pair: from whom it may come, and where it goes.

use std::collections::VecDeque;
use std::os::fd::AsFd;

use super::{Claim, Other, Pair};
use crate::mailbox_name::MailboxName;
use crate::message::{Introduction, Message, Queue, Route, VERSION};
use os::fds::InternalFd;
use shm::doorbell::Ringer;
use shm::segment::Segment;
use shm::waiter::PAGE;

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
    /// From the daemon: see [`Message::Socket`].
    Socket { route: Route, socket: InternalFd },
    /// From the daemon: see [`Message::Refuse`].
    Refused { cookie: u64, reason: u16 },
    /// To the daemon of the host: see [`Message::Seek`].
    Sought {
        cookie: u64,
        connected: bool,
        translated: bool,
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

impl Mail {
    /// What a message says to those who read mail, and from whom alone it may come to a pair with `other`. `None`: the
    /// descriptor is missing, or it is no mail.
    fn of(message: Message, fd: Option<InternalFd>, other: Other) -> Option<(Other, Mail)> {
        Some(match message {
            Message::Show { cookie, connected } => {
                let socket = fd?;
                let mail = Mail::Shown {
                    cookie,
                    connected,
                    socket,
                };
                (Other::Program, mail)
            }
            Message::Leave { segment, conn } => {
                let socket = fd?;
                let mail = Mail::Left {
                    segment,
                    conn,
                    socket,
                };
                (Other::Program, mail)
            }
            Message::Ask => (Other::Program, Mail::Asked),
            Message::Entrust { segment, conn } => {
                let socket = fd?;
                let mail = Mail::Entrusted {
                    segment,
                    conn,
                    socket,
                };
                (Other::Program, mail)
            }
            message => Mail::of_daemon_or_peer(message, fd, other)?,
        })
    }

    /// The rest: what daemons say, and programs to the daemon of the host, and peers to each other.
    fn of_daemon_or_peer(
        message: Message,
        fd: Option<InternalFd>,
        other: Other,
    ) -> Option<(Other, Mail)> {
        Some(match message {
            Message::Queue(queue) => (Other::Daemon, Mail::Queue { queue, socket: fd? }),
            Message::Route(route) => (Other::Daemon, Mail::Route(route)),
            Message::Socket(route) => (Other::Daemon, Mail::Socket { route, socket: fd? }),
            Message::Refuse { cookie, reason } => {
                let from = match other {
                    Other::HostDaemon => Other::HostDaemon,
                    _ => Other::Daemon,
                };
                (from, Mail::Refused { cookie, reason })
            }
            Message::Seek {
                cookie,
                connected,
                translated,
            } => {
                let socket = fd?;
                let mail = Mail::Sought {
                    cookie,
                    connected,
                    translated,
                    socket,
                };
                (Other::Guest, mail)
            }
            Message::Introduce(it) => (Other::HostDaemon, Mail::Introduced { it, channel: fd? }),
            Message::Found {
                cookie,
                other,
                number,
            } => {
                let mail = Mail::Found {
                    cookie,
                    other,
                    number,
                };
                (Other::HostDaemon, mail)
            }
            Message::Window {
                offer_cookie,
                mailbox,
                returned,
            } => {
                let mail = Mail::Window {
                    offer_cookie,
                    mailbox,
                    returned,
                    window: fd?,
                };
                (Other::Peer, mail)
            }
            _ => return None,
        })
    }
}

impl Pair {
    /// `false`: the peer breaks the protocol.
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
            Message::Segment { segment, conns } => {
                fd.is_some_and(|fd| self.keep_segment(segment, conns, fd))
            }
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
            message => {
                let mail = Mail::of(message, fd, self.other);
                mail.is_some_and(|(from, mail)| from == self.other && self.keep_mail(mail))
            }
        }
    }

    fn keep_segment(&self, number: u32, conns: u32, fd: InternalFd) -> bool {
        let segments = self.segments.lock();
        let known = !self.is_stranger();
        segments.is_ok_and(|mut segments| segments.keep(number, conns, fd, known))
    }

    /// What comes beyond waits in the channel until some has been read.
    pub(super) fn has_full_mail(&self) -> bool {
        let most = match self.other {
            Other::Peer => MOST_OF_PEER,
            _ => MOST_MAIL,
        };
        self.mail.lock().is_ok_and(|mail| mail.len() >= most)
    }

    fn keep_mail(&self, mail: Mail) -> bool {
        self.mail
            .lock()
            .map(|mut kept| kept.push_back(mail))
            .is_ok()
    }

    pub fn next_mail(&self) -> Option<Mail> {
        self.mail.lock().ok()?.pop_front()
    }
}
