//! Two hosts that are far from each other: their devices are taps, and a thread carries every frame from one to the
//! other, some time later.

use std::collections::VecDeque;
use std::fs::{File, OpenOptions};
use std::io::{self, Read, Write};
use std::os::fd::AsRawFd;
use std::os::unix::fs::OpenOptionsExt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use super::Hosts;
use super::wires::DEVICE;

/// Longer than a frame of Ethernet.
const FRAME: usize = 2048;

/// The cable; it is pulled out on drop.
pub struct Distance {
    over: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

/// Frames that are on their way to a device.
#[derive(Default)]
struct Way(VecDeque<(Instant, Vec<u8>)>);

impl Way {
    /// Takes all that a device has sent.
    fn take(&mut self, from: &mut File, arrival: Instant) {
        let mut frame = [0; FRAME];
        while let Ok(length) = from.read(&mut frame) {
            self.0.push_back((arrival, frame[..length].to_vec()));
        }
    }

    /// Gives a device what arrives now; one that is down, or full, loses it.
    fn give(&mut self, to: &mut File, now: Instant) {
        let there = self.0.iter().take_while(|(arrival, _)| *arrival <= now);
        let there = there.count();
        for (_, frame) in self.0.drain(..there) {
            let _ = to.write(&frame);
        }
    }
}

/// Joins two hosts; a frame takes so long from one to the other.
pub fn join(hosts: &Hosts, time: Duration) -> Distance {
    let mut ends = [0, 1].map(|host| {
        let namespace = hosts.host(host).namespace();
        let device = namespace.enter(tap).expect("a network namespace");
        hosts.settle(host);
        device.expect("a tap")
    });
    let over = Arc::new(AtomicBool::new(false));
    let is_over = Arc::clone(&over);
    let thread = std::thread::spawn(move || {
        let mut ways = [Way::default(), Way::default()];
        while !is_over.load(Ordering::Relaxed) {
            wait(&ends, &ways);
            let now = Instant::now();
            for (end, way) in ends.iter_mut().zip(&mut ways) {
                way.take(end, now + time);
            }
            for (end, way) in ends.iter_mut().rev().zip(&mut ways) {
                way.give(end, now);
            }
        }
    });
    Distance {
        over,
        thread: Some(thread),
    }
}

/// Until a device has sent something, or something arrives; the end is looked for now and then.
fn wait(ends: &[File; 2], ways: &[Way; 2]) {
    let next = ways.iter().filter_map(|way| way.0.front()).map(|it| it.0);
    let pause = next
        .min()
        .map(|next| next.saturating_duration_since(Instant::now()));
    let pause = pause
        .unwrap_or(Duration::MAX)
        .min(Duration::from_millis(50));
    let timeout = libc::timespec {
        tv_sec: 0,
        tv_nsec: pause.subsec_nanos().into(),
    };
    let mut wanted = [0, 1].map(|end| libc::pollfd {
        fd: ends[end].as_raw_fd(),
        events: libc::POLLIN,
        revents: 0,
    });
    // SAFETY: the array and the time live as long as the call.
    unsafe { libc::ppoll(wanted.as_mut_ptr(), 2, &timeout, std::ptr::null()) };
}

/// A device of the namespace that the thread is in.
fn tap() -> io::Result<File> {
    let mut options = OpenOptions::new();
    let options = options.read(true).write(true);
    let options = options.custom_flags(libc::O_NONBLOCK | libc::O_CLOEXEC);
    let file = options.open("/dev/net/tun")?;
    // SAFETY: plain numbers.
    let mut request: libc::ifreq = unsafe { std::mem::zeroed() };
    for (to, from) in request.ifr_name.iter_mut().zip(DEVICE.bytes()) {
        *to = from as libc::c_char;
    }
    request.ifr_ifru.ifru_flags = (libc::IFF_TAP | libc::IFF_NO_PI) as libc::c_short;
    // SAFETY: the request lives as long as the call.
    match unsafe { libc::ioctl(file.as_raw_fd(), libc::TUNSETIFF, &request) } {
        0 => Ok(file),
        _ => Err(io::Error::last_os_error()),
    }
}

impl Drop for Distance {
    fn drop(&mut self) {
        self.over.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}
