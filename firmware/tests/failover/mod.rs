//! Two libraries, their engines, and kernel TCP between them: connections are promoted and fail over while
//! engines die, stop and wake, links are cut, and messages are lost. Whatever happens, every byte
//! arrives once, in order, and the streams end where they end.

mod library;
mod pipe;
mod scene;

use library::Score;
use scene::{Scene, Trouble};

fn play(seeds: std::ops::Range<u64>, troubles: &[Trouble]) -> Score {
    let scores = seeds.map(|seed| Scene::new(seed, troubles).play().score());
    scores.fold(Score::default(), |all, one| all + one)
}

/// All troubles at random, and everything that a side can do about them.
#[test]
fn whatever_happens() {
    let score = play(0..300, &Trouble::ALL);
    let Score {
        by_link, by_kernel, ..
    } = score;
    assert!(by_link > 1_000_000 && by_kernel > 1_000_000, "{score:?}");
    assert!(score.skipped > 10_000 && score.resumed > 100, "{score:?}");
    let rare = [score.given_up, score.answered, score.followed];
    assert!(rare.iter().all(|count| *count > 10), "{score:?}");
}

/// Without any trouble the link carries nearly everything.
#[test]
fn nothing_happens() {
    let score = play(0..20, &[]);
    assert!(score.by_link > 9 * score.by_kernel, "{score:?}");
    assert_eq!((score.resumed, score.given_up, score.skipped), (0, 0, 0));
}

/// Each trouble alone.
#[test]
fn one_thing_happens() {
    for trouble in Trouble::ALL {
        play(0..40, &[trouble]);
    }
}
