//! Limits on a process that we feel: those on its address space, and on its descriptors.
//!
//! Our tables and segments are large and nearly empty, but the kernel counts them in full. A limit
//! that the program sets is therefore raised by what is ours, and from then on nothing more is
//! mapped. A process that was born with a limit does without us: nothing could be raised there. So does one that leaves itself hardly
//! any descriptors, as sandboxes do: the kernel refuses a poll on more than the limit (RLIMIT_NOFILE).

use std::sync::atomic::{AtomicU64, Ordering};

use libc::{RLIM_INFINITY, c_uint, rlimit};
use rustix::process::{Resource, getrlimit};

use crate::calls::return_all;
use crate::runtime::process;
use os::mapped;
use rendezvous::reason::Reason;

/// What may still be mapped after that: the tables of a forked child's own, and of epoll sets.
const STILL_TO_COME: u64 = 64 << 20;

/// With fewer we are not there: a sleep may poll several beside those of the program.
const LEAST_DESCRIPTORS: u64 = 64;

os::process_wide! {
    /// By how much each limit is higher in the kernel than the program has set it; fixed when it first
    /// sets one, so that what it lowers and raises fits together.
    static RAISED: AtomicU64 = AtomicU64::new(0);
    static RAISED_DATA: AtomicU64 = AtomicU64::new(0);
}

/// Whether this process has a limit with which we cannot live, as the next program will have too.
pub fn are_too_low() -> bool {
    let limit = |resource| getrlimit(resource).current;
    let space = limit(Resource::As).or(limit(Resource::Data));
    space.is_some() || limit(Resource::Nofile).is_some_and(|limit| limit < LEAST_DESCRIPTORS)
}

/// What we have mapped, and by how much the limit is raised, if it counts our mappings.
fn count(resource: c_uint) -> Option<(u64, &'static AtomicU64)> {
    match resource {
        libc::RLIMIT_AS => Some((mapped::all(), &RAISED)),
        libc::RLIMIT_DATA => Some((mapped::private(), &RAISED_DATA)),
        _ => None,
    }
}

/// Whether a limit of `resource` concerns us.
pub fn concerns(resource: c_uint) -> bool {
    resource == libc::RLIMIT_NOFILE || count(resource).is_some()
}

/// Before the program sets a limit: as the kernel is to have it.
pub fn before_limit(resource: c_uint, limit: rlimit) -> rlimit {
    if resource != libc::RLIMIT_NOFILE {
        return raise(resource, limit);
    }
    if process::is_on() && limit.rlim_cur < LEAST_DESCRIPTORS {
        return_all::before_sandbox();
    }
    limit
}

/// By how much the kernel's limit is higher than the program's.
pub fn raised(resource: c_uint) -> u64 {
    count(resource).map_or(0, |(_, raised)| raised.load(Ordering::Relaxed))
}

fn raise(resource: c_uint, limit: rlimit) -> rlimit {
    if limit.rlim_cur == RLIM_INFINITY {
        return limit;
    }
    let by = match count(resource) {
        Some((mapped, raised)) if process::is_on() => {
            let wanted = mapped + STILL_TO_COME;
            let before = raised.compare_exchange(0, wanted, Ordering::Relaxed, Ordering::Relaxed);
            before.map_or_else(|before| before, |_| wanted)
        }
        _ => raised(resource),
    };
    each(limit, |value| {
        value.saturating_add(by).min(RLIM_INFINITY - 1)
    })
}

/// The kernel's limit as the program has set it.
pub fn lower(limit: rlimit, by: u64) -> rlimit {
    each(limit, |value| value.saturating_sub(by))
}

/// Infinity stays.
fn each(limit: rlimit, change: impl Fn(u64) -> u64) -> rlimit {
    let finite = |value| match value {
        RLIM_INFINITY => RLIM_INFINITY,
        value => change(value),
    };
    rlimit {
        rlim_cur: finite(limit.rlim_cur),
        rlim_max: finite(limit.rlim_max),
    }
}

/// It has been set. Without a TCP socket so far there is nothing to lose: we are not there any more.
pub fn limit_set(resource: c_uint, limit: &rlimit) {
    if count(resource).is_none() || limit.rlim_cur == RLIM_INFINITY {
        return;
    }
    if crate::state::process_group::own().is_none() {
        process::switch_off();
    }
    process::freeze(Reason::Memory);
}

#[cfg(test)]
mod tests {
    use super::*;

    const MIB: u64 = 1 << 20;

    fn pair(limit: rlimit) -> (u64, u64) {
        (limit.rlim_cur, limit.rlim_max)
    }

    /// ulsock is not loaded here, and raises nothing by itself.
    #[test]
    fn what_was_raised_reads_as_it_was_set() {
        RAISED.store(300 * MIB, Ordering::Relaxed);
        for (rlim_cur, rlim_max) in [
            (0, 0),
            (MIB, 5 * MIB),
            (MIB, RLIM_INFINITY),
            (RLIM_INFINITY, RLIM_INFINITY),
        ] {
            let kernels = raise(libc::RLIMIT_AS, rlimit { rlim_cur, rlim_max });
            let shown = lower(kernels, raised(libc::RLIMIT_AS));
            assert_eq!(pair(shown), (rlim_cur, rlim_max));
        }
        let [rlim_cur, rlim_max] = [RLIM_INFINITY - 1; 2];
        let huge = raise(libc::RLIMIT_AS, rlimit { rlim_cur, rlim_max });
        assert_eq!(pair(huge), (RLIM_INFINITY - 1, RLIM_INFINITY - 1));
    }

    #[test]
    fn other_resources_are_left_alone() {
        assert!(!concerns(libc::RLIMIT_CORE) && concerns(libc::RLIMIT_DATA));
        assert_eq!(raised(libc::RLIMIT_STACK), 0);
    }
}
