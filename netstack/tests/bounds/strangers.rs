//! A host that has not confirmed gets no more bytes than it sends.

use netstack::link::Dropped;
use netstack::wire::body::Hello;

use super::hostile::{confirm, hello};
use super::victim::{Victim, settles};

/// [X2] [X3] [H2] However many say HELLO: no memory, and an answer that is shorter.
#[test]
fn greetings() {
    let mut victim = Victim::new();
    settles(&mut victim, 10_000, 0, |victim, round| {
        let way = (round % 8) as usize;
        for from in 0..3 {
            let stranger = Hello {
                incarnation: round << 8 | from | 1 << 60,
                tag: round as u32,
            };
            let hello = hello(stranger, &victim.ways[way]);
            assert_eq!(victim.hear(way, &hello), Ok(()));
            // One answer for the last that asked.
            if round % 2 == 0 {
                assert_eq!(victim.say_all(1).len(), 1);
            }
            assert!(victim.said <= victim.heard);
        }
        assert!(victim.say_all(1).len() <= 1);
        assert!(!victim.link.is_up() && victim.link.deadline().is_none());
    });
    assert_eq!(victim.link.connections(), 0);
}

/// [X2] [X3] [H4] Nor for CONFIRM without having heard the challenge, nor for noise.
#[test]
fn guesses() {
    let mut victim = Victim::new();
    let me = Hello {
        incarnation: 1,
        tag: 2,
    };
    settles(&mut victim, 10_000, 0, |victim, round| {
        let way = (round % 8) as usize;
        let guess = confirm(
            me,
            round.wrapping_mul(0x9e37_79b9_7f4a_7c15),
            &victim.ways[way],
        );
        assert_eq!(victim.hear(way, &guess), Err(Dropped::Handshake));
        let noise: Vec<u8> = (0..round % 1500).map(|byte| (byte * round) as u8).collect();
        assert!(victim.hear(way, &noise).is_err());
        assert_eq!(victim.say(), None);
    });
    assert!(!victim.link.is_up());
}
