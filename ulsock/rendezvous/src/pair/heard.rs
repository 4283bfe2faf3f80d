//! Whether a sleeper of the peer's has been woken: what [`super::Pair::ring`] answers.

/// What has become of a bell that was to be rung.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Heard {
    /// Nobody sleeps there, who waits has seen it by itself.
    Awake,
    Rung,
    /// We have no bell yet of one that sleeps: it is rung when that comes.
    Later,
}
