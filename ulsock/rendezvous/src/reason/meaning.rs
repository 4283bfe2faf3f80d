//! What each reason means, in a line, for who meets it in a tool. The manual's table says more, and what can be done.

use super::Reason;

const MEANINGS: [(Reason, &str); 37] = [
    (Reason::None, ""),
    (
        Reason::Young,
        "too few calls so far, or connections of its kind are usually too short",
    ),
    (
        Reason::NoPeer,
        "the other end is not known: it does not run ulsock, is elsewhere, or has not answered yet",
    ),
    (
        Reason::Identity,
        "who answered could not prove to be the user who owns the other end",
    ),
    (
        Reason::Shared,
        "several processes hold the socket, or an epoll set with it",
    ),
    (
        Reason::Scope,
        "the peer's address is outside ULSOCK_CLUSTER",
    ),
    (
        Reason::Excluded,
        "ULSOCK_EXCLUDE names its port or the peer's address",
    ),
    (
        Reason::RunDir,
        "the process could not create its files in the run directory",
    ),
    (
        Reason::TableFull,
        "the user's table of offers has no free entry, or its share of nicd is used up",
    ),
    (
        Reason::Memory,
        "shared memory could not be had, or a limit of it was reached",
    ),
    (
        Reason::Waiters,
        "its epoll set cannot be followed, or a limit of waiters was reached",
    ),
    (Reason::Urgent, "urgent data (MSG_OOB) was sent"),
    (
        Reason::Stdio,
        "the socket is standard input, output or error",
    ),
    (
        Reason::Exec,
        "another program was started that may have inherited the socket",
    ),
    (
        Reason::Fork,
        "a forked child used its parent's epoll set with the connection",
    ),
    (
        Reason::Passed,
        "the socket was passed to another process, and more than one may hold it",
    ),
    (
        Reason::Sandbox,
        "the process has a filter of system calls or too few descriptors: ulsock is off in it",
    ),
    (
        Reason::Call,
        "a call was made that only the kernel can serve, or the socket is of such a kind",
    ),
    (
        Reason::PeerGone,
        "the other end was closing, or its process had ended",
    ),
    (
        Reason::Protocol,
        "the other end wrote what cannot be, or was killed in the middle of a call",
    ),
    (
        Reason::IoUring,
        "an io_uring works on it, or the process has one that cannot be followed",
    ),
    (
        Reason::Plugin,
        "the process loaded a library whose calls bypass ulsock",
    ),
    (
        Reason::Slower,
        "it was measured to be faster on kernel TCP; rings are tried again later",
    ),
    (
        Reason::NoNicd,
        "to another host, of which this host's nicd does not know",
    ),
    (
        Reason::NoRoute,
        "to another host, by a route that the link cannot use",
    ),
    (
        Reason::NoAgreement,
        "to another host, whose end has not agreed to leave kernel TCP",
    ),
    (
        Reason::FailedOver,
        "it was on the link to another host, which failed",
    ),
    (
        Reason::FewCpus,
        "to another host, and this one has fewer than four CPUs: none is free for nicd",
    ),
    (Reason::OtherHost, "to another host, and ULSOCK_NIC=off"),
    (
        Reason::Bulk,
        "to another host, with large messages only, which kernel TCP carries as fast",
    ),
    (
        Reason::NoProposal,
        "to another host, whose end connected and has not proposed to leave kernel TCP",
    ),
    (
        Reason::Unanswered,
        "the other end has not read this end's answer yet",
    ),
    (Reason::Handler, "all its calls are made in signal handlers"),
    (Reason::Trial, "for some milliseconds, to compare"),
    (
        Reason::Rule,
        "a rule of the configuration file keeps it there",
    ),
    (
        Reason::Ordered,
        "somebody has ordered it there: ulsock ctl promote, or on, takes that back",
    ),
    (
        Reason::Uncounted,
        "a Unix socket by which bytes have gone past ulsock",
    ),
];

impl Reason {
    pub fn meaning(self) -> &'static str {
        let found = MEANINGS.iter().find(|(reason, _)| *reason == self);
        found.map_or("", |(_, meaning)| meaning)
    }

    /// What the reason of this name means.
    pub fn meaning_of(name: &str) -> &'static str {
        let found = Reason::ALL.iter().find(|it| it.name() == name);
        found.map_or("", |it| it.meaning())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The manual explains the same ones, and each has its line here.
    #[test]
    fn every_reason_of_the_manual_has_a_meaning() {
        let manual = include_str!("../../../../docs/manual.md");
        let (_, chapter) = manual
            .split_once("\n## Why is my connection on kernel TCP?\n")
            .unwrap();
        let (chapter, _) = chapter.split_once("\n## ").unwrap();
        let table = chapter.split("\n\n").find(|it| it.starts_with("| reason "));
        let lines = table.unwrap().lines();
        let mut told: Vec<_> = lines
            .filter_map(|line| line.strip_prefix("| `")?.split('`').next())
            .collect();
        let mut ours: Vec<_> = Reason::ALL[1..].iter().map(|it| it.name()).collect();
        told.sort_unstable();
        ours.sort_unstable();
        assert_eq!(told, ours);
        for name in ours {
            let meaning = Reason::meaning_of(name);
            assert!((10..100).contains(&meaning.len()), "{name}: {meaning}");
        }
        assert_eq!(Reason::meaning_of("none such"), "");
    }
}
