//! Programs that are written for ulsock, with each other and with ordinary ones.

mod both_doors;
mod c;
mod ends;
mod failures;
mod forks;
mod groups;
mod memory;
mod messages;
mod names;
mod requests;
mod system_calls;

use tests::ends::Side;
use tests::place::Place;
use tests::program::Program;

/// How such a program makes its calls: see `src/bin/native`.
const HOWS: [&str; 4] = ["blocking", "blocking_in_place", "tasks", "tasks_in_place"];

/// One in this place: not preloaded, and off where that side is on kernel TCP.
fn native(place: &Place, side: Side, role: &str, how: &str) -> Program {
    let program = place.own(side, "native").without("LD_PRELOAD");
    let program = program.args(role).args(&format!("how={how}"));
    match place.ends().covers(side) {
        true => program,
        false => program.env("ULSOCK", "0"),
    }
}
