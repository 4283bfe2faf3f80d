//! Who takes part: kernel TCP, ulsock, and what both are held against.

use super::cores::Placement;

#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Contender {
    Kernel,
    Ulsock,
    /// Unix stream sockets.
    Unix,
    /// OpenMPI's shared memory. With single copy, large messages are copied by the kernel from one
    /// process to the other (process_vm_readv).
    Mpi {
        single_copy: bool,
    },
}

impl Contender {
    pub fn name(self) -> &'static str {
        match self {
            Contender::Kernel => "kernel TCP",
            Contender::Ulsock => "ulsock",
            Contender::Unix => "Unix socket",
            Contender::Mpi { single_copy: true } => "MPI, shared memory",
            Contender::Mpi { single_copy: false } => "MPI, two copies",
        }
    }

    /// mpirun places its processes itself, each on a core.
    pub fn placements(self, placements: &[Placement]) -> Vec<Placement> {
        match self {
            Contender::Mpi { .. } => placements.iter().take(1).copied().collect(),
            _ => placements.to_vec(),
        }
    }
}
