//! Why a connection is on the kernel: shown by `ulsock top` and counted in the report.

/// Kept in the socket record as a number; new ones go at the end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub enum Reason {
    /// It is not on the kernel.
    None = 0,
    Young,
    NoPeer,
    Identity,
    Shared,
    Scope,
    Excluded,
    RunDir,
    TableFull,
    Memory,
    Waiters,
    Urgent,
    Stdio,
    Exec,
    Fork,
    Passed,
    Sandbox,
    Call,
    PeerGone,
    Protocol,
    IoUring,
    Plugin,
    Slower,
    NoNicd,
    NoRoute,
    NoAgreement,
    FailedOver,
    FewCpus,
    OtherHost,
    Bulk,
    NoProposal,
    Unanswered,
    Handler,
    Trial,
    Rule,
    Ordered,
    Uncounted,
}

/// Places for counts by reason, with some to spare.
pub const PLACES: usize = 64;

impl Reason {
    pub const ALL: [Reason; 37] = [
        Reason::None,
        Reason::Young,
        Reason::NoPeer,
        Reason::Identity,
        Reason::Shared,
        Reason::Scope,
        Reason::Excluded,
        Reason::RunDir,
        Reason::TableFull,
        Reason::Memory,
        Reason::Waiters,
        Reason::Urgent,
        Reason::Stdio,
        Reason::Exec,
        Reason::Fork,
        Reason::Passed,
        Reason::Sandbox,
        Reason::Call,
        Reason::PeerGone,
        Reason::Protocol,
        Reason::IoUring,
        Reason::Plugin,
        Reason::Slower,
        Reason::NoNicd,
        Reason::NoRoute,
        Reason::NoAgreement,
        Reason::FailedOver,
        Reason::FewCpus,
        Reason::OtherHost,
        Reason::Bulk,
        Reason::NoProposal,
        Reason::Unanswered,
        Reason::Handler,
        Reason::Trial,
        Reason::Rule,
        Reason::Ordered,
        Reason::Uncounted,
    ];

