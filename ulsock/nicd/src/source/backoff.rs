//! Pauses between tries to reach a source that is away.

use std::time::Duration;

const SHORTEST: Duration = Duration::from_millis(200);
const LONGEST: Duration = Duration::from_secs(30);

/// Each pause is about twice as long as the one before.
pub struct Backoff(Duration);

impl Default for Backoff {
    fn default() -> Backoff {
        Backoff(SHORTEST)
    }
}

impl Backoff {
    /// The next pause. It differs by chance from half to one and a half of what is usual: a thousand hosts that have lost the
    /// same server do not come back at the same moment.
    pub fn pause(&mut self) -> Duration {
        let usual = self.0;
        self.0 = (usual * 2).min(LONGEST);
        jittered(usual)
    }

    /// It was reached.
    pub fn reset(&mut self) {
        self.0 = SHORTEST;
    }
}

fn jittered(usual: Duration) -> Duration {
    let share = os::random().unwrap_or_default() % 1000;
    usual / 2 + usual.mul_f64(share as f64 / 1000.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pauses_grow_to_a_limit_and_are_never_the_same_for_all() {
        let mut backoff = Backoff::default();
        for usual in [200, 400, 800, 1600, 3200, 6400, 12800, 25600, 30000, 30000] {
            let pause = backoff.pause().as_millis();
            assert!(
                (usual / 2..=usual * 3 / 2).contains(&pause),
                "{pause} of {usual}"
            );
        }
        backoff.reset();
        assert!(backoff.pause() <= SHORTEST * 3 / 2);
        let pauses: std::collections::HashSet<u128> =
            (0..50).map(|_| jittered(LONGEST).as_millis()).collect();
        assert!(pauses.len() > 10);
    }
}
