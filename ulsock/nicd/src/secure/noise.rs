//! The cryptographic part of a channel: the handshake's turns, then the sealing of messages. No I/O.

use snow::{Builder, HandshakeState, TransportState};

use super::Closed;
use super::wire::Outbound;
use crate::identity::Identity;
use crate::key::PublicKey;

/// The longest message.
pub const MESSAGE: usize = 1024;

const TAG: usize = 16;
const PATTERN: &str = "Noise_XX_25519_ChaChaPoly_BLAKE2s";

/// Both ends must mean the same protocol: another one has another number here, and fails at once.
const PROLOGUE: &[u8] = b"ulsock nicd control 1";

/// The lengths of XX's three messages without payload: e; e, ee, s, es; s, se.
const TURNS: [usize; 3] = [32, 32 + 32 + TAG + TAG, 32 + TAG + TAG];

/// The room that a sealed message can take.
pub(super) const FRAME: usize = MESSAGE + TAG;

pub(super) enum Noise {
    Handshake {
        state: Box<HandshakeState>,
        turn: usize,
    },
    Open(Box<TransportState>),
    Over,
}

/// What a frame has brought.
pub(super) enum Step {
    /// A turn of the handshake that proves nothing yet.
    Unproven,
    Proven(PublicKey),
    Message(Vec<u8>),
}

impl Noise {
    pub fn initiator(own: &Identity) -> Noise {
        Noise::begin(builder(own).build_initiator())
    }

    pub fn responder(own: &Identity) -> Noise {
        Noise::begin(builder(own).build_responder())
    }

    fn begin(state: Result<HandshakeState, snow::Error>) -> Noise {
        Noise::Handshake {
            state: Box::new(state.expect("all that XX needs is given")),
            turn: 0,
        }
    }

    pub fn is_open(&self) -> bool {
        matches!(self, Noise::Open(_))
    }

    pub fn is_over(&self) -> bool {
        matches!(self, Noise::Over)
    }

    /// Whether a frame of this length can be the next.
    pub fn expects(&self, length: usize) -> bool {
        match self {
            Noise::Handshake { turn, .. } => TURNS.get(*turn) == Some(&length),
            Noise::Open(_) => (TAG + 1..=FRAME).contains(&length),
            Noise::Over => false,
        }
    }

    /// A turn of the handshake, if it is ours.
    pub fn speak(&mut self, outbound: &mut Outbound) {
        let Noise::Handshake { state, turn } = self else {
            return;
        };
        if state.is_handshake_finished() || !state.is_my_turn() {
            return;
        }
        let mut frame = [0; FRAME];
        // Fails only without randomness; then the peer waits for a turn that never comes, and it is late.
        if let Ok(length) = state.write_message(&[], &mut frame) {
            *turn += 1;
            outbound.push(&frame[..length]);
        }
    }

    /// The handshake is over, and we are content with who it is.
    pub fn open(&mut self) {
        if let Noise::Handshake { state, .. } = std::mem::replace(self, Noise::Over)
            && let Ok(transport) = state.into_transport_mode()
        {
            *self = Noise::Open(Box::new(transport));
        }
    }

    pub fn seal(&mut self, message: &[u8], outbound: &mut Outbound) {
        let mut frame = [0; FRAME];
        if let Noise::Open(state) = self {
            let length = state
                .write_message(message, &mut frame)
                .expect("a message fits its frame, and 2^64 of them are never reached");
            outbound.push(&frame[..length]);
        }
    }

    /// A frame of a length that was expected.
    pub fn hear(&mut self, frame: &[u8]) -> Result<Step, Closed> {
        let mut space = [0; FRAME];
        match self {
            Noise::Handshake { state, turn } => {
                state
                    .read_message(frame, &mut space)
                    .map_err(|_| Closed::Forged)?;
                *turn += 1;
                Ok(proven(state))
            }
            Noise::Open(state) => state
                .read_message(frame, &mut space)
                .map(|length| Step::Message(space[..length].to_vec()))
                .map_err(|_| Closed::Forged),
            Noise::Over => Err(Closed::Ended),
        }
    }
}

fn builder(own: &Identity) -> Builder<'_> {
    Builder::new(PATTERN.parse().expect("snow knows the pattern"))
        .local_private_key(own.private())
        .and_then(|builder| builder.prologue(PROLOGUE))
        .expect("each is given once")
}

fn proven(state: &HandshakeState) -> Step {
    match state.get_remote_static().map(<[u8; 32]>::try_from) {
        Some(Ok(key)) => Step::Proven(PublicKey::new(key)),
        _ => Step::Unproven,
    }
}
