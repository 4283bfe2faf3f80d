//! What a run is about, and the rules that can be left out to see whether the model notices.

use super::state::Side;

/// A rule that is broken on purpose.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Weakness {
    /// [F5] An engine publishes also in a frozen word.
    NoFrozenBit,
    /// [F11] What lies in the ring is acknowledged, published or not.
    AckBeforePublish,
    /// [F12] Space is freed up to the highest byte selectively acknowledged.
    FreeOnSack,
    /// [F13] CLOSE ends the stream wherever it is.
    CloseWithoutFinal,
    /// [F13] CLOSE is acknowledged before ENDED stands in the word.
    AckEndEarly,
    /// [F23] FIN is the end, also on the link.
    FinMeansEof,
    /// [F22] After a fail-over FIN is the end wherever it comes.
    ForgetPromise,
    /// [F17] Whatever comes first is taken for RESUME.
    NoTokenCheck,
    /// [F17] A RESUME of an earlier epoch is taken for one of this.
    NoEpochCheck,
    /// [F29] A late packet of an earlier connection is accepted.
    LateFrame,
    /// [F3] B agrees wherever it stands.
    AgreeAnywhere,
    /// [F7] Bytes are accepted into the ring before OPEN.
    WriteBeforeOpen,
    /// [F8] A gives up without freezing its word.
    AbortWithoutFreeze,
    /// [F21] The socket is closed though the peer's RESUME is still to come.
    CloseUnheard,
    /// [F19] Bytes that come twice are read twice.
    NoSkip,
    /// [F19] The bytes after RESUME are the next ones, whatever the peer has.
    ResendNothing,
    /// [F20] Bytes are accepted while the connection resumes.
    WriteWhileResuming,
    /// [F24] FIN goes with close, whatever is on its way.
    FinAtClose,
    /// [F25] A half-close on the link sends FIN as well.
    FinAtHalfClose,
    /// [F24] nicd only waits for acknowledgements: it does not fail over.
    NicdOnlyWaits,
    /// [F15] A side that waits for acknowledgements has no deadline.
    NoDeadline,
    /// [F18] A does not know the RESUME of a promotion that it gave up.
    ForgetAborted,
    /// [F28] A stopped nicd is left alone.
    NoWatchdog,
    /// [F23] A side that has seen FIN waits for ENDED, however long.
    NoGiveUp,
    /// [F23] A side that has given up closes as usual.
    FinAfterError,
    /// [F26] CLOSE goes out for a dead program whose word was frozen.
    CloseForMoved,
    /// [F31] nicd does not go on for a dead program.
    NobodyGoesOn,
    /// [F21] The socket is closed with bytes unread that the ring had.
    CloseUnskipped,
    /// [F30] A side that has closed waits for the peer's program, however long.
    NoLinger,
    /// [F29] B's engine takes OPEN of an earlier promotion for one of this.
    LateOpen,
    /// [F29] A's engine takes AGREE of an earlier promotion for one of this.
    LateAgree,
    /// [F3] B does not compare the epoch with those that it has agreed to.
    LatePrepare,
    /// [F29] DATA, CLOSE and acknowledgements of an earlier promotion are taken for ones of this.
    LateBytes,
}

#[derive(Clone, Copy, Debug)]
pub struct Scenario {
    /// Bytes that each side writes before it closes.
    pub bytes: [u8; 2],
    /// Promotions tried at most.
    pub epochs: u8,
    /// Faults in one run at most.
    pub faults: u8,
    /// Bytes that a ring holds.
    pub ring: u8,
    /// This side closes its socket without waiting for the other's bytes.
    pub hasty: Option<Side>,
    /// A conversation: this side speaks first, the other answers when it has read all, and nobody closes
    /// before it has read all.
    pub first: Option<Side>,
    /// Among the faults is that a program makes no calls any more, or not for long.
    pub stops: bool,
    pub weakness: Option<Weakness>,
}

impl Scenario {
    pub fn is_weak(&self, weakness: Weakness) -> bool {
        self.weakness == Some(weakness)
    }
}
