//! What threads of a process leave for another one behind a lock, as the parts of a group do: it finds everything, whether it sleeps by a
//! `Sleeper` or waits to be woken.

use loom::sync::{Arc, Mutex, Notify};
use loom::thread;
use netstack::broadcast::{Rung, Sleeper};
use netstack::notice::Notice;

use super::check;

struct Place {
    left: Mutex<(u32, Rung)>,
    notice: Notice,
    rest: Sleeper,
    /// Whether somebody can be woken.
    waits: Mutex<bool>,
    bell: Notify,
}

impl Place {
    fn new() -> Arc<Place> {
        Arc::new(Place {
            left: Mutex::new((0, Rung::default())),
            notice: Notice::new(),
            rest: Sleeper::new(),
            waits: Mutex::new(false),
            bell: Notify::new(),
        })
    }

    /// As the group's thread tells its receiver of changes.
    fn change(&self) {
        let mut left = self.left.lock().unwrap();
        left.0 += 1;
        self.notice.raise();
        if self.rest.must_be_rung(&mut left.1, 0) {
            self.bell.notify();
        }
    }

    fn receive(&self) -> u32 {
        match self.notice.is_raised() && self.notice.lower() {
            true => std::mem::take(&mut self.left.lock().unwrap().0),
            false => 0,
        }
    }

    fn receive_all(&self, count: u32) {
        let mut received = self.receive();
        while received < count {
            self.rest.lie_down(0);
            let more = self.receive();
            received += more;
            if more == 0 {
                self.bell.wait();
            }
            self.rest.get_up();
        }
    }

    /// As the halves of a member leave notes for the group's thread.
    fn note(&self) {
        self.left.lock().unwrap().0 += 1;
        if self.notice.raise() && *self.waits.lock().unwrap() {
            self.bell.notify();
        }
    }

    fn take_all(&self, count: u32) {
        let mut taken = 0;
        while taken < count {
            *self.waits.lock().unwrap() = true;
            match self.notice.lower() {
                true => taken += std::mem::take(&mut self.left.lock().unwrap().0),
                false => self.bell.wait(),
            }
        }
    }
}

fn leave(each: &[u32], leave: fn(&Place), take: fn(&Place, u32)) {
    let place = Place::new();
    let leavers: Vec<_> = each
        .iter()
        .map(|count| {
            let (place, count) = (place.clone(), *count);
            thread::spawn(move || (0..count).for_each(|_| leave(&place)))
        })
        .collect();
    take(&place, each.iter().sum());
    for leaver in leavers {
        leaver.join().unwrap();
    }
    assert_eq!(place.left.lock().unwrap().0, 0);
}

#[test]
fn a_receiver_hears_of_all_changes() {
    check(3, || leave(&[2], Place::change, Place::receive_all));
    check(2, || leave(&[1, 1], Place::change, Place::receive_all));
}

#[test]
fn a_thread_hears_of_all_notes() {
    check(3, || leave(&[2], Place::note, Place::take_all));
    check(2, || leave(&[1, 1], Place::note, Place::take_all));
}
