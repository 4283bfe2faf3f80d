//! How much memory this process can still have, asked by whoever takes all of its memory at once: the kernel grants a mapping of
//! any size, and ends a process when the pages run out.

use rustix::system::sysinfo;

use crate::cgroup;
use crate::proc;

/// Bytes that the host, and the control groups of this process, have left now; `None`: nobody can tell.
pub fn memory() -> Option<u64> {
    [of_the_host(), cgroup::left()].into_iter().flatten().min()
}

/// With what can be swapped out. Without /proc, all that the host has.
fn of_the_host() -> Option<u64> {
    let mut text = [0; 4096];
    let told = proc::read_of_all(format_args!("meminfo"), &mut text).ok();
    told.and_then(parse).or_else(|| {
        let all = sysinfo();
        let units = all.totalram.checked_add(all.totalswap)?;
        units.checked_mul(all.mem_unit.into())
    })
}

/// Of lines `MemAvailable:    12345 kB`.
fn parse(text: &[u8]) -> Option<u64> {
    let text = std::str::from_utf8(text).ok()?;
    let kibibytes = |name: &str| -> Option<u64> {
        let mut lines = text.lines();
        let rest = lines.find_map(|line| line.strip_prefix(name)?.strip_prefix(':'))?;
        rest.trim().strip_suffix("kB")?.trim_end().parse().ok()
    };
    let swap = kibibytes("SwapFree").unwrap_or(0);
    kibibytes("MemAvailable")?
        .checked_add(swap)?
        .checked_mul(1024)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_the_kernel_says() {
        let text = b"MemTotal:       24683940 kB\nMemFree:  3 kB\nMemAvailable:   23 kB\nSwapCached: 8 kB\nSwapFree:   2 kB\n";
        assert_eq!(parse(text), Some(25 << 10));
        assert_eq!(parse(b"MemAvailable:   23 kB"), Some(23 << 10));
        for bad in [
            "",
            "MemAvailable",
            "MemAvailable: kB",
            "MemAvailable: -1 kB",
            "MemAvailable: 18446744073709551615 kB\n",
        ] {
            assert_eq!(parse(bad.as_bytes()), None, "{bad}");
        }
    }

    #[test]
    fn this_host_has_some() {
        let most = sysinfo();
        let most = (most.totalram + most.totalswap) * u64::from(most.mem_unit);
        let left = of_the_host().expect("it can tell");
        assert!((1 << 20..=most).contains(&left), "{left} of {most}");
    }
}
