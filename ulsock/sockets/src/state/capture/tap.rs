//! Capturing, from another process: the switch of each program, and its copies, read as they come.
//!
//! What lies in the memory of a program may be anything. It is read by `pread` alone; the words that are written are
//! mapped.

use std::collections::HashMap;
use std::collections::hash_map::Entry as Place;
use std::mem::offset_of;
use std::sync::atomic::Ordering;

use netstack::circle::{Counters, Reader};
use rustix::fs::{FallocateFlags, FlockOperation, fallocate, flock};
use rustix::io::{self, Errno};

use super::switch::Lease;
use super::{BYTES, Copied, Switch, WORDS, now};
use crate::state::observe;
use crate::state::process_group::found::{self, FoundFamily};
use crate::state::process_group::writable::WritableFamily;
use crate::state::process_group::{Front, Header, circle_offset};
use crate::state::record::{State, flag};

/// What has been captured, and what not.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Totals {
    pub entries: u64,
    pub bytes: u64,
    pub missed_entries: u64,
    pub missed_bytes: u64,
    /// How often copies were not wanted for a while, because whoever wants them did not come to say so in time.
    pub gaps: u64,
}

/// How it went to begin with a program.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Begun {
    Yes,
    /// Others capture it already, as many as may.
    Full,
    Failed(Errno),
}

/// A program that is captured.
struct Tap {
    family: WritableFamily,
    /// `None`: it has run out, and could not be had again yet.
    lease: Option<Lease>,
    /// How often it has run out.
    gaps: u64,
    /// As we find it, and it may not know itself.
    program: String,
    pids: observe::Pids,
    names: HashMap<u32, String>,
    reader: Reader,
    /// What had been copied when we began, and what we have read since.
    before: Totals,
    read: Totals,
    /// Searches that have not found it.
    absent: u8,
}

/// So many searches in a row do not find a program that has ended.
const ENDED: u8 = 2;

/// A capture of any number of programs.
#[derive(Default)]
pub struct Capture {
    /// By the inode of their memory; `None`: not wanted, or not to be had.
    taps: HashMap<u64, Option<Tap>>,
    ended: Totals,
}

impl Capture {
    /// Looks for programs that have begun or ended. Of those that `wanted` takes, by one process and its name, copies are
    /// wanted from now on; `told` hears how each began.
    pub fn find_programs(
        &mut self,
        reach: &observe::Reach,
        wanted: impl Fn(&observe::ProgramRow) -> bool,
        mut told: impl FnMut(u32, &str, &Begun),
    ) {
        for tap in self.taps.values_mut().flatten() {
            tap.absent = (tap.absent + 1).min(ENDED);
        }
        let is_complete = found::each(reach, |found| match self.taps.entry(found.inode) {
            Place::Occupied(mut place) => match place.get_mut() {
                Some(tap) => {
                    tap.absent = 0;
                    tap.pids.look_again(found.pid);
                }
                None => drop(found),
            },
            Place::Vacant(place) => {
                let row = observe::program(&found);
                let Some(row) = row.filter(|row| wanted(row)) else {
                    return;
                };
                let (begun, tap) = match Tap::begin(&found, row.program.clone()) {
                    Ok(Some(tap)) => (Begun::Yes, Some(tap)),
                    Ok(None) => (Begun::Full, None),
                    // Another capture of it begins or ends just now: the next search tries again.
                    Err(Errno::BUSY) => return,
                    Err(error) => (Begun::Failed(error), None),
                };
                told(row.pid, &row.program, &begun);
                place.insert(tap);
            }
        });
        if !is_complete {
            for tap in self.taps.values_mut().flatten() {
                tap.absent = 0;
            }
        }
    }

    /// How many programs are captured.
    pub fn programs(&self) -> usize {
        self.taps.values().flatten().count()
    }

    /// Says that copies are still wanted. At least once a second.
    pub fn renew(&mut self) {
        for tap in self.taps.values_mut().flatten() {
            tap.renew();
        }
    }

