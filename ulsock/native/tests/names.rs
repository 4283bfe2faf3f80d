//! Names, for tasks of a program that has sockets already.

#[path = "common/mod.rs"]
mod common;

use common::run;
use ulsock_native::TcpListener;
use ulsock_native::names::{Event, Names};

/// Its subscription is made after ulsock has begun.
#[test]
fn a_task_hears_of_names_after_the_first_socket() {
    run(async {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a listener");
        let address = listener.local_addr().expect("an address");
        let names = Names::open().expect("names");
        let mut events = names.subscribe("late", 0..=9).expect("a subscription");
        for instance in 0..3 {
            let held = names.register("late", instance, address).expect("a name");
            let event = events.event().await.expect("an event");
            assert_eq!(event, Event::Appeared(held.place()));
            let place = held.place();
            drop(held);
            let event = events.event().await.expect("an event");
            assert_eq!(event, Event::Disappeared(place));
        }
    });
}
