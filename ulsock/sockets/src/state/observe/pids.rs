//! The numbers of a program's processes as we see them. In its memory they are as it sees them itself: in a container other
//! ones, which mean other processes to us.

use std::collections::HashMap;
use std::fs::{read_dir, read_link, read_to_string};
use std::path::PathBuf;

/// Of one program.
pub(in crate::state) struct Pids {
    /// One of its processes, as we see it.
    one: u32,
    /// Ours by theirs; `None`: they are the same.
    ours: Option<HashMap<u32, u32>>,
}

impl Pids {
    /// Of the program with this process.
    pub fn of(one: u32) -> Pids {
        let space = namespace(&one.to_string());
        let is_near = space.is_some() && space == namespace("self");
        Pids {
            one,
            ours: (!is_near).then(|| space.map(members).unwrap_or_default()),
        }
    }

    /// Looks again. Those that have ended meanwhile stay: what they did may not have been told yet.
    pub fn look_again(&mut self, one: u32) {
        let now = Pids::of(one);
        match (&mut self.ours, now.ours) {
            (Some(known), Some(now)) => known.extend(now),
            (known, now) => *known = now,
        }
        self.one = one;
    }

    pub fn known(&self, theirs: u32) -> Option<u32> {
        match &self.ours {
            None => Some(theirs),
            Some(ours) => ours.get(&theirs).copied(),
        }
    }

    /// The program's own number stands for a process that ended before we saw it.
    pub fn of_any(&self, theirs: u32) -> u32 {
        self.known(theirs).unwrap_or(self.one)
    }
}

fn namespace(process: &str) -> Option<PathBuf> {
    read_link(format!("/proc/{process}/ns/pid")).ok()
}

/// All processes of a namespace, ours by theirs.
fn members(space: PathBuf) -> HashMap<u32, u32> {
    let entries = read_dir("/proc").into_iter().flatten().flatten();
    let numbers = entries.filter_map(|entry| entry.file_name().to_str()?.parse::<u32>().ok());
    let members = numbers.filter(|pid| namespace(&pid.to_string()).as_ref() == Some(&space));
    members
        .filter_map(|pid| Some((innermost(pid)?, pid)))
        .collect()
}

/// proc_pid_status(5): the last number is that of the process's own namespace.
fn innermost(pid: u32) -> Option<u32> {
    let status = read_to_string(format!("/proc/{pid}/status")).ok()?;
    let line = status.lines().find_map(|it| it.strip_prefix("NSpid:"))?;
    line.split_whitespace().next_back()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_ours() {
        let me = std::process::id();
        let mut pids = Pids::of(me);
        assert_eq!((pids.known(7), pids.of_any(7)), (Some(7), 7));
        pids.ours = namespace("self").map(members);
        assert_eq!(pids.known(innermost(me).unwrap()), Some(me));
        assert_eq!(pids.known(u32::MAX), None);
        assert_eq!(pids.of_any(u32::MAX), me, "one that has ended");
    }
}