    /// What has been copied since the last look, with the name of its process. `false`: there is more.
    pub fn read(&mut self, mut each: impl FnMut(Copied, &str)) -> bool {
        let mut is_all = true;
        for tap in self.taps.values_mut().flatten() {
            is_all &= tap.read(&mut each);
        }
        let ended = &mut self.ended;
        self.taps.retain(|_, tap| {
            let Some(it) = tap.as_ref().filter(|it| it.absent >= ENDED) else {
                return true;
            };
            ended.add(it.totals());
            false
        });
        is_all
    }

    pub fn totals(&self) -> Totals {
        let mut all = self.ended;
        for tap in self.taps.values().flatten() {
            all.add(tap.totals());
        }
        all
    }

    /// Switches off; what was copied until then can still be read, once, and then [`give_back`](Capture::give_back)
    /// ends it.
    pub fn switch_off(&mut self) {
        for tap in self.taps.values().flatten() {
            if let Some(lease) = &tap.lease {
                tap.switch().end(lease, now());
            }
        }
    }

    /// The circles that nobody needs any more have no memory.
    pub fn give_back(self) {
        for tap in self.taps.into_values().flatten() {
            tap.give_back();
        }
    }
}

impl Totals {
    fn add(&mut self, other: Totals) {
        for (sum, more) in [
            (&mut self.entries, other.entries),
            (&mut self.bytes, other.bytes),
            (&mut self.missed_entries, other.missed_entries),
            (&mut self.missed_bytes, other.missed_bytes),
            (&mut self.gaps, other.gaps),
        ] {
            *sum = sum.wrapping_add(more);
        }
    }
}

/// The words of the counters, as they stand in the file.
fn counters(family: &WritableFamily) -> Option<Counters> {
    let offset = offset_of!(Front, header) + offset_of!(Header, capture);
    observe::read_at(family.file(), offset + offset_of!(Switch, counters))
}

impl Tap {
    /// `None`: no capture more is possible.
    fn begin(found: &FoundFamily, program: String) -> io::Result<Option<Tap>> {
        let family = WritableFamily::open(found)?;
        let Some(lease) = switch_on(&family)? else {
            return Ok(None);
        };
        let counters = counters(&family).ok_or(Errno::INVAL)?;
        let load = |it: &std::sync::atomic::AtomicU64| it.load(Ordering::Relaxed);
        let before = Totals {
            entries: load(&counters.entries),
            bytes: load(&counters.bytes),
            ..Totals::default()
        };
        let tap = Tap {
            lease: Some(lease),
            gaps: 0,
            program,
            pids: observe::Pids::of(found.pid),
            names: HashMap::new(),
            reader: Reader::new(WORDS, load(&counters.reserved)),
            before,
            read: Totals::default(),
            absent: 0,
            family,
        };
        tap.mark();
        Ok(Some(tap))
    }

    fn switch(&self) -> &Switch {
        &self.family.header().capture
    }

    fn renew(&mut self) {
        // Else somebody begins or ends just now, and it lasts long enough for the next time.
        let Ok(held) = Held::take(&self.family, 1) else {
            return;
        };
        let switch = &self.family.header().capture;
        let lasts = self
            .lease
            .as_mut()
            .is_some_and(|it| switch.renew(it, now()));
        if !lasts {
            self.gaps += u64::from(self.lease.is_some());
            self.lease = switch_on_held(&held).ok().flatten();
        }
        drop(held);
        self.mark();
    }

    /// Marks the connections that have rings; those that get them look at the switch.
    fn mark(&self) {
        for number in 0..self.family.used() {
            let Some(seen) = self.family.read_record(number) else {
                break;
            };
            if seen.state() == State::Managed
                && !seen.has(flag::COPIED)
                && !seen.is_unix()
                && let Some(record) = self.family.record(number)
            {
                record.set(flag::COPIED);
            }
        }
    }

