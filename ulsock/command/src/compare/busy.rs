//! A loaded host: a busy loop on each CPU that we may use, as long as this lives.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};

use super::cores;

pub struct Busy {
    stop: Arc<AtomicBool>,
    threads: Vec<JoinHandle<()>>,
}

impl Busy {
    pub fn everywhere() -> Busy {
        let stop = Arc::new(AtomicBool::new(false));
        let on = |cpu| {
            let stop = stop.clone();
            thread::spawn(move || burn(cpu, &stop))
        };
        let threads = cores::allowed().into_iter().map(on).collect();
        Busy { stop, threads }
    }
}

fn burn(cpu: usize, stop: &AtomicBool) {
    let looped = cores::on_core(cpu, || {
        while !stop.load(Ordering::Relaxed) {
            std::hint::spin_loop();
        }
        Ok(())
    });
    // The CPU was taken away from us: one loop less.
    drop(looped);
}

impl Drop for Busy {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        for thread in self.threads.drain(..) {
            // It cannot panic.
            let _ = thread.join();
        }
    }
}
