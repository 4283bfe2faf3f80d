//! Times round trips and prints what they took.
//!
//! Every trip is timed with one clock reading (the end of a trip is the start of the next), which
//! costs some 25 ns a trip on either carrier and gives true percentiles, unlike timing batches.

use std::thread;
use std::time::{Duration, Instant};

use hdrhistogram::Histogram;
use serde::Serialize;

use crate::Outcome;

/// Longer trips count as this long in the percentiles.
const LONGEST_NANOS: u64 = 60_000_000_000;
const PERCENTILES: [f64; 7] = [25.0, 50.0, 75.0, 90.0, 99.0, 99.9, 99.99];

/// What a client prints.
#[derive(Serialize)]
pub struct Line {
    messages: u64,
    seconds: f64,
    mean_us: f64,
    messages_per_s: f64,
    /// Pairs of percent and microseconds.
    percentiles: Vec<(f64, f64)>,
    /// Round trips with the warm-up's.
    total_messages: u64,
}

/// The round trips of a client, or of one of its threads.
pub struct Trips {
    histogram: Histogram<u64>,
    measured: Duration,
    pub total: u64,
}

/// Reads the clock once for each trip.
struct Clock {
    start: Instant,
    last: Instant,
    length: Duration,
}

impl Clock {
    fn start(length: Duration) -> Clock {
        let now = Instant::now();
        Clock {
            start: now,
            last: now,
            length,
        }
    }

    /// Nanoseconds since the one before.
    fn lap(&mut self) -> u64 {
        let now = Instant::now();
        let took = now - self.last;
        self.last = now;
        took.as_nanos() as u64
    }

    fn measured(&self) -> Duration {
        self.last - self.start
    }

    /// At least one trip has been made, and the last ended after the length.
    fn is_over(&self) -> bool {
        self.last != self.start && self.measured() >= self.length
    }
}

impl Trips {
    pub fn new() -> Result<Trips, Box<dyn std::error::Error>> {
        Ok(Trips {
            histogram: Histogram::new_with_bounds(1, LONGEST_NANOS, 3)?,
            measured: Duration::ZERO,
            total: 0,
        })
    }

    /// Runs trips for `warm_up`, then for `length` with the clock on.
    pub fn measure(
        &mut self,
        warm_up: Duration,
        length: Duration,
        mut trip: impl FnMut() -> Outcome,
    ) -> Outcome {
        self.run_for(warm_up, &mut trip, |_, _| ())?;
        self.measured = self.run_for(length, &mut trip, Histogram::saturating_record)?;
        Ok(())
    }

    /// The same for trips that are tasks, in one run of their loop.
    pub async fn measure_tasks(
        &mut self,
        warm_up: Duration,
        length: Duration,
        mut trip: impl AsyncFnMut() -> Outcome,
    ) -> Outcome {
        for measured in [false, true] {
            let mut clock = Clock::start(if measured { length } else { warm_up });
            while !clock.is_over() {
                trip().await?;
                let took = clock.lap();
                self.total += 1;
                if measured {
                    self.histogram.saturating_record(took);
                }
            }
            self.measured = clock.measured();
        }
        Ok(())
    }

    /// As `measure`, but so many trips per second are measured: before each the program sleeps until its time has come.
    /// The warm-up is not paced, so that the connection is on its carrier when the measurement begins.
    pub fn measure_paced(
        &mut self,
        warm_up: Duration,
        length: Duration,
        rate: u32,
        mut trip: impl FnMut() -> Outcome,
    ) -> Outcome {
        self.run_for(warm_up, &mut trip, |_, _| ())?;
        let (pause, start) = (Duration::from_secs(1) / rate, Instant::now());
        let mut due = start;
        while start.elapsed() < length {
            due += pause;
            thread::sleep(due.saturating_duration_since(Instant::now()));
            let begun = Instant::now();
            trip()?;
            self.total += 1;
            let took = begun.elapsed().as_nanos() as u64;
            self.histogram.saturating_record(took);
        }
        self.measured = start.elapsed();
        Ok(())
    }

    /// Makes at least one round trip and stops at the first that ends after `length`.
    fn run_for(
        &mut self,
        length: Duration,
        trip: &mut impl FnMut() -> Outcome,
        record: impl Fn(&mut Histogram<u64>, u64),
    ) -> Result<Duration, Box<dyn std::error::Error>> {
        let mut clock = Clock::start(length);
        while !clock.is_over() {
            trip()?;
            self.total += 1;
            record(&mut self.histogram, clock.lap());
        }
        Ok(clock.measured())
    }

    /// Adds what another thread measured in the same time.
    pub fn add(&mut self, other: &Trips) -> Outcome {
        self.histogram.add(&other.histogram)?;
        self.measured = self.measured.max(other.measured);
        self.total += other.total;
        Ok(())
    }

    pub fn print(&self) -> Outcome {
        let (messages, seconds) = (self.histogram.len(), self.measured.as_secs_f64());
        let at = |percent: f64| self.histogram.value_at_percentile(percent) as f64 / 1e3;
        let line = Line {
            messages,
            seconds,
            mean_us: self.histogram.mean() / 1e3,
            messages_per_s: messages as f64 / seconds,
            percentiles: PERCENTILES.map(|percent| (percent, at(percent))).to_vec(),
            total_messages: self.total,
        };
        println!("{}", serde_json::to_string(&line)?);
        Ok(())
    }
}
