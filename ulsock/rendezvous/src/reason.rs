//! Why a connection is on the kernel: shown by `ulsock top` and counted in the report.

mod meaning;

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

    #[test]
    fn numbers_and_names_agree() {
        for (number, reason) in Reason::ALL.iter().enumerate() {
            assert_eq!(*reason as usize, number);
            assert_eq!(Reason::from_number(number as u32), *reason);
        }
    }
}
