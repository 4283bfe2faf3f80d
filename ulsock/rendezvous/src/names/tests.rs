//! Names with owners that live, end and are killed, in the folders of several users, among files that are none.

use std::fs::{self, File};
use std::net::SocketAddr;
use std::os::fd::{AsFd, AsRawFd};
use std::os::unix::fs::{DirBuilderExt, PermissionsExt, chown, symlink};
use std::path::PathBuf;
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, poll};
use rustix::process::geteuid;
use rustix::time::Timespec;

use super::*;
use crate::rundir::RunDir;
use crate::rundir::scratch::Scratch;

const STRANGER: u32 = 1002;

fn service(name: &str) -> Service {
    Service::new(name).unwrap()
}

fn address(port: u16) -> SocketAddr {
    SocketAddr::from(([127, 0, 0, 1], port))
}

fn directory(dir: &Scratch, users: Users) -> Directory {
    Directory::open(RunDir::open(&dir.path).unwrap(), users).unwrap()
}

fn folder(dir: &Scratch, uid: u32) -> PathBuf {
    let path = dir.path.join(format!("names.{uid}"));
    if !path.exists() {
        fs::DirBuilder::new().mode(0o755).create(&path).unwrap();
        chown(&path, Some(uid), None).unwrap();
    }
    path
}

fn record(label: Label, port: u16, namespace: u64) -> Record {
    Record {
        label,
        address: address(port),
        uid: 0,
        pid: 77,
        namespace,
        nonce: os::random().unwrap(),
    }
}

/// An owner of that user's, which is killed when the file is closed.
fn owner(dir: &Scratch, uid: u32, record: &Record) -> File {
    let folder = folder(dir, uid);
    let draft = folder.join(format!("draft.{:x}", os::random().unwrap()));
    fs::write(&draft, record.encode()).unwrap();
    chown(&draft, Some(uid), None).unwrap();
    let file = File::options().read(true).write(true).open(&draft).unwrap();
    assert!(os::byte_lock::hold(file.as_fd(), 0).unwrap());
    fs::rename(&draft, folder.join(record.label.to_string())).unwrap();
    file
}

fn watch(directory: &Directory, name: &str) -> Watch {
    let interest = Interest {
        service: Some(service(name)),
        instances: 1..=9,
    };
    Watch::new(directory.for_users(Users::Trusted), interest).unwrap()
}

/// The next change, within so many milliseconds.
fn next(watch: &mut Watch, ms: u64) -> Option<Change> {
    let end = Instant::now() + Duration::from_millis(ms);
    loop {
        if let Some(change) = watch.next_change().unwrap() {
            return Some(change);
        }
        let left = end.checked_duration_since(Instant::now())?;
        let left = Timespec::try_from(left).unwrap();
        let mut fds = [PollFd::new(watch, PollFlags::IN)];
        poll(&mut fds, Some(&left)).unwrap();
    }
}

fn appeared(change: Option<Change>) -> Record {
    match change {
        Some(Change::Appeared(record)) => record,
        other => panic!("{other:?}"),
    }
}

