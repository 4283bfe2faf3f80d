//! What a run must have come by, lest it prove something about nothing.

use std::collections::BTreeSet;

use super::kernel::Item;
use super::state::{EPOCHS, Holder, Run, SIDES, Side, Stage, Verdict, World};

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Landmark {
    /// The link carries both directions.
    Promoted,
    /// The same for the second time.
    PromotedAgain,
    /// A program has everything, and part of it came twice or from two carriers.
    EofAfterResume,
    /// A running engine has bytes for a ring that was frozen before it could publish them.
    LateEngine,
    /// nicd resends what a program left behind.
    NicdResends,
    /// A RESUME of an earlier promotion arrives in a later one.
    StaleResume,
    /// B resumes what A had given up.
    ResumeAfterAbort,
    /// FIN without ENDED on the link.
    FinAsks,
    /// A program dies before what it promised is sent.
    BrokenPromise,
    /// Both ends of the stream are in one ring: full.
    FullRing,
    /// The link carries both directions for the second time, after a fail-over, and there are late packets of the
    /// first time: OPEN, bytes in both directions or one, acknowledgements.
    LateFrames,
    /// Both sides have bytes that the other may lack, and send them by the kernel.
    BothResend,
    /// One has left while the other's program slept, with RESUME in the kernel.
    LeftAsleep,
    /// And that one wakes, and is about to read it.
    WokeUp,
}

pub type Landmarks = BTreeSet<Landmark>;

/// Those at which a state is.
pub fn pass(world: &World) -> impl Iterator<Item = Landmark> + use<'_> {
    use Landmark::*;
    let both = |epoch: u8| {
        let linked = |side: Side| {
            let end = &world.ends[side as usize];
            end.stage == Stage::Linked && end.epoch == epoch
        };
        SIDES.into_iter().all(linked)
    };
    let any = |test: fn(&World, Side) -> bool| SIDES.into_iter().any(|side| test(world, side));
    [
        (Promoted, both(1)),
        (PromotedAgain, both(2)),
        (EofAfterResume, any(is_eof_after_resume)),
        (LateEngine, any(is_late_engine)),
        (NicdResends, any(nicd_resends)),
        (StaleResume, any(is_stale_resume)),
        (ResumeAfterAbort, is_resume_after_abort(world)),
        (FinAsks, any(fin_asks)),
        (BrokenPromise, any(is_broken_promise)),
        (FullRing, any(is_full_ring)),
        (LateFrames, both(2) && has_late_frames(world)),
        (
            BothResend,
            SIDES.into_iter().all(|side| resends(world, side)),
        ),
        (
            LeftAsleep,
            any(|world, side| is_left(world, side) && world.ends[side as usize].stopped),
        ),
        (
            WokeUp,
            any(|world, side| is_left(world, side) && world.calls(side) && world.faults == 1),
        ),
    ]
    .into_iter()
    .filter_map(|(landmark, here)| here.then_some(landmark))
}

fn is_eof_after_resume(world: &World, side: Side) -> bool {
    let end = &world.ends[side as usize];
    let peer = &world.ends[side.other() as usize];
    let resumed = end.stage == Stage::Kernel && end.epoch > 0 && !end.aborted;
    resumed && end.verdict == Verdict::Eof && end.read > 0 && peer.epoch == end.epoch
}

fn is_late_engine(world: &World, side: Side) -> bool {
    let engine = &world.engines[side as usize];
    let late = |epoch: usize| {
        let tail = world.segments[side as usize][epoch].tail;
        tail.frozen && engine.points[epoch].islands >> tail.offset != 0
    };
    engine.run == Run::Up && (0..EPOCHS).any(late)
}

fn nicd_resends(world: &World, side: Side) -> bool {
    let end = &world.ends[side as usize];
    end.holder == Holder::Nicd && end.stage == Stage::Resending
}

fn is_stale_resume(world: &World, side: Side) -> bool {
    let end = &world.ends[side as usize];
    match world.pipes[side.other() as usize].front() {
        Some(Item::Resume(record)) => record.epoch < end.epoch,
        _ => false,
    }
}

fn is_resume_after_abort(world: &World) -> bool {
    let front = world.pipes[Side::B as usize].front();
    world.ends[Side::A as usize].aborted && matches!(front, Some(Item::Resume(_)))
}

fn fin_asks(world: &World, side: Side) -> bool {
    let pipe = &world.pipes[side.other() as usize];
    let fin = pipe.len() == 0 && pipe.tip == super::kernel::Tip::Fin;
    fin && world.ends[side as usize].stage == Stage::Linked && !world.tail(side).ended
}

fn is_broken_promise(world: &World, side: Side) -> bool {
    let end = &world.ends[side as usize];
    let peer = &world.ends[side.other() as usize];
    peer.crashed && end.heard && end.at < end.promised && end.verdict == Verdict::Error
}

fn is_full_ring(world: &World, side: Side) -> bool {
    let full = |epoch: usize| {
        let segment = &world.segments[side as usize][epoch];
        segment.filled - segment.freed == super::RING
    };
    (0..EPOCHS).any(full)
}

fn has_late_frames(world: &World) -> bool {
    SIDES.into_iter().any(|side| {
        let begin = world.segments[side as usize][0].begin;
        let carried = world.wires[side as usize][0].sent > begin;
        carried && world.wires[side.other() as usize][0].ack > begin
    })
}

fn resends(world: &World, side: Side) -> bool {
    let end = &world.ends[side as usize];
    end.stage == Stage::Resending && end.next < end.written
}

/// The peer has gone without a fault of its own, after it has resumed.
fn is_left(world: &World, side: Side) -> bool {
    let peer = &world.ends[side.other() as usize];
    let resumes = matches!(
        world.pipes[side.other() as usize].front(),
        Some(Item::Resume(_))
    );
    resumes && peer.holder == Holder::Gone && !peer.crashed
}
