//! The summary in words.

use std::fmt::Write;

use trace::call::Call;
use trace::entry::Carrier;

use super::advice;
use super::figures::{Figures, OfCall};
use super::model::{Run, What};
use crate::amount::bytes;

/// Calls that are listed.
const MOST_CALLS: usize = 8;
/// Calls at the end that are listed.
const MOST_UNDER_WAY: usize = 5;

pub fn summary(run: &Run, figures: &Figures) -> String {
    let mut text = String::new();
    if run.is_empty() {
        return "ulsock: nothing was recorded: no program that was started could load the library \
            (static, setuid, or another user's)\n"
            .to_owned();
    }
    // Writing into a string does not fail.
    let _ = length(&mut text, run, figures)
        .and_then(|()| times(&mut text, figures))
        .and_then(|()| carriers(&mut text, figures))
        .and_then(|()| calls(&mut text, figures))
        .and_then(|()| under_way(&mut text, run))
        .and_then(|()| help(&mut text, run, figures));
    text
}

type Written = Result<(), std::fmt::Error>;

/// A time in three or four digits.
pub fn time(nanos: u64) -> String {
    let nanos = nanos as f64;
    match nanos {
        ..999.5 => format!("{nanos:.0} ns"),
        ..999_500.0 => format!("{:.1} us", nanos / 1e3),
        ..999_500_000.0 => format!("{:.1} ms", nanos / 1e6),
        _ => format!("{:.2} s", nanos / 1e9),
    }
}

pub fn percent(part: u64, all: u64) -> f64 {
    match all {
        0 => 0.0,
        all => 100.0 * part as f64 / all as f64,
    }
}

fn plural(count: u64, one: &str, many: &str) -> String {
    let word = if count == 1 { one } else { many };
    format!("{count} {word}")
}

fn length(text: &mut String, run: &Run, figures: &Figures) -> Written {
    let programs = run.programs.len() as u64;
    let names: Vec<&str> = run.programs.iter().map(|it| it.name.as_str()).collect();
    let mut shown = names[..names.len().min(4)].join(", ");
    if names.len() > 4 {
        shown += ", ...";
    }
    let calls = figures.total(|_| true).count;
    writeln!(
        text,
        "ulsock trace: {} of {} ({shown}): {} with {}, {}",
        time(run.ended.saturating_sub(run.began)),
        plural(programs, "program", "programs"),
        plural(figures.threads, "thread", "threads"),
        plural(calls, "call", "calls"),
        plural(figures.connections, "connection", "connections"),
    )
}

fn times(text: &mut String, figures: &Figures) -> Written {
    let times = &figures.times;
    if times.all == 0 {
        return Ok(());
    }
    writeln!(
        text,
        "\nWhere the time of the threads went ({} from first to last call):",
        time(times.all)
    )?;
    for (part, what) in [
        (
            times.program,
            "in the program itself, and in recording its calls",
        ),
        (times.asleep, "asleep in ulsock"),
        (times.awake, "awake, and what it waited for came"),
        (times.in_vain, "awake in vain"),
        (times.ulsock, "in ulsock, at work"),
        (times.kernel, "in the kernel, at work or waiting"),
    ] {
        if part > 0 {
            let percent = percent(part, times.all);
            writeln!(text, "  {percent:5.1}%  {what} ({})", time(part))?;
        }
    }
    Ok(())
}

fn carriers(text: &mut String, figures: &Figures) -> Written {
    if figures.connections == 0 {
        return Ok(());
    }
    writeln!(text, "\nWhat went by which carrier:")?;
    for carrier in [
        Carrier::Shm,
        Carrier::Nic,
        Carrier::Kernel,
        Carrier::Unknown,
    ] {
        let of = &figures.carriers[carrier as usize];
        if of.calls > 0 {
            writeln!(
                text,
                "  {:8} {}: sent {}, received {}, in {}",
                carrier.name(),
                plural(of.connections, "connection", "connections"),
                bytes(of.sent),
                bytes(of.received),
                plural(of.calls, "call", "calls"),
            )?;
        }
    }
    for (reason, of) in &figures.reasons {
        let connections = plural(of.connections, "connection", "connections");
        writeln!(text, "  on the kernel because of {reason}: {connections}")?;
    }
    Ok(())
}

fn calls(text: &mut String, figures: &Figures) -> Written {
    let mut calls: Vec<(&Call, &OfCall)> = figures.calls.iter().collect();
    if calls.is_empty() {
        return Ok(());
    }
    calls.sort_by_key(|(call, of)| (std::cmp::Reverse(of.time), **call));
    writeln!(text, "\nThe calls, those first that took longest:")?;
    for (call, of) in calls.into_iter().take(MOST_CALLS) {
        let share = percent(of.time, figures.times.all);
        write!(
            text,
            "  {:13} {:>9} times, {share:5.1}% of the time, {} on average, {} at most",
            call.name(),
            of.count,
            time(of.time / of.count.max(1)),
            time(of.longest),
        )?;
        match (of.failed, of.nothing) {
            (0, _) => writeln!(text)?,
            (failed, nothing) if failed == nothing => writeln!(text, ", {nothing} found nothing")?,
            (failed, _) => writeln!(text, ", {failed} failed")?,
        }
    }
    Ok(())
}

/// What was never seen to end.
fn under_way(text: &mut String, run: &Run) -> Written {
    let threads = run.programs.iter().flat_map(|it| &it.threads);
    let mut shown = 0;
    for thread in threads {
        for slice in &thread.slices {
            let What::UnderWay(called) = &slice.what else {
                continue;
            };
            shown += 1;
            if shown <= MOST_UNDER_WAY {
                let length = time(slice.end - slice.start);
                let (name, pid, tid) = (&thread.name, thread.pid, thread.tid);
                let call = called.call.name();
                writeln!(
                    text,
                    "  {name} ({pid}, thread {tid}) was in {call} at the end, for {length}"
                )?;
            }
        }
    }
    match shown.checked_sub(MOST_UNDER_WAY) {
        Some(more) if more > 0 => writeln!(text, "  and {more} more threads were in calls"),
        _ => Ok(()),
    }
}

fn help(text: &mut String, run: &Run, figures: &Figures) -> Written {
    let broken: u64 = run
        .programs
        .iter()
        .map(|it| it.broken)
        .fold(0, u64::saturating_add);
    let mut advice = advice::of(run, figures);
    if broken > 0 {
        advice.push(format!("{broken} entries of the recording were not understood and are left out: the program writes where it should not, or was killed while it wrote."));
    }
    if figures.calls.is_empty() {
        advice.push(
            "No call was recorded. Those of Go programs are not, nor those that do not go through libc."
                .to_owned(),
        );
    }
    if advice.is_empty() {
        return writeln!(text, "\nThe figures show nothing that would help.");
    }
    writeln!(text, "\nWhat would help:")?;
    advice
        .iter()
        .try_for_each(|line| writeln!(text, "  - {line}"))
}