fn disappeared(change: Option<Change>) -> Record {
    match change {
        Some(Change::Disappeared(record)) => record,
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_name_lasts_as_long_as_it_is_held() {
    let dir = Scratch::new();
    let names = directory(&dir, Users::Trusted);
    let label = Label::here(service("db"), 1);
    let held = names.register(label, address(7)).unwrap();
    let [found] = names.find(label.service, 1).unwrap()[..] else {
        panic!("not one place");
    };
    assert_eq!((found.address, found.pid), (address(7), std::process::id()));
    assert_eq!(found.uid, geteuid().as_raw());
    let pid = std::process::id();
    let second = names.register(label, address(8));
    assert_eq!(second.unwrap_err(), NotPublished::Taken { pid });
    let other = names.register(Label::here(service("db"), 2), address(9));
    assert_eq!(names.range(label.service, 0..=9).unwrap().len(), 2);
    assert!(
        names.find(service("d"), 1).unwrap().is_empty()
            && names.find(service("db"), 3).unwrap().is_empty()
    );
    drop((held, other));
    assert!(names.range(label.service, 0..=9).unwrap().is_empty());
    assert_eq!(fs::read_dir(folder(&dir, found.uid)).unwrap().count(), 0);
}

#[test]
fn who_listens_everywhere_is_reached_on_loopback() {
    let dir = Scratch::new();
    let names = directory(&dir, Users::Trusted);
    for (at, reached) in [("0.0.0.0:7", "127.0.0.1:7"), ("[::]:7", "[::1]:7")] {
        let _held = names.register(Label::here(service("db"), 1), at.parse().unwrap());
        assert_eq!(
            names.find(service("db"), 1).unwrap()[0].reached_at(),
            reached.parse().unwrap()
        );
    }
}

/// Each time the last owner has been killed, so that all of them find its file.
#[test]
fn of_many_exactly_one_wins() {
    let dir = Scratch::new();
    let names = directory(&dir, Users::Trusted);
    let label = Label::here(service("db"), 1);
    for _ in 0..50 {
        drop(owner(&dir, geteuid().as_raw(), &record(label, 7, 1)));
        let barrier = std::sync::Barrier::new(8);
        let all: Vec<_> = std::thread::scope(|scope| {
            let race = |_| {
                scope.spawn(|| {
                    barrier.wait();
                    names.register(label, address(7))
                })
            };
            let threads: Vec<_> = (0..8).map(race).collect();
            threads.into_iter().map(|it| it.join().unwrap()).collect()
        });
        let pid = std::process::id();
        let lost = all.iter().filter_map(|it| it.as_ref().err());
        let lost: Vec<_> = lost.copied().collect();
        assert_eq!(lost, vec![NotPublished::Taken { pid }; 7]);
        assert_eq!(names.find(label.service, 1).unwrap().len(), 1);
    }
    assert_eq!(
        fs::read_dir(folder(&dir, geteuid().as_raw()))
            .unwrap()
            .count(),
        0
    );
}

#[test]
fn what_the_dead_have_left_is_removed() {
    let dir = Scratch::new();
    let names = directory(&dir, Users::Trusted);
    let me = geteuid().as_raw();
    for instance in 1..=3 {
        let label = Label::here(service("db"), instance);
        drop(owner(&dir, me, &record(label, 7, names.namespace())));
    }
    let folder_path = folder(&dir, me);
    fs::write(folder_path.join("new.1.00"), "half").unwrap();
    let count = || fs::read_dir(&folder_path).unwrap().count();
    assert_eq!(count(), 4);
    assert!(names.find(service("db"), 1).unwrap().is_empty());
    assert_eq!(count(), 3, "who looks at it removes it");
    Folder::own(names.run_dir()).unwrap().sweep();
    assert_eq!(count(), 0);
}

#[test]
fn what_is_no_name_is_not_found() {
    let dir = Scratch::new();
    let names = directory(&dir, Users::Trusted);
    let me = geteuid().as_raw();
    let path = folder(&dir, me);
    let good = |instance| record(Label::here(service("db"), instance), 7, names.namespace());
    let held: Vec<File> = (1..=5).map(|it| owner(&dir, me, &good(it))).collect();
    assert_eq!(names.range(service("db"), 1..=99).unwrap().len(), 5);
    held[0].set_len(20).unwrap();
    held[1].set_len(2000).unwrap();
    fs::rename(path.join("db@3"), path.join("db@33")).unwrap();
    fs::set_permissions(path.join("db@4"), fs::Permissions::from_mode(0o666)).unwrap();
    fs::hard_link(path.join("db@5"), dir.path.join("second")).unwrap();
    symlink(path.join("db@5"), path.join("db@6")).unwrap();
    fs::create_dir(path.join("db@7")).unwrap();
    rustix::fs::mkfifoat(names.run_dir(), format!("names.{me}/db@8"), 0o644.into()).unwrap();
    let watch = &mut watch(&names, "db");
    assert_eq!(names.range(service("db"), 1..=99).unwrap(), []);
    assert_eq!(next(watch, 5), None);
    assert!(
        names
            .register(Label::here(service("db"), 7), address(7))
            .is_err()
    );
}

/// A folder that others could write, or that is another user's, is nobody's.
#[test]
fn folders_that_others_can_write_do_not_count() {
    let dir = Scratch::new();
    let names = directory(&dir, Users::Trusted);
    let me = geteuid().as_raw();
    let label = Label::here(service("db"), 1);
    let _owner = owner(&dir, me, &record(label, 7, names.namespace()));
    assert_eq!(names.find(label.service, 1).unwrap().len(), 1);
    fs::set_permissions(folder(&dir, me), fs::Permissions::from_mode(0o777)).unwrap();
    assert!(names.find(label.service, 1).unwrap().is_empty());
    fs::remove_dir_all(folder(&dir, me)).unwrap();
    symlink("/tmp", dir.path.join(format!("names.{me}"))).unwrap();
    let taken = names.register(label, address(7));
    assert_eq!(
        taken.unwrap_err(),
        NotPublished::Os(rustix::io::Errno::PERM)
    );
}

/// Needs root.
#[test]
fn a_stranger_is_heard_only_if_asked_for() {
    let dir = Scratch::new();
    let names = directory(&dir, Users::Trusted);
    let all = directory(&dir, Users::All);
    let label = Label::here(service("db"), 1);
    let pretends = Record {
        uid: 0,
        ..record(label, 666, names.namespace())
    };
    let _stranger = owner(&dir, STRANGER, &pretends);
    assert!(names.find(label.service, 1).unwrap().is_empty());
    let [found] = all.find(label.service, 1).unwrap()[..] else {
        panic!("not one place");
    };
    assert_eq!((found.uid, found.address.port()), (STRANGER, 666));
    let _mine = names.register(label, address(7)).unwrap();
    assert_eq!(
        all.find(label.service, 1).unwrap()[0].address.port(),
        7,
        "our own first"
    );
    assert_eq!(all.range(label.service, 1..=1).unwrap().len(), 2);
    let elsewhere = Label {
        elsewhere: Some(Elsewhere {
            host: [10, 0, 0, 1].into(),
            uid: 0,
        }),
        ..label
    };
    let _liar = owner(&dir, STRANGER, &record(elsewhere, 666, names.namespace()));
    assert_eq!(
        all.range(label.service, 1..=1).unwrap().len(),
        2,
        "only the daemon tells of other hosts"
    );
    let _daemon = owner(&dir, 0, &record(elsewhere, 8, names.namespace()));
    assert_eq!(names.range(label.service, 1..=1).unwrap().len(), 2);
}

#[test]
fn an_address_of_another_network_namespace_is_not_ours() {
    let dir = Scratch::new();
    let names = directory(&dir, Users::Trusted);
    let me = geteuid().as_raw();
    let there = names.namespace() + 1;
    let at = |ip: [u8; 4], instance| Record {
        address: SocketAddr::from((ip, 7)),
        ..record(Label::here(service("db"), instance), 7, there)
    };
    let _near = owner(&dir, me, &at([127, 0, 0, 1], 1));
    let _any = owner(&dir, me, &at([0, 0, 0, 0], 2));
    let _link = owner(&dir, me, &at([169, 254, 0, 1], 3));
    let _far = owner(&dir, me, &at([10, 0, 0, 1], 4));
    let found = names.range(service("db"), 0..=9).unwrap();
    assert_eq!(found.len(), 1);
    assert_eq!(found[0].label.instance, 4);
}

#[test]
fn a_watcher_hears_of_everything() {
    let dir = Scratch::new();
    let names = directory(&dir, Users::Trusted);
    let label = Label::here(service("db"), 1);
    let before = names
        .register(Label::here(service("db"), 2), address(6))
        .unwrap();
    let watch = &mut watch(&names, "db");
    assert_eq!(appeared(next(watch, 1000)).address.port(), 6);
    assert_eq!(next(watch, 5), None);
    let held = names.register(label, address(7)).unwrap();
    let _other = names
        .register(Label::here(service("other"), 1), address(9))
        .unwrap();
    let _beyond = names
        .register(Label::here(service("db"), 10), address(9))
        .unwrap();
    assert_eq!(appeared(next(watch, 1000)).address, address(7));
    drop(held);
    assert_eq!(disappeared(next(watch, 1000)).address, address(7));
    let again = owner(
        &dir,
        geteuid().as_raw(),
        &record(label, 8, names.namespace()),
    );
    assert_eq!(appeared(next(watch, 1000)).address.port(), 8);
    drop(again);
    let killed = Instant::now();
    assert_eq!(disappeared(next(watch, 1000)).address.port(), 8);
    assert!(killed.elapsed() < Duration::from_millis(500));
    drop(before);
    assert_eq!(disappeared(next(watch, 1000)).address.port(), 6);
    assert_eq!(next(watch, 20), None, "and nothing twice");
}

/// The lock goes a moment after the event.
#[test]
fn an_end_that_takes_a_moment_is_heard() {
    let dir = Scratch::new();
    let names = directory(&dir, Users::Trusted);
    let label = Label::here(service("db"), 1);
    let me = geteuid().as_raw();
    let lives = owner(&dir, me, &record(label, 7, names.namespace()));
    let watch = &mut watch(&names, "db");
    appeared(next(watch, 1000));
    let path = folder(&dir, me).join(label.to_string());
    drop(File::options().write(true).open(path).unwrap());
    assert_eq!(next(watch, 60), None);
    let mut unlock = libc::flock {
        l_type: libc::F_UNLCK as i16,
        l_whence: 0,
        l_start: 0,
        l_len: 0,
        l_pid: 0,
    };
    // SAFETY: the kernel reads one struct flock.
    let done = unsafe { libc::fcntl(lives.as_raw_fd(), libc::F_OFD_SETLK, &raw mut unlock) };
    assert_eq!(done, 0);
    disappeared(next(watch, 3000));
}

#[test]
fn folders_come_and_go() {
    let dir = Scratch::new();
    let names = directory(&dir, Users::Trusted);
    let watch = &mut watch(&names, "db");
    assert_eq!(next(watch, 5), None);
    for round in 0..3 {
        let held = names
            .register(Label::here(service("db"), 1), address(7))
            .unwrap();
        appeared(next(watch, 1000));
        fs::remove_dir_all(folder(&dir, geteuid().as_raw())).unwrap();
        disappeared(next(watch, 1000));
        drop(held);
        assert_eq!(next(watch, 5), None, "{round}");
    }
}

#[test]
fn events_that_are_lost_are_made_up_for() {
    let dir = Scratch::new();
    let names = directory(&dir, Users::Trusted);
    let most = fs::read_to_string("/proc/sys/fs/inotify/max_queued_events").unwrap();
    let most: usize = most.trim().parse().unwrap();
    let gone = names
        .register(Label::here(service("db"), 1), address(1))
        .unwrap();
    let watch = &mut watch(&names, "db");
    appeared(next(watch, 1000));
    let path = folder(&dir, geteuid().as_raw());
    let (one, two) = (path.join("noise.1"), path.join("noise.2"));
    fs::write(&one, "").unwrap();
    for _ in 0..=most / 4 {
        fs::rename(&one, &two).unwrap();
        fs::rename(&two, &one).unwrap();
    }
    drop(gone);
    let _new = names
        .register(Label::here(service("db"), 2), address(2))
        .unwrap();
    let mut changes = [next(watch, 1000), next(watch, 1000)];
    changes.sort_by_key(|change| matches!(change, Some(Change::Appeared(_))));
    assert_eq!(disappeared(changes[0]).address.port(), 1);
    assert_eq!(appeared(changes[1]).address.port(), 2);
}

/// Whatever strangers do in the run directory, who waits for a folder there is not kept busy.
#[test]
fn noise_in_the_run_directory_is_heard_now_and_then() {
    let dir = Scratch::new();
    let names = directory(&dir, Users::Trusted);
    let watch = &mut watch(&names, "db");
    let noise = dir.path.join("noise");
    let (start, mut looks) = (Instant::now(), 0);
    while start.elapsed() < Duration::from_millis(300) {
        fs::write(&noise, "").unwrap();
        fs::remove_file(&noise).unwrap();
        let mut fds = [PollFd::new(watch, PollFlags::IN)];
        if poll(&mut fds, Some(&Timespec::default())).unwrap() > 0 {
            looks += 1;
            assert_eq!(watch.next_change().unwrap(), None);
        }
    }
    assert!((1..=14).contains(&looks), "{looks} looks in 300 ms");
}
