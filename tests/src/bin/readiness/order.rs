//! Events are told in the order in which they came, whoever carries them.

use std::ffi::c_int;
use std::os::fd::RawFd;
use std::sync::mpsc;

use libc::{EPOLLET, EPOLLIN};

use crate::set::Set;
use crate::world::*;

/// A connection that stays on the kernel: somebody may want signals from it.
fn on_kernel() -> Ends {
    let ends = fresh();
    for fd in [ends.near, ends.far] {
        // SAFETY: plain numbers.
        assert_eq!(unsafe { libc::fcntl(fd, libc::F_SETOWN, 0) }, 0);
    }
    ends.warm_up();
    ends
}

/// The data of what is told, as it is told.
fn told(set: Set, timeout_ms: c_int) -> String {
    let mut events = [libc::epoll_event { events: 0, u64: 0 }; 64];
    // SAFETY: pointer and length describe `events`.
    let n = unsafe { libc::epoll_wait(set.0, events.as_mut_ptr(), 64, timeout_ms) };
    let told = events[..n.max(0) as usize].iter();
    let told: Vec<String> = told.map(|event| { event.u64 }.to_string()).collect();
    told.join(" ")
}

/// Ten orders of six numbers.
fn orders() -> impl Iterator<Item = [usize; 6]> {
    (0..10).map(|turn| {
        let mut order = [0, 1, 2, 3, 4, 5];
        order.rotate_left(turn % 6);
        order.swap(turn % 3, 5 - turn % 2);
        order
    })
}

fn read_all(fds: &[RawFd]) {
    for fd in fds {
        recv(*fd, 100);
    }
}

/// Sends in all orders to a set that nobody waits for, and to one in which a thread sleeps.
fn compare_orders(members: &[Ends], mode: c_int) {
    let set = Set::new();
    for (ends, number) in members.iter().zip(0..) {
        set.add(ends.far, EPOLLIN | mode, number);
    }
    let far: Vec<RawFd> = members.iter().map(|ends| ends.far).collect();
    // Whoever was told is looked at once more, and is idle from then on.
    let quiet = || {
        read_all(&far);
        assert_eq!(told(set, 0), "");
    };
    for order in orders() {
        quiet();
        speak(members, &order);
        say(format!("{order:?}"), told(set, 0));
    }
    for order in orders() {
        quiet();
        let (first, rest) = told_asleep(set, members, order);
        say(format!("asleep, {order:?}"), first);
        say("rest", rest);
    }
}

/// What a thread asleep in the set is told when the first speaks, and then when all have. Each of the two threads waits
/// for the other, so that nothing depends on how soon it runs.
fn told_asleep(set: Set, members: &[Ends], order: [usize; 6]) -> (String, String) {
    let (name, named) = mpsc::channel();
    let (tell, first) = mpsc::channel();
    let (go_on, all_sent) = mpsc::channel();
    let sleeper = std::thread::spawn(move || {
        // SAFETY: no arguments.
        name.send(unsafe { libc::gettid() }).expect("speaker");
        tell.send(told(set, 5000)).expect("speaker");
        all_sent.recv().expect("speaker");
        told(set, 0)
    });
    await_sleep(named.recv().expect("sleeper"));
    speak(members, &order[..1]);
    let first = first.recv().expect("sleeper");
    speak(members, &order[1..]);
    go_on.send(()).expect("sleeper");
    (first, sleeper.join().expect("sleeper"))
}

/// A byte to each of these, in this order; all have come.
fn speak(members: &[Ends], order: &[usize]) {
    for member in order {
        send(members[*member].near, 1);
    }
    for member in order {
        await_bytes(members[*member].far, 1);
    }
    settle();
}

pub fn on_rings() {
    let members: Vec<Ends> = (0..6).map(|_| warm()).collect();
    compare_orders(&members, 0);
    let members: Vec<Ends> = (0..6).map(|_| warm()).collect();
    compare_orders(&members, EPOLLET);
}

/// Before one on a ring speaks one that is on the kernel, or the other way round.
pub fn on_both() {
    let (ring, kernel, set) = (warm(), on_kernel(), Set::new());
    set.add(ring.far, EPOLLIN, 1);
    set.add(kernel.far, EPOLLIN, 2);
    for round in 0..40 {
        read_all(&[ring.far, kernel.far]);
        say(round, told(set, 0));
        let order = match round % 4 {
            0 | 3 => [&kernel, &ring],
            _ => [&ring, &kernel],
        };
        for ends in order {
            send(ends.near, 1);
        }
        for ends in order {
            await_bytes(ends.far, 1);
        }
        settle();
        // A kernel that has long been quiet is asked at every eighth wait, unless somebody says more.
        if round % 4 == 0 || round % 4 == 3 {
            say(round, told(set, 0));
        } else {
            say(round, set.all());
        }
    }
}

/// A new connection, its bytes, and one that is older and faster.
pub fn after_a_new_one() {
    let (ring, set) = (warm(), Set::new());
    set.add(ring.far, EPOLLIN, 1);
    let listener = std::net::TcpListener::bind("127.0.0.1:0").expect("bind");
    use std::os::fd::AsRawFd;
    set.add(listener.as_raw_fd(), EPOLLIN, 2);
    let address = listener.local_addr().expect("address");
    for round in 0..40 {
        let new = std::net::TcpStream::connect(address).expect("connect");
        send(ring.near, 1);
        await_bytes(ring.far, 1);
        settle();
        say(format!("{round} new"), told(set, 0));
        recv(ring.far, 10);
        let (far, _) = listener.accept().expect("accept");
        say(format!("{round} quiet"), told(set, 0));
        drop((new, far));
    }
}
