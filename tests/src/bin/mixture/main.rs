//! Random activity on connections, pipes and eventfds that are members of four sets at once, each wait
//! checked against a model: `mixture seed=S steps=N`.
//!
//! | set | who waits | what must hold |
//! | --- | --- | --- |
//! | level | the main thread, without blocking | exactly what is ready is told |
//! | edge | the same | every change is told; nothing is told that does not hold |
//! | shots | a thread that sleeps in it | told once, and soon, when armed and ready |
//! | outer | the main thread: `level` is its member | readable exactly if `level` has something to tell |

mod model;
mod watch;

use std::collections::BTreeMap;

use tests::args::Args;
use tests::rng::Rng;
use tests::sock::{self, Epoll};

use model::{Kind, Member, World};
use watch::Watch;

/// So many waits at most until members of both kinds have had their turn.
const TURNS: usize = 12;
/// What is under way arrives within so many rounds of a millisecond.
const PATIENCE: usize = 3000;

/// The sets that all members are in.
struct Sets {
    level: Epoll,
    edge: Epoll,
    outer: Epoll,
    shots: Watch,
}

fn main() {
    let args = Args::from_env();
    let seed = args.get("seed");
    let mut rng = Rng::new(seed, 0);
    let mut world = World::new(&mut rng);
    let sets = Sets {
        level: Epoll::new().expect("epoll"),
        edge: Epoll::new().expect("epoll"),
        outer: Epoll::new().expect("epoll"),
        shots: Watch::start(),
    };
    if rng.below(2) == 0 {
        sets.nest();
    }
    let mut nested = false;
    world.members().for_each(|member| sets.add(member));
    for step in 0..args.get::<usize>("steps") {
        if step == 20 {
            sets.nest();
            nested = true;
        }
        let done = world.act(&mut rng, &sets);
        let told = format!("seed {seed}, step {step}, {done}");
        sets.check_level(&mut world, &told, nested);
        sets.check_edge(&mut world, &told);
        sets.check_shots(&mut world, &mut rng, &told);
    }
    println!("every event in its place");
}

impl Sets {
    /// Once or twice: a set that is nested already says so.
    fn nest(&self) {
        let _ = self.outer.add(self.level.fd(), libc::EPOLLIN, 0);
    }

    fn add(&self, member: &Member) {
        let (fd, number) = (member.fd, member.number);
        self.level.add(fd, member.level, number).expect("add");
        self.edge
            .add(fd, member.edge | libc::EPOLLET, number)
            .expect("add");
        self.shots.add(fd, member.shot, number);
    }

    fn remove(&self, member: &Member) {
        self.level.remove(member.fd).expect("remove");
        self.edge.remove(member.fd).expect("remove");
        self.shots.remove(member.fd);
    }

    /// Waits until what `level` tells is what the model says; it never tells more.
    fn check_level(&self, world: &mut World, told: &str, nested: bool) {
        let expected = world.expected();
        let mut found = BTreeMap::new();
        for round in 0..=PATIENCE {
            found.clear();
            for _ in 0..TURNS {
                for (events, number) in self.level.wait(0).expect("wait") {
                    found.insert(number, events);
                }
            }
            for (number, events) in &found {
                let allowed = expected.get(number).copied().unwrap_or(0);
                let kind = world.kind(*number);
                assert_eq!(
                    events & !allowed,
                    0,
                    "{told}: {number} ({kind:?}) is told {events:#x}"
                );
            }
            if found == expected {
                break;
            }
            assert!(
                round < PATIENCE,
                "{told}: {found:x?} instead of {expected:x?}"
            );
            std::thread::sleep(std::time::Duration::from_millis(1));
        }
        if nested {
            let outer = self.outer.wait(0).expect("wait").len();
            assert_eq!(outer > 0, !expected.is_empty(), "{told}: the outer set");
        }
    }

    /// All changes have arrived by now.
    fn check_edge(&self, world: &mut World, told: &str) {
        for _ in 0..TURNS {
            for (events, number) in self.edge.wait(0).expect("wait") {
                world.edge_told(number, events, told);
            }
        }
        world.check_edges(told);
    }

    /// Whoever is due is told; then some are armed again, and told if they are ready still.
    fn check_shots(&self, world: &mut World, rng: &mut Rng, told: &str) {
        self.take_shots(world, told);
        for number in world.disarmed() {
            if rng.below(3) == 0 {
                let member = world.arm(number);
                self.shots.modify(member.fd, member.shot, number);
            }
        }
        self.take_shots(world, told);
    }

    fn take_shots(&self, world: &mut World, told: &str) {
        while let Some(due) = world.shot_due() {
            let Some((events, number)) = self.shots.next() else {
                panic!(
                    "{told}: {due} ({:?}) is ready and not told",
                    world.kind(due)
                );
            };
            world.shot_told(number, events, told);
        }
    }

    /// Another interest in all sets.
    fn change(&self, member: &Member) {
        let (fd, number) = (member.fd, member.number);
        self.level.modify(fd, member.level, number).expect("modify");
        self.edge
            .modify(fd, member.edge | libc::EPOLLET, number)
            .expect("modify");
    }

    /// Waits for `fd` by poll, as a program might that has a set too.
    fn glance(&self, member: &Member) -> i16 {
        let mut fds = [sock::pollfd(member.fd, libc::POLLIN | libc::POLLOUT)];
        sock::poll(&mut fds, 0).expect("poll");
        fds[0].revents
    }
}

impl Kind {
    fn is_connection(self) -> bool {
        matches!(self, Kind::Connection { .. })
    }
}
