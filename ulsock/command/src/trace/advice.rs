//! What would help: only what the figures of this very run show.

use trace::call::Class;

use super::figures::{Figures, OfReason, SHORT_SLEEP, SMALL};
use super::model::Run;
use super::words::{percent, time};

/// Percent of the threads' time, or of calls, from which on something is worth a word.
const WORTH_A_WORD: f64 = 10.0;
/// Calls from which on shares mean something.
const ENOUGH: u64 = 100;

pub fn of(run: &Run, figures: &Figures) -> Vec<String> {
    let mut advice = Vec::new();
    advice.extend(incomplete(run, figures));
    advice.extend(reasons(figures));
    advice.extend(in_vain(figures));
    advice.extend(short_sleeps(figures));
    advice.extend(small_sends(figures));
    advice.extend(found_nothing(figures));
    advice.extend(program_itself(figures));
    advice
}

fn incomplete(run: &Run, figures: &Figures) -> Option<String> {
    if run.programs.iter().any(|it| !it.attached) {
        let names: Vec<&str> = run
            .programs
            .iter()
            .filter(|it| !it.attached)
            .map(|it| it.name.as_str())
            .collect();
        return Some(format!(
            "libulsock_preload.so did not serve {}: it is off there (see `ulsock doctor`), or of another version than this command.",
            names.join(", ")
        ));
    }
    let full = run.programs.iter().filter(|it| it.full_at > 0);
    let full_at = full.map(|it| it.full_at).min()?;
    let after = time(full_at.saturating_sub(run.began));
    Some(format!(
        "The recording was full after {after}, and {} entries are missing: all figures are of the time before. Give more room with --size.",
        figures.dropped
    ))
}

fn reasons(figures: &Figures) -> Vec<String> {
    let calls: u64 = figures.carriers.iter().map(|it| it.calls).sum();
    let worth = |of: &OfReason| {
        percent(of.calls, calls) >= WORTH_A_WORD
            || percent(of.time, figures.times.all) >= WORTH_A_WORD
    };
    let reasons = figures.reasons.iter().filter(|(_, of)| worth(of));
    reasons
        .map(|(name, of)| {
            let share = percent(of.time, figures.times.all);
            let what = format!(
                "{} connections were on kernel TCP at last because of {name} ({:.0}% of the data calls, {share:.0}% of the time)",
                of.connections,
                percent(of.calls, calls)
            );
            format!("{what}: {}", what_to_do(name))
        })
        .collect()
}

fn what_to_do(reason: &str) -> &'static str {
    match reason {
        "no-peer" => {
            "their other ends are not under ulsock. Start those with `ulsock run`, and the same ULSOCK_RUN_DIR."
        }
        "young" => {
            "they end before ulsock offers them to the peer. Connections that are kept for more calls gain; ULSOCK_UPGRADE_AFTER=0 offers them at once."
        }
        "no-nicd" => "their other ends are on other hosts, and no nicd runs here (`ulsock nicd`).",
        _ => "the manual says of each reason what can be done.",
    }
}

fn in_vain(figures: &Figures) -> Option<String> {
    let share = percent(figures.times.in_vain, figures.times.all);
    (share >= WORTH_A_WORD).then(|| {
        format!(
            "{share:.0}% of the time was spent awake in vain: answers take longer than ulsock spins. A shorter ULSOCK_SPIN_US, or --profile frugal, gives that CPU time to others."
        )
    })
}

fn short_sleeps(figures: &Figures) -> Option<String> {
    let share = percent(figures.short_sleeps, figures.sleeps);
    (figures.sleeps >= ENOUGH && share >= 50.0).then(|| {
        format!(
            "{share:.0}% of {} sleeps lasted less than {}, hardly longer than it takes to fall asleep and be woken: if CPUs are idle, --profile latency or a longer ULSOCK_SPIN_US stays awake instead.",
            figures.sleeps,
            time(SHORT_SLEEP)
        )
    })
}

fn small_sends(figures: &Figures) -> Option<String> {
    let in_a_row = percent(figures.sends_in_a_row, figures.sends);
    let small = percent(figures.small_sends, figures.sends);
    (figures.sends >= ENOUGH && in_a_row >= 20.0 && small >= 50.0).then(|| {
        format!(
            "{in_a_row:.0}% of the sends came directly after another one on the same connection, and {small:.0}% had at most {SMALL} bytes: the program would do less work with fewer, larger sends (a buffer, writev)."
        )
    })
}

fn found_nothing(figures: &Figures) -> Option<String> {
    let receives = figures.total(Class::receives);
    let share = percent(receives.nothing, receives.count);
    let time = percent(receives.time, figures.times.all);
    (receives.count >= ENOUGH && share >= 30.0 && time >= WORTH_A_WORD).then(|| {
        format!("{share:.0}% of the receives found nothing (EAGAIN): the program asks for what is not there yet.")
    })
}

fn program_itself(figures: &Figures) -> Option<String> {
    let share = percent(figures.times.program, figures.times.all);
    let calls = figures.total(|_| true).count;
    (calls >= ENOUGH && share >= 80.0).then(|| {
        format!("{share:.0}% of the time was the program's own: faster sockets change little, look at the program with a profiler.")
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::trace::figures::OfCarrier;

    fn figures() -> Figures {
        let mut figures = Figures::default();
        figures.times.all = 1000;
        figures.carriers[0] = OfCarrier {
            calls: 100,
            ..OfCarrier::default()
        };
        figures
    }

    fn all(figures: &Figures) -> String {
        let run = Run::of(Vec::new(), 1, |_| false);
        of(&run, figures).join("\n")
    }

    #[test]
    fn nothing_is_said_without_a_reason() {
        assert_eq!(all(&Figures::default()), "");
        assert_eq!(all(&figures()), "");
    }

    #[test]
    fn each_is_said_when_the_figures_show_it() {
        let mut no_peer = figures();
        let of = OfReason {
            connections: 2,
            calls: 38,
            time: 0,
        };
        no_peer.reasons.insert("no-peer", of);
        assert!(all(&no_peer).contains("38% of the data calls"));
        assert!(all(&no_peer).contains("ulsock run"));
        let mut in_vain = figures();
        in_vain.times.in_vain = 99;
        assert_eq!(all(&in_vain), "");
        in_vain.times.in_vain = 100;
        assert!(all(&in_vain).contains("ULSOCK_SPIN_US"));
        let mut sends = figures();
        (sends.sends, sends.sends_in_a_row, sends.small_sends) = (100, 50, 80);
        assert!(all(&sends).contains("writev"));
        let mut sleeps = figures();
        (sleeps.sleeps, sleeps.short_sleeps) = (99, 99);
        assert_eq!(all(&sleeps), "");
        (sleeps.sleeps, sleeps.short_sleeps) = (100, 99);
        assert!(all(&sleeps).contains("latency"));
    }
}
