//! Results that once depended on the carrier do not any more: each case of the `regress` program
//! prints the same on the kernel and on rings.

use tests::ends::{Ends, Side};
use tests::place::Place;

fn run(case: &str, ends: Ends) -> String {
    let place = Place::new(ends).at_once();
    let printed = place.own(Side::Server, "regress").arg(case).limit(30).run();
    let (report, _) = place.report(Side::Server);
    if ends == Ends::Both {
        assert!(report.ring_bytes() > 0, "{case}: {report:?}");
    }
    place.check_quiet();
    printed
}

fn same(case: &str) {
    assert_eq!(run(case, Ends::Kernel), run(case, Ends::both()), "{case}");
}

macro_rules! cases {
    ($($case:ident)*) => {
        $(
            #[test]
            fn $case() {
                same(stringify!($case));
            }
        )*
    };
}

cases! {
    send_after_close
    close_after_shutdown
    send_buffer
    address_space
    data_space
    no_descriptors
    set_of_two_processes
    part_of_all
}
