//! The attacks: a table of names and functions. Each does one thing wrong, and then only holds what it has.

mod bells;
mod claims;
mod handshake;
mod memory;
mod offers;
mod scribble;
mod steps;

use super::scene::Scene;

/// Why an attack could not be made: then it has shown nothing.
pub type Outcome = Result<(), &'static str>;

/// An attack. It runs in a process of its own, as the victim's user or as another.
#[derive(Clone, Copy)]
pub struct Case {
    pub name: &'static str,
    pub run: fn(&mut Scene) -> Outcome,
    /// Whom it runs as if not as the victim's user.
    pub stranger: u32,
    /// It changes its user itself, after what only root may do.
    pub stays_root: bool,
}

/// Users that nobody else is. Who has spoilt its table of offers is not heard by who has seen that.
const STRANGER: u32 = 54_321;
const FORGER: u32 = 54_322;

const fn case(name: &'static str, run: fn(&mut Scene) -> Outcome) -> Case {
    Case {
        name,
        run,
        stranger: STRANGER,
        stays_root: false,
    }
}

const fn forgery(name: &'static str, run: fn(&mut Scene) -> Outcome) -> Case {
    Case {
        stranger: FORGER,
        ..case(name, run)
    }
}

const fn as_root(name: &'static str, run: fn(&mut Scene) -> Outcome) -> Case {
    Case {
        stays_root: true,
        ..case(name, run)
    }
}

/// All of them.
pub const CASES: &[Case] = &[
    case("steps::silence", steps::silence),
    case("steps::no_greeting", steps::no_greeting),
    case("steps::no_confirmation", steps::no_confirmation),
    case(
        "steps::no_word_after_confirmation",
        steps::no_word_after_confirmation,
    ),
    case("steps::no_claim", steps::no_claim),
    case("steps::stray_byte", steps::stray_byte),
    case("steps::ends_that_wait", steps::ends_that_wait),
    case(
        "steps::claim_and_nothing_else",
        steps::claim_and_nothing_else,
    ),
    case("steps::killed_at_each", steps::killed_at_each),
    case("steps::stopped_at_each", steps::stopped_at_each),
    case("handshake::wrong_versions", handshake::wrong_versions),
    case(
        "handshake::greetings_without_end",
        handshake::greetings_without_end,
    ),
    case(
        "handshake::every_kind_and_length",
        handshake::every_kind_and_length,
    ),
    case(
        "handshake::too_many_descriptors",
        handshake::too_many_descriptors,
    ),
    case("handshake::to_who_claims", handshake::to_who_claims),
    case(
        "handshake::channels_without_end",
        handshake::channels_without_end,
    ),
    case("memory::wrong_pages", memory::wrong_pages),
    case("memory::wrong_segments", memory::wrong_segments),
    case("memory::segments_without_end", memory::segments_without_end),
    case("memory::taken_away", memory::taken_away),
    case("memory::never_released", memory::never_released),
    case("claims::guessed", claims::guessed),
    case("claims::without_end", claims::without_end),
    case(
        "claims::of_blocks_that_are_not",
        claims::of_blocks_that_are_not,
    ),
    case("claims::twice", claims::twice),
    as_root(
        "claims::from_another_namespace",
        claims::from_another_namespace,
    ),
    case("bells::of_every_sort", bells::of_every_sort),
    case("bells::for_everybody", bells::for_everybody),
    case("bells::rung_without_end", bells::rung_without_end),
    case("bells::shut", bells::shut),
    forgery("offers::for_others", offers::for_others),
    forgery("offers::of_nonsense", offers::of_nonsense),
    forgery("offers::truncated", offers::truncated),
    forgery("offers::no_file", offers::no_file),
    forgery("offers::other_cookies", offers::other_cookies),
    as_root(
        "scribble::small_words_of_a_caller",
        scribble::small_words_of_a_caller,
    ),
    as_root(
        "scribble::small_words_of_the_called",
        scribble::small_words_of_the_called,
    ),
    as_root(
        "scribble::large_words_of_a_caller",
        scribble::large_words_of_a_caller,
    ),
    as_root(
        "scribble::large_words_of_the_called",
        scribble::large_words_of_the_called,
    ),
    as_root(
        "scribble::while_it_is_stopped",
        scribble::while_it_is_stopped,
    ),
    as_root("scribble::wires", scribble::wires),
    as_root("scribble::boards", scribble::boards),
    as_root("scribble::everywhere", scribble::everywhere),
];

/// The one of this name.
pub fn named(name: &str) -> Option<&'static Case> {
    CASES.iter().find(|case| case.name == name)
}