    pub fn name(self) -> &'static str {
        match self {
            Reason::None => "",
            Reason::Young => "young",
            Reason::NoPeer => "no-peer",
            Reason::Identity => "identity",
            Reason::Shared => "shared",
            Reason::Scope => "scope",
            Reason::Excluded => "excluded",
            Reason::RunDir => "run-dir",
            Reason::TableFull => "table-full",
            Reason::Memory => "memory",
            Reason::Waiters => "waiters",
            Reason::Urgent => "urgent",
            Reason::Stdio => "stdio",
            Reason::Exec => "exec",
            Reason::Fork => "fork",
            Reason::Passed => "passed",
            Reason::Sandbox => "sandbox",
            Reason::Call => "call",
            Reason::PeerGone => "peer-gone",
            Reason::Protocol => "protocol",
            Reason::IoUring => "io-uring",
            Reason::Plugin => "plugin",
            Reason::Slower => "slower",
            Reason::NoNicd => "no-nicd",
            Reason::NoRoute => "no-route",
            Reason::NoAgreement => "no-agreement",
            Reason::FailedOver => "failed-over",
            Reason::FewCpus => "few-cpus",
            Reason::OtherHost => "other-host",
            Reason::Bulk => "bulk",
            Reason::NoProposal => "no-proposal",
            Reason::Unanswered => "unanswered",
            Reason::Handler => "handler",
            Reason::Trial => "trial",
            Reason::Rule => "rule",
            Reason::Ordered => "ordered",
            Reason::Uncounted => "uncounted",
        }
    }

    /// What it means, in a line. The manual's table says more, and what can be done.
    pub fn meaning(self) -> &'static str {
        match self {
            Reason::None => "",
            Reason::Young => {
                "too few calls so far, or connections of its kind are usually too short"
            }
            Reason::NoPeer => {
                "the other end is not known: it does not run ulsock, is elsewhere, or has not answered yet"
            }
            Reason::Identity => {
                "who answered could not prove to be the user who owns the other end"
            }
            Reason::Shared => "several processes hold the socket, or an epoll set with it",
            Reason::Scope => "the peer's address is outside ULSOCK_CLUSTER",
            Reason::Excluded => "ULSOCK_EXCLUDE names its port or the peer's address",
            Reason::RunDir => "the process could not create its files in the run directory",
            Reason::TableFull => {
                "the user's table of offers has no free entry, or its share of nicd is used up"
            }
            Reason::Memory => "shared memory could not be had, or a limit of it was reached",
            Reason::Waiters => {
                "its epoll set cannot be followed, or a limit of waiters was reached"
            }
            Reason::Urgent => "urgent data (MSG_OOB) was sent",
            Reason::Stdio => "the socket is standard input, output or error",
            Reason::Exec => "another program was started that may have inherited the socket",
            Reason::Fork => "a forked child used its parent's epoll set with the connection",
            Reason::Passed => {
                "the socket was passed to another process, and more than one may hold it"
            }
            Reason::Sandbox => {
                "the process has a filter of system calls or too few descriptors: ulsock is off in it"
            }
            Reason::Call => {
                "a call was made that only the kernel can serve, or the socket is of such a kind"
            }
            Reason::PeerGone => "the other end was closing, or its process had ended",
            Reason::Protocol => {
                "the other end wrote what cannot be, or was killed in the middle of a call"
            }
            Reason::IoUring => {
                "an io_uring works on it, or the process has one that cannot be followed"
            }
            Reason::Plugin => "the process loaded a library whose calls bypass ulsock",
            Reason::Slower => {
                "it was measured to be faster on kernel TCP; rings are tried again later"
            }
            Reason::NoNicd => "to another host, of which this host's nicd does not know",
            Reason::NoRoute => "to another host, by a route that the link cannot use",
            Reason::NoAgreement => "to another host, whose end has not agreed to leave kernel TCP",
            Reason::FailedOver => "it was on the link to another host, which failed",
            Reason::FewCpus => {
                "to another host, and this one has fewer than four CPUs: none is free for nicd"
            }
            Reason::OtherHost => "to another host, and ULSOCK_NIC=off",
            Reason::Bulk => {
                "to another host, with large messages only, which kernel TCP carries as fast"
            }
            Reason::NoProposal => {
                "to another host, whose end connected and has not proposed to leave kernel TCP"
            }
            Reason::Unanswered => "the other end has not read this end's answer yet",
            Reason::Handler => "all its calls are made in signal handlers",
            Reason::Trial => "for some milliseconds, to compare",
            Reason::Rule => "a rule of the configuration file keeps it there",
            Reason::Ordered => {
                "somebody has ordered it there: ulsock ctl promote, or on, takes that back"
            }
            Reason::Uncounted => "a Unix socket by which bytes have gone past ulsock",
        }
    }

    /// What the reason of this name means.
    pub fn meaning_of(name: &str) -> &'static str {
        let found = Reason::ALL.iter().find(|it| it.name() == name);
        found.map_or("", |it| it.meaning())
    }

    /// From a number in a record that anybody may have written.
    pub fn from_number(number: u32) -> Reason {
        Reason::ALL
            .get(number as usize)
            .copied()
            .unwrap_or(Reason::None)
    }
}

#[cfg(test)]
mod tests {
    use super::Reason;

    /// The manual explains the same ones, and each has its line here.
    #[test]
    fn every_reason_of_the_manual_has_a_meaning() {
        let manual = include_str!("../../../docs/manual.md");
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

    #[test]
    fn numbers_and_names_agree() {
        for (number, reason) in Reason::ALL.iter().enumerate() {
            assert_eq!(*reason as usize, number);
            assert_eq!(Reason::from_number(number as u32), *reason);
        }
    }
}
