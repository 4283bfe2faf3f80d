//! Attackers, kills, faults and want: what ulsock promises under attack (docs/threats.md) and in trouble (docs/faults.md).

mod chaos;
mod endurance;
mod faults;
mod hostile;
mod identity;
mod litter;
mod privileged;
mod scarcity;
