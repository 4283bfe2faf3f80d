//! Names, where a process has no descriptors left for a while.

use std::time::Duration;

use ulsock_native::TcpListener;
use ulsock_native::names::{Event, Names};

/// How many descriptors this process can have; how many it could have before.
fn limit_descriptors(to: u64) -> u64 {
    let mut limit = libc::rlimit {
        rlim_cur: 0,
        rlim_max: 0,
    };
    // SAFETY: the only test of this program; the structure is read and written.
    unsafe {
        libc::getrlimit(libc::RLIMIT_NOFILE, &mut limit);
        let before = limit.rlim_cur;
        limit.rlim_cur = to;
        libc::setrlimit(libc::RLIMIT_NOFILE, &limit);
        before
    }
}

/// Who cannot look does not take the living for dead, and hears of what has happened meanwhile.
#[test]
fn the_living_do_not_disappear() {
    let names = Names::open().expect("names");
    let service = format!("need.{}", std::process::id());
    let listener = TcpListener::bind("127.0.0.1:0").expect("a listener");
    let address = listener.local_addr().expect("an address");
    let stays = names.register(&service, 1, address).expect("a name");
    let goes = names.register(&service, 2, address).expect("a name");
    let mut events = names.subscribe(&service, 0..=9).expect("a subscription");
    let mut next = |within| {
        let event = events.next_within(Duration::from_millis(within));
        event.expect("a subscription")
    };
    for place in [stays.place(), goes.place()] {
        assert_eq!(next(5000), Some(Event::Appeared(place)));
    }
    let before = limit_descriptors(3);
    let gone = goes.place();
    drop(goes);
    assert_eq!(next(300), None);
    limit_descriptors(before);
    assert_eq!(next(5000), Some(Event::Disappeared(gone)));
    assert_eq!(next(300), None);
}
