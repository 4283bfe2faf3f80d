//! The model notices: each rule that is left out leads to something wrong.

use super::explore::explore;
use super::property::Wrong::{self, *};
use super::rules::Scenario;
use super::rules::Weakness::{self, *};
use super::scenario;

/// Without this rule a run goes wrong in this way. That it does not with it, is shown by the other tests.
fn without(weakness: Weakness, run: Scenario, wrong: Wrong) {
    let weak = Scenario {
        weakness: Some(weakness),
        ..run
    };
    let found = explore(&weak).expect_err("the model does not notice");
    println!("{weakness:?}: {found:?}");
    assert_eq!(found.wrong, wrong, "{weakness:?}: {found:?}");
}

/// [F5], [F11], [F12], [F29]
#[test]
fn bytes_on_the_link() {
    without(NoFrozenBit, scenario([1, 0], 1, 0), Thawed);
    without(AckBeforePublish, scenario([1, 0], 1, 0), AckedUnplaced);
    without(FreeOnSack, scenario([2, 0], 1, 0), FreedUnplaced);
    without(LateFrame, scenario([1, 0], 1, 0), Misread);
}

/// [F3], [F6], [F7], [F8], [F17], [F18]
#[test]
fn promotion() {
    without(AgreeAnywhere, scenario([1, 0], 1, 0), Stray);
    without(WriteBeforeOpen, scenario([0, 1], 1, 1), FalseEof);
    without(AbortWithoutFreeze, scenario([1, 0], 1, 0), Stray);
    without(ForgetAborted, scenario([1, 0], 1, 0), RecordAsData);
    without(NoTokenCheck, scenario([1, 0], 1, 0), FalseEof);
    without(NoEpochCheck, scenario([1, 0], 2, 0), Unresendable);
}

/// [F15], [F19], [F20], [F21], [F22]
#[test]
fn fail_over() {
    without(ResendNothing, scenario([1, 0], 1, 0), Unresendable);
    without(NoSkip, scenario([1, 0], 1, 0), Misread);
    without(ForgetPromise, scenario([1, 0], 1, 1), FalseEof);
    without(WriteWhileResuming, scenario([2, 0], 1, 1), Unresendable);
    without(CloseUnheard, scenario([1, 0], 1, 0), NeedlessError);
    without(CloseUnskipped, scenario([1, 0], 1, 0), NeedlessError);
    without(NoDeadline, scenario([1, 0], 1, 1), Stuck);
}

/// [F13], [F23], [F24], [F25], [F26], [F28], [F30], [F31]
#[test]
fn ends() {
    let sleepy = Scenario {
        stops: true,
        ..scenario([1, 0], 1, 1)
    };
    without(CloseWithoutFinal, scenario([1, 0], 1, 0), FalseEof);
    without(AckEndEarly, scenario([1, 0], 1, 0), NeedlessError);
    without(FinMeansEof, scenario([1, 0], 1, 1), FalseEof);
    without(NoGiveUp, scenario([1, 0], 1, 1), Stuck);
    without(FinAfterError, scenario([1, 1], 1, 0), FalseEof);
    without(FinAtClose, scenario([1, 0], 1, 0), NeedlessError);
    without(FinAtHalfClose, scenario([1, 0], 1, 0), NeedlessError);
    without(NicdOnlyWaits, scenario([1, 0], 1, 1), Stuck);
    without(NoWatchdog, scenario([1, 0], 1, 1), Stuck);
    without(NoLinger, sleepy, Stuck);
    without(CloseForMoved, scenario([2, 0], 1, 1), FalseEof);
    without(NobodyGoesOn, scenario([1, 0], 1, 1), NeedlessError);
}

/// [F3], [F29] What is late from the first promotion, in the second.
#[test]
fn second_promotion() {
    without(LateOpen, scenario([1, 0], 2, 0), Stray);
    without(LateAgree, scenario([1, 0], 2, 0), NeedlessError);
    without(LatePrepare, scenario([1, 0], 2, 0), Thawed);
}

/// [F29] Bytes, ends and acknowledgements of the first promotion would do no harm in the second even if they were
/// taken there: by then all its offsets lie before those of the second.
#[test]
fn offsets_are_never_used_again() {
    for run in [
        scenario([1, 1], 2, 0),
        scenario([2, 0], 2, 0),
        scenario([0, 2], 2, 0),
    ] {
        let late = Scenario {
            weakness: Some(LateBytes),
            ..run
        };
        let seen = explore(&late).expect("no harm");
        println!("{:8} states: {late:?}", seen.states);
    }
}