    fn read(&mut self, each: &mut impl FnMut(Copied, &str)) -> bool {
        let Some(counters) = counters(&self.family) else {
            return true;
        };
        let reserved = counters.reserved.load(Ordering::Relaxed);
        let salt = counters.salt.load(Ordering::Relaxed);
        let file = self.family.file();
        let copy =
            |at: usize, to: &mut [u64]| observe::read_words(file, circle_offset() + at * 8, to);
        let mut found = Vec::new();
        let is_all = self
            .reader
            .look((reserved, salt, os::clock::coarse_ms()), copy, |entry| {
                found.push(Copied::new(entry.about, entry.bytes()));
            });
        for mut copied in found {
            copied.pid = self.pids.of_any(copied.pid);
            self.read.entries += 1;
            self.read.bytes += copied.bytes.len() as u64;
            let name = name(&mut self.names, &self.program, copied.pid);
            each(copied, name);
        }
        is_all
    }

    fn totals(&self) -> Totals {
        let Some(counters) = counters(&self.family) else {
            return Totals {
                gaps: self.gaps,
                ..self.read
            };
        };
        let missed = |now: u64, before: u64, read: u64| {
            let copied = now.wrapping_sub(before);
            copied.saturating_sub(read)
        };
        let (entries, bytes) = (&counters.entries, &counters.bytes);
        let (before, read) = (self.before, self.read);
        Totals {
            missed_entries: missed(
                entries.load(Ordering::Relaxed),
                before.entries,
                read.entries,
            ),
            missed_bytes: missed(bytes.load(Ordering::Relaxed), before.bytes, read.bytes),
            gaps: self.gaps,
            ..read
        }
    }

    /// If a program's thread was stopped or killed while it wrote a copy, the memory stays until the program ends: what
    /// the thread touches then must be there.
    fn give_back(self) {
        let Ok(_held) = Held::take(&self.family, PATIENCE) else {
            return;
        };
        if self.switch().is_on(now()) || !self.switch().is_left() {
            return;
        }
        let flags = FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE;
        let offset = circle_offset() as u64;
        // Then they stay.
        let _ = fallocate(self.family.file(), flags, offset, BYTES as u64);
    }
}

/// Gives the circle its memory, and says that copies are wanted. `None`: no capture more is possible.
fn switch_on(family: &WritableFamily) -> io::Result<Option<Lease>> {
    switch_on_held(&Held::take(family, 1)?)
}

/// Between the memory being given back and being had again nobody must begin.
fn switch_on_held(Held(family): &Held<'_>) -> io::Result<Option<Lease>> {
    let flags = FallocateFlags::KEEP_SIZE;
    fallocate(family.file(), flags, circle_offset() as u64, BYTES as u64)?;
    let switch = &family.header().capture;
    let (salt, order) = (os::random()?.max(1), Ordering::SeqCst);
    let _ = switch.counters.salt.compare_exchange(0, salt, order, order);
    Ok(switch.begin(now()))
}

fn name<'a>(names: &'a mut HashMap<u32, String>, program: &'a str, pid: u32) -> &'a str {
    // Pids are what the program says: it may say any.
    if names.len() > 1000 {
        names.clear();
    }
    let known = names.entry(pid);
    known.or_insert_with(|| observe::name(pid).unwrap_or_else(|| program.to_owned()))
}

/// So often, and with such pauses, who ends a capture tries to give its memory back.
const PATIENCE: usize = 50;
const PAUSE: std::time::Duration = std::time::Duration::from_millis(10);

/// Nobody else begins or ends a capture of this program meanwhile.
struct Held<'a>(&'a WritableFamily);

impl<'a> Held<'a> {
    /// Others hold it for the moment of a system call. One that is stopped there, or never lets go, is not waited for.
    fn take(family: &'a WritableFamily, tries: usize) -> io::Result<Held<'a>> {
        for left in (0..tries).rev() {
            match flock(family.file(), FlockOperation::NonBlockingLockExclusive) {
                Err(Errno::WOULDBLOCK) => {}
                taken => return taken.map(|()| Held(family)),
            }
            if left > 0 {
                std::thread::sleep(PAUSE);
            }
        }
        Err(Errno::BUSY)
    }
}

impl Drop for Held<'_> {
    fn drop(&mut self) {
        let _ = flock(self.0.file(), FlockOperation::Unlock);
    }
}
