//! The loop of a capture: looks for programs, keeps them copying, and passes on what they have copied.

use std::io;
use std::time::{Duration, Instant};

use sockets::capture::{Begun, Capture, Copied, SLOTS, Totals, now};
use sockets::observe::{self, Endpoint, ProgramRow, Reach};

use super::End;
use super::order::Order;
use super::output::Output;
use crate::selection::Selection;

/// Without anything to read it is looked this often.
const LOOK: Duration = Duration::from_millis(5);
/// For programs that have begun: they are looked for among all processes.
const FIND: Duration = Duration::from_millis(500);
/// Programs copy for some seconds after they were asked.
const RENEW: Duration = Duration::from_millis(800);
/// So long what is being copied at the end is waited for.
const REST: Duration = Duration::from_millis(200);

/// What does not fit is not counted as missed, nor as captured.
struct Following<'a> {
    capture: Capture,
    order: Order,
    selection: &'a Selection,
    output: &'a mut dyn Output,
    /// What there is to say meanwhile.
    say: fn(&str),
    /// It has been said that Unix streams are left out.
    says_unix: bool,
    written: Totals,
}

pub fn follow(
    reach: &Reach,
    selection: &Selection,
    output: &mut dyn Output,
    say: fn(&str),
    end: &End,
) -> io::Result<Totals> {
    let mut following = Following {
        capture: Capture::default(),
        order: Order::default(),
        selection,
        output,
        say,
        says_unix: false,
        written: Totals::default(),
    };
    let ended = following.until(reach, end);
    following.capture.switch_off();
    let ended = ended.and_then(|()| following.rest());
    let Following {
        capture, written, ..
    } = following;
    let missed = capture.totals();
    capture.give_back();
    match ended {
        // Whoever read us has seen enough.
        Err(error) if error.kind() != io::ErrorKind::BrokenPipe => Err(error),
        _ => Ok(Totals {
            missed_entries: missed.missed_entries,
            missed_bytes: missed.missed_bytes,
            gaps: missed.gaps,
            ..written
        }),
    }
}

impl Following<'_> {
    fn until(&mut self, reach: &Reach, end: &End) -> io::Result<()> {
        self.find(reach);
        if self.capture.programs() == 0 {
            (self.say)("no program to capture yet: none that fits runs on ulsock as your user");
        }
        let (mut found, mut renewed) = (Instant::now(), Instant::now());
        while !end.has_come(self.written.bytes) && !self.output.is_closed() {
            if found.elapsed() > FIND {
                self.find(reach);
                found = Instant::now();
            }
            if renewed.elapsed() > RENEW {
                self.capture.renew();
                renewed = Instant::now();
            }
            let is_all = self.look();
            self.pass_on(false)?;
            if is_all {
                std::thread::sleep(LOOK);
            }
        }
        Ok(())
    }

    fn find(&mut self, reach: &Reach) {
        let (selection, say, says_unix) = (self.selection, self.say, &mut self.says_unix);
        let wanted = |row: &ProgramRow| selection.has_any(row);
        // Their addresses fit into no TCP header.
        let has_unix = |row: &ProgramRow| {
            let mut rows = row.connection_rows.iter();
            rows.any(|it| {
                let ends = [it.local, it.peer];
                let is_unix = matches!(it.local, Some(Endpoint::Unix(_)));
                is_unix && selection.has(it.pid, &it.program, ends)
            })
        };
        if !*says_unix && observe::programs(reach).iter().any(has_unix) {
            *says_unix = true;
            say("Unix streams are not captured");
        }
        self.capture
            .find_programs(reach, wanted, |pid, program, begun| match begun {
                Begun::Yes => {}
                Begun::Full => {
                    say(&format!(
                        "{program}[{pid}]: {SLOTS} captures of it run already"
                    ));
                }
                Begun::Failed(error) => {
                    say(&format!("{program}[{pid}] cannot be captured: {error}"));
                }
            });
    }

    fn look(&mut self) -> bool {
        let order = &mut self.order;
        self.capture
            .read(|copied, program| order.put(copied, program))
    }

    fn pass_on(&mut self, is_end: bool) -> io::Result<()> {
        for (copied, program) in self.order.take(now(), is_end) {
            if self.is_wanted(&copied, &program) {
                self.written.entries += 1;
                self.written.bytes += copied.bytes.len() as u64;
                self.output.put(&copied, &program)?;
            }
        }
        self.output.flush()
    }

    fn is_wanted(&self, copied: &Copied, program: &str) -> bool {
        let ends = [copied.local, copied.peer].map(|end| Some(end.into()));
        self.selection.has(copied.pid, program, ends)
    }

    /// What was copied until it was switched off.
    fn rest(&mut self) -> io::Result<()> {
        let begin = Instant::now();
        while !self.look() && begin.elapsed() < REST {
            std::thread::sleep(LOOK);
        }
        self.pass_on(true)?;
        let missed = self.capture.totals();
        let all = self.written.entries.saturating_add(missed.missed_entries);
        self.output.end(now(), all, missed.missed_entries)
    }
}
