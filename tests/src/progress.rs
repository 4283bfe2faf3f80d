//! A watchdog for the test programs: when nothing has moved for a while, it prints how far every
//! stream came and which system call every thread is in, and ends the process. A lost wake-up thus
//! shows as a report, not as a test that hangs.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use crate::procfs;

/// How far one stream has come.
pub struct Gauge {
    label: String,
    total: u64,
    at: AtomicU64,
}

static GAUGES: Mutex<Vec<Arc<Gauge>>> = Mutex::new(Vec::new());

/// A new gauge that the watchdog looks at.
pub fn gauge(label: String, total: u64) -> Arc<Gauge> {
    let gauge = Arc::new(Gauge {
        label,
        total,
        at: AtomicU64::new(0),
    });
    GAUGES.lock().unwrap().push(Arc::clone(&gauge));
    gauge
}

impl Gauge {
    /// Records that the stream came on by `amount`.
    pub fn add(&self, amount: u64) {
        self.at.fetch_add(amount, Ordering::Relaxed);
    }
}

/// Starts the watchdog thread.
pub fn watch(limit: Duration) {
    std::thread::spawn(move || {
        let mut before = sum();
        loop {
            std::thread::sleep(limit);
            let now = sum();
            if now == before {
                stalled(limit);
            }
            before = now;
        }
    });
}

fn sum() -> u64 {
    let gauges = GAUGES.lock().unwrap();
    gauges
        .iter()
        .map(|gauge| gauge.at.load(Ordering::Relaxed))
        .fold(gauges.len() as u64, u64::wrapping_add)
}

fn stalled(limit: Duration) -> ! {
    eprintln!("nothing has moved for {limit:?}:");
    for gauge in GAUGES.lock().unwrap().iter() {
        let at = gauge.at.load(Ordering::Relaxed);
        eprintln!("  {}: {at} of {}", gauge.label, gauge.total);
    }
    eprint!("{}", procfs::system_calls(std::process::id()));
    std::process::exit(3)
}
