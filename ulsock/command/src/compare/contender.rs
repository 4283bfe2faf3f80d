//! Who takes part: the kernel's sockets, ulsock, and what both are held against.

use serde::{Serialize, Serializer};

use super::cores::Placement;

#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Contender {
    Kernel,
    Ulsock,
    /// Unix stream sockets of the kernel.
    Unix,
    /// The same programs with Unix sockets, on ulsock.
    UlsockUnix,
    /// OpenMPI's shared memory. With single copy, large messages are copied by the kernel from one
    /// process to the other (process_vm_readv).
    Mpi {
        single_copy: bool,
    },
    /// netstack's rings without sockets around them.
    Ring,
    /// Program, daemon, wire, daemon, program, with neither sockets nor a protocol.
    Chain,
    /// Messages of a program that is written for ulsock.
    Messages,
    /// UCX's shared memory, with single copy where the kernel allows it.
    Ucx,
}

impl Contender {
    pub fn name(self) -> &'static str {
        match self {
            Contender::Kernel => "kernel TCP",
            Contender::Ulsock => "ulsock",
            Contender::Unix => "Unix socket",
            Contender::UlsockUnix => "ulsock, Unix socket",
            Contender::Mpi { single_copy: true } => "OpenMPI shm",
            Contender::Mpi { single_copy: false } => "OpenMPI shm, two copies",
            Contender::Ring => "bare ring",
            Contender::Chain => "bare chain",
            Contender::Messages => "native messages",
            Contender::Ucx => "UCX shm",
        }
    }

    /// Whether its programs have the library.
    pub fn has_library(self) -> bool {
        matches!(self, Contender::Ulsock | Contender::UlsockUnix)
    }

    /// Whether its ends meet at a path instead of a port.
    pub fn meets_at_path(self) -> bool {
        let bare = matches!(self, Contender::Ring | Contender::Chain);
        bare || matches!(self, Contender::Unix | Contender::UlsockUnix)
    }

    /// What its connections stay on if it does not accelerate them.
    pub fn fallback(self) -> &'static str {
        match self {
            Contender::UlsockUnix => "the kernel's Unix sockets",
            _ => "kernel TCP",
        }
    }

    /// mpirun places its processes itself, each on a core.
    pub fn placements(self, placements: &[Placement]) -> Vec<Placement> {
        match self {
            Contender::Mpi { .. } => placements.iter().take(1).copied().collect(),
            _ => placements.to_vec(),
        }
    }

    /// Where its ends were, when they were started so.
    pub fn ends(self, placement: Placement) -> &'static str {
        match self {
            Contender::Mpi { .. } => "two cores",
            _ => placement.name(),
        }
    }
}

/// The two that a scenario compares: the ratio is of the second to the first.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Rivals {
    pub kernel: Contender,
    pub ulsock: Contender,
}

impl Rivals {
    pub const TCP: Rivals = Rivals {
        kernel: Contender::Kernel,
        ulsock: Contender::Ulsock,
    };
    pub const UNIX: Rivals = Rivals {
        kernel: Contender::Unix,
        ulsock: Contender::UlsockUnix,
    };

    pub fn both(self) -> [Contender; 2] {
        [self.kernel, self.ulsock]
    }
}

/// Each once, in the order in which they come.
pub fn distinct(contenders: impl Iterator<Item = Contender>) -> Vec<Contender> {
    let mut known = Vec::new();
    for contender in contenders {
        if !known.contains(&contender) {
            known.push(contender);
        }
    }
    known
}

impl Serialize for Contender {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        to.serialize_str(self.name())
    }
}
