//! Programs of other users that take what they can get: the daemon goes on serving everybody else.

use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::thread;
use std::time::Duration;

use rustix::io::Errno;
use rustix::process::{Resource, Rlimit, prlimit};

use super::program::{End, door_of, knock, streams, waiter};
use super::world::{World, eventually};
use super::{promoted, show_and_promote};
use rendezvous::channel::{Channel, ChannelError};
use rendezvous::message::EVERY_COOKIE;
use rendezvous::message::{Message, VERSION};
use rendezvous::reason::Reason;
use shm::doorbell::{Doorbell, DoorbellKind};

const STRANGER: u32 = 1002;
const ANOTHER: u32 = 1001;
/// More than such a daemon lets one user have.
const MANY: usize = 500;
const LIMIT: u64 = 1024;
/// Of one program.
const BELLS: u32 = 100;

/// With daemons that do not have many descriptors, and doors that all users get to.
fn poor_world() -> World {
    waiter();
    let world = World::with_limit("packet", Some(LIMIT));
    let mode = Permissions::from_mode(0o755);
    fs::set_permissions(world.folder.path(), mode).expect("its mode");
    world
}

/// Does something as that user.
fn as_user<T: Send>(uid: u32, act: impl FnOnce() -> T + Send) -> T {
    let become_user = || {
        let uid = uid as usize;
        // SAFETY: numbers; the system call itself changes this thread only.
        let changed = unsafe { os::raw::syscall(libc::SYS_setresuid, [uid, uid, uid]) };
        changed.expect("root");
        act()
    };
    thread::scope(|scope| scope.spawn(become_user).join()).expect("what was to be done")
}

/// Until there is room in its queue.
fn enter(door: &Path) -> Channel {
    eventually("a place in the queue", || match knock(door) {
        Err(Errno::AGAIN) => None,
        other => Some(other.expect("a daemon")),
    })
}

/// The first thing that the daemon says; `None`: nothing, and hangs up.
fn first_word(channel: &Channel) -> Option<Message> {
    eventually("a word", || match channel.recv() {
        Ok(None) => None,
        Ok(Some((message, _))) => Some(Some(message)),
        Err(_) => Some(None),
    })
}

fn is_served(channel: &Channel) -> bool {
    matches!(first_word(channel), Some(Message::Hello { .. }))
}

fn others_are_served(door: &Path) {
    for uid in [ANOTHER, 0] {
        assert!(is_served(&as_user(uid, || enter(door))), "uid {uid}");
    }
}

#[test]
fn one_user_does_not_have_all_places() {
    let world = poor_world();
    let door = door_of(&world.hosts[0]);
    let channels: Vec<_> = as_user(STRANGER, || (0..MANY).map(|_| enter(&door)).collect());
    let last = channels.last().and_then(first_word);
    let refusal = Message::Refuse {
        cookie: EVERY_COOKIE,
        reason: Reason::TableFull as u16,
    };
    assert_eq!(last, Some(refusal));
    others_are_served(&door);
    drop(channels);
    let returns = || as_user(STRANGER, || is_served(&enter(&door))).then_some(());
    eventually("a place again", returns);
}

/// Each is a descriptor of the daemon's.
#[test]
fn one_user_does_not_fill_it_with_bells() {
    let world = poor_world();
    let door = door_of(&world.hosts[0]);
    let channels: Vec<_> = as_user(STRANGER, || (0..8).map(|_| enter(&door)).collect());
    let page = shm::waiter::own().expect("waiters");
    let bell = Doorbell::new_pair().expect("a bell");
    let hello = Message::Hello {
        version: VERSION,
        pid: 1,
    };
    for channel in &channels {
        assert!(is_served(channel));
        channel.send(&hello, Some(page.page_fd())).expect("to send");
        let _ = (0..BELLS).all(|waiter| send_bell(channel, waiter, &bell));
    }
    // Two at most have found room for theirs.
    for channel in &channels[2..] {
        eventually("its end", || channel.recv().err());
    }
    let held = fs::read_dir(format!("/proc/{}/fd", world.hosts[0].pid())).expect("its descriptors");
    assert!(held.count() < LIMIT as usize / 2);
    others_are_served(&door);
}

/// `false`: the daemon has hung up.
fn send_bell(channel: &Channel, waiter: u32, bell: &Doorbell) -> bool {
    let message = Message::Doorbell {
        waiter,
        kind: DoorbellKind::Socket,
    };
    eventually("room in the channel", || {
        match channel.send(&message, Some(bell.far_fd())) {
            Ok(()) => Some(true),
            // The kernel lets nobody have too many descriptors on their way.
            Err(ChannelError::Full | ChannelError::Os(Errno::TOOMANYREFS)) => None,
            Err(_) => Some(false),
        }
    })
}

/// For want of descriptors nobody can be let in: those who wait do not keep it awake.
#[test]
fn it_does_not_spin_at_a_door_that_it_cannot_open() {
    let world = poor_world();
    let host = &world.hosts[0];
    let (door, pid) = (door_of(host), host.pid());
    let allow = |limit: u64| {
        let limit = Rlimit {
            current: Some(limit),
            maximum: Some(LIMIT),
        };
        prlimit(Some(pid), Resource::Nofile, limit).expect("to set a limit");
    };
    allow(3);
    let channel = enter(&door);
    let ticks = || {
        let stat = fs::read_to_string(format!("/proc/{pid}/stat")).expect("its times");
        let fields = stat.rsplit(')').next().expect("fields").split(' ');
        let times = fields.skip(12).take(2).map(|it| it.parse::<u64>());
        times.map(|it| it.expect("a number")).sum::<u64>()
    };
    thread::sleep(Duration::from_millis(200));
    let before = ticks();
    thread::sleep(Duration::from_secs(1));
    let used = ticks() - before;
    assert!(used < 20, "{used} ticks of 100");
    allow(LIMIT);
    assert!(is_served(&channel));
}

/// More than is heard in one turn: nothing of it is lost, though the program is gone then.
#[test]
fn all_that_a_program_leaves_is_heard() {
    let world = World::new("packet");
    let mut ends = vec![promoted(&world)];
    for _ in 1..40 {
        let [near, far] = streams(&world);
        let mut next = [
            End::new(&world.hosts[0], near, true),
            End::new(&world.hosts[1], far, false),
        ];
        next[0].pair = ends[0][0].pair.clone();
        show_and_promote(&mut next, 1);
        ends.push(next);
    }
    world.hosts[0].freeze();
    for [near, _] in &mut ends {
        near.write(1000);
        near.leave();
    }
    let far: Vec<_> = ends.into_iter().map(|[_, far]| far).collect();
    world.hosts[0].signal(rustix::process::Signal::CONT);
    for mut end in far {
        eventually("all bytes and the end", || {
            end.read();
            end.has_ended().then_some(())
        });
        assert_eq!(end.read, 1000);
    }
}
