//! Any value in any shared word: small words exhaustively, the others at their edges and at random.

use std::thread;
use std::time::Duration;

use super::super::accomplice::Accomplice;
use super::super::memory::{
    BOARD, BOARDS, BOARDS_OF_SIDE, CONNS, DATA_WIRE, LEVELS, OF_BOARD, OF_DIRECTION, OF_SIDE,
    SPACE_WIRE, Word, direction, ring, segment_size, side,
};
use super::super::scene::{Scene, note};
use super::Outcome;
use crate::rng::Rng;

/// How long a value is left to do harm.
const PAUSE: Duration = Duration::from_micros(700);

/// Values at which something could turn over, and what is near the word's own.
fn edges(word: &Word, now: u64) -> Vec<u64> {
    let mask = u64::MAX >> (64 - 8 * word.size);
    let sizes = LEVELS.iter().flat_map(|size| [*size - 1, *size, *size + 1]);
    let near = [1, 2, 7, 8, 9, 1 << 14, 1 << 22, 1 << 60]
        .into_iter()
        .flat_map(|step| [now.wrapping_add(step), now.wrapping_sub(step)]);
    let ends = [
        0,
        1,
        1 << 31,
        1 << 60,
        1 << 63,
        u64::MAX,
        u64::MAX - 1,
        1 << 16,
        0xffff_ffff,
    ];
    let values = ends.into_iter().chain(sizes).chain(near);
    // A mark has its carrier in the lowest bits.
    let marks = (0..8).map(|code| now << 3 | code);
    values.chain(marks).map(|value| value & mask).collect()
}

/// Where a word is in the blocks of a segment: of each direction, or of each side.
fn places(word: &Word, of_direction: bool, conns: &[u32]) -> Vec<u64> {
    let place = if of_direction { direction } else { side };
    let of_conn = |conn: &u32| [0, 1].map(|which| place(*conn, which) + word.at);
    conns.iter().flat_map(of_conn).collect()
}

fn words() -> impl Iterator<Item = (&'static Word, bool)> {
    let of_directions = OF_DIRECTION.iter().map(|word| (word, true));
    of_directions.chain(OF_SIDE.iter().map(|word| (word, false)))
}

/// One value after the other, each in one place that the seed chooses, while bytes flow.
fn scribble(
    accomplice: &mut Accomplice<'_>,
    rng: &mut Rng,
    (word, of_direction): (&Word, bool),
    values: fn(&Word, u64) -> Vec<u64>,
) -> Outcome {
    let (words, conns) = accomplice.shared()?;
    let now = words.get(places(word, of_direction, &conns)[0], word.size);
    for value in values(word, now) {
        let (words, conns) = accomplice.shared()?;
        let place = rng.pick(&places(word, of_direction, &conns));
        note(format_args!("{} at {place}: {value:#x}", word.name));
        words.put(place, word.size, value);
        thread::sleep(PAUSE);
    }
    Ok(())
}

fn small(mut accomplice: Accomplice<'_>, mut rng: Rng) -> Outcome {
    let all = |word: &Word, _| (0..=word.small).collect();
    for word in words().filter(|(word, _)| word.small > 0) {
        scribble(&mut accomplice, &mut rng, word, all)?;
    }
    accomplice.hold()
}

pub fn small_words_of_a_caller(scene: &mut Scene) -> Outcome {
    small(Accomplice::calling(scene), scene.rng.clone())
}

pub fn small_words_of_the_called(scene: &mut Scene) -> Outcome {
    small(Accomplice::called(scene), scene.rng.clone())
}

/// Some of the words, which the seed chooses: all of them take minutes.
fn large(mut accomplice: Accomplice<'_>, mut rng: Rng) -> Outcome {
    let all: Vec<_> = words().collect();
    for _ in 0..8 {
        let word = rng.pick(&all);
        scribble(&mut accomplice, &mut rng, word, edges)?;
    }
    accomplice.hold()
}

pub fn large_words_of_a_caller(scene: &mut Scene) -> Outcome {
    large(Accomplice::calling(scene), scene.rng.clone())
}

pub fn large_words_of_the_called(scene: &mut Scene) -> Outcome {
    large(Accomplice::called(scene), scene.rng.clone())
}

/// The victim alone acts on what it finds, and nobody puts it right.
pub fn while_it_is_stopped(scene: &mut Scene) -> Outcome {
    let (mut accomplice, mut rng) = (Accomplice::calling(scene), scene.rng.clone());
    let all: Vec<_> = words().collect();
    for _ in 0..60 {
        let (segment, conns) = accomplice.shared()?;
        accomplice.stop();
        let (word, of_direction) = rng.pick(&all);
        for place in places(word, of_direction, &conns) {
            let now = segment.get(place, word.size);
            let value = rng.pick(&edges(word, now));
            note(format_args!("{} at {place}: {value:#x}", word.name));
            segment.put(place, word.size, value);
        }
        thread::sleep(Duration::from_millis(3));
        accomplice.go_on();
    }
    accomplice.hold()
}

/// Whoever publishes something finds everybody waiting for it, under names that nobody has.
pub fn wires(scene: &mut Scene) -> Outcome {
    let (mut accomplice, mut rng) = (Accomplice::calling(scene), scene.rng.clone());
    for _ in 0..300 {
        let (segment, conns) = accomplice.shared()?;
        let block = direction(rng.pick(&conns), rng.bits() % 2);
        let wire = block + rng.pick(&[DATA_WIRE, SPACE_WIRE]);
        let any = rng.bits();
        // A waiter's number, and above it a board's: the last ones that there are, the first that are not, and any.
        let waiter = rng.pick(&[0, 4095, 4096, 0xffff, any]) & 0xffff;
        let board = rng.pick(&[0, 1, 32, 33, 0xffff, any >> 16]) & 0xffff;
        for slot in 0..8 {
            segment.put(wire + 16 + 4 * slot, 4, board << 16 | waiter);
        }
        segment.put(wire + 8, 8, 0);
        segment.put(wire, 4, 0xff);
        thread::sleep(PAUSE);
    }
    accomplice.hold()
}

pub fn boards(scene: &mut Scene) -> Outcome {
    let (mut accomplice, mut rng) = (Accomplice::calling(scene), scene.rng.clone());
    for _ in 0..300 {
        let (segment, _) = accomplice.shared()?;
        let board = rng.bits() % (2 * BOARDS_OF_SIDE);
        for word in &OF_BOARD {
            let any = rng.bits();
            let value = rng.pick(&[u64::MAX, 1, 1 << 63, any]);
            segment.put(BOARDS + board * BOARD + word.at, word.size, value);
        }
        thread::sleep(PAUSE);
    }
    accomplice.hold()
}

/// Nonsense over blocks, boards and rings alike, as fast as it can be written.
pub fn everywhere(scene: &mut Scene) -> Outcome {
    let (mut accomplice, mut rng) = (Accomplice::called(scene), scene.rng.clone());
    for _ in 0..40 {
        let (segment, conns) = accomplice.shared()?;
        for _ in 0..500 {
            let conn = rng.pick(&conns);
            segment.put(anywhere(&mut rng, conn), 8, rng.bits());
        }
    }
    accomplice.hold()
}

fn anywhere(rng: &mut Rng, conn: u32) -> u64 {
    let at = rng.bits();
    match rng.below(4) {
        0 => direction(conn, 0) + at % 1024 / 8 * 8,
        1 => ring(CONNS, 0, conn, at % 2) + at % LEVELS[0] / 8 * 8,
        2 => at % 16384 / 8 * 8,
        _ => at % segment_size(CONNS) / 8 * 8,
    }
}
