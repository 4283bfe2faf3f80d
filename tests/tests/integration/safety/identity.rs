//! Who is at the other end: what only looks like it gets no rings.

use tests::ends::{Ends, Side, kernel_only};
use tests::place::Place;

use crate::script;

/// A connection that the kernel has led elsewhere, beside one between the very addresses that its server sees.
#[test]
fn a_redirected_connection_is_not_taken_for_another() {
    for place in [
        Place::new(Ends::both()),
        Place::new(Ends::both()).at_once(),
        Place::new(Ends::both()).eager(),
    ] {
        let program = place.client("unshare").args("-n /usr/bin/python3");
        let said = program.arg(script("redirected.py")).limit(60).run();
        assert_eq!(said, "ok\n");
        let (report, _) = place.report(Side::Client);
        let noted = report.reasons.contains_key("identity");
        assert!(noted || kernel_only(), "{report:?}");
    }
}
