//! What a process holds in memory: pages of its own and its part of shared ones, without the files of
//! programs; and what the kernel's buffers of its sockets hold.

use std::os::fd::AsRawFd;
use std::{fs, io};

/// KiB of this process and of its sockets.
pub fn used_kib(sockets: &[impl AsRawFd]) -> io::Result<f64> {
    let buffers: Result<Vec<u64>, io::Error> = sockets.iter().map(buffer_bytes).collect();
    Ok(own_kib()? as f64 + buffers?.iter().sum::<u64>() as f64 / 1024.0)
}

/// Of shared pages each process counts its part (proc(5): `Pss`).
fn own_kib() -> io::Result<u64> {
    let text = fs::read_to_string("/proc/self/smaps_rollup")?;
    let field = |name: &str| {
        let line = text.lines().find_map(|line| line.strip_prefix(name));
        line.and_then(|rest| rest.split_whitespace().next()?.parse::<u64>().ok())
    };
    let all = field("Pss:").ok_or_else(|| io::Error::other("smaps_rollup without Pss"))?;
    Ok(all - field("Pss_File:").unwrap_or(0))
}

/// Bytes that wait in a socket, with what the kernel keeps around them (`sk_get_meminfo` of
/// net/core/sock.c).
fn buffer_bytes(socket: &impl AsRawFd) -> io::Result<u64> {
    const RECEIVED: usize = 0;
    const QUEUED: usize = 5;
    let mut counts = [0u32; 9];
    let mut length = size_of_val(&counts) as libc::socklen_t;
    // SAFETY: the counts and their length outlive the call, which writes no more than that length.
    let got = unsafe {
        libc::getsockopt(
            socket.as_raw_fd(),
            libc::SOL_SOCKET,
            libc::SO_MEMINFO,
            counts.as_mut_ptr().cast(),
            &mut length,
        )
    };
    match got {
        0 => Ok(u64::from(counts[RECEIVED]) + u64::from(counts[QUEUED])),
        _ => Err(io::Error::last_os_error()),
    }
}
