//! Everything at once: see `tests/chaos`, which runs the same for hours.

use tests::ends::{Ends, kernel_only};
use tests::place::Place;
use tests::program::{Program, built};

const SECONDS: u64 = 35;
const SEED: u64 = 1;

/// Programs are killed, stopped, steered, and left without descriptors and room; every byte is accounted for.
#[test]
fn chaos() {
    if kernel_only() {
        return;
    }
    let place = Place::new(Ends::Kernel);
    let finished = Program::new(built("chaos"), &place.folder().join("chaos"))
        .without_ulsock()
        .args(&format!("run seconds={SECONDS} seed={SEED} verbose=true"))
        .limit(SECONDS + 120)
        .start()
        .wait();
    let (output, errors) = (finished.output, finished.errors);
    assert!(finished.status.success(), "{output}\n{errors}");
    assert!(output.contains("every byte accounted for"), "{output}");
}
