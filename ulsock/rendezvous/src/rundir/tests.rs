use super::scratch::Scratch;
use super::*;
use std::fs;
use std::os::fd::AsRawFd;
use std::os::unix::fs::{PermissionsExt, chown, symlink};

#[test]
fn is_created_for_everybody() {
    let dir = Scratch::new();
    let mode = fs::metadata(&dir.path).unwrap().permissions().mode();
    assert_eq!(mode & 0o7777, 0o1777);
    assert!(RunDir::open(&dir.path).is_ok(), "and opens again");
    let parent = dir.path.parent().unwrap();
    let stem = dir.path.file_name().unwrap().to_str().unwrap().to_owned() + ".";
    let litter = fs::read_dir(parent).unwrap().any(|entry| {
        let name = entry.unwrap().file_name();
        name.to_str().unwrap().starts_with(&stem)
    });
    assert!(!litter);
}

#[test]
fn refuses_what_others_could_change() {
    let dir = Scratch::new();
    fs::set_permissions(&dir.path, fs::Permissions::from_mode(0o777)).unwrap();
    assert_eq!(RunDir::open(&dir.path).unwrap_err(), RunDirError::NotSticky);
    let link = dir.path.join("link");
    symlink(&dir.path, &link).unwrap();
    assert_eq!(RunDir::open(&link).unwrap_err(), RunDirError::NotADirectory);
    let file = dir.path.join("file");
    fs::write(&file, "").unwrap();
    assert_eq!(RunDir::open(&file).unwrap_err(), RunDirError::NotADirectory);
}

#[test]
fn sweeps_the_dead_and_spares_the_living() {
    let dir = Scratch::new();
    let (alive, name) = dir.create_locked(NEW, 4096).unwrap();
    assert_eq!(fstat(&alive).unwrap().st_size, 4096);
    drop(dir.create_locked(WILL, 0).unwrap());
    drop(dir.create_locked(NEW, 0).unwrap());
    fs::write(dir.path.join("mail.1.00.lock"), "").unwrap();
    fs::write(dir.path.join("mail.1.00"), "").unwrap();
    fs::write(dir.path.join("mail.2.00"), "").unwrap();
    fs::write(dir.path.join("offers.0"), "").unwrap();
    assert_eq!(dir.sweep(), 4);
    let mut left = dir.names();
    left.sort();
    assert_eq!(left, [&*name, "offers.0"]);
    assert!(!dir.is_dead(&name));
    drop(alive);
    assert!(dir.is_dead(&name));
    assert!(dir.is_dead("new.9.absent"));
    assert_eq!(dir.sweep(), 1);
}

/// Root puts away what keeps others from their tables, and nothing else.
#[test]
fn squatted_tables_are_put_away() {
    if !geteuid().is_root() {
        return;
    }
    let dir = Scratch::new();
    let path = |name: &str| dir.path.join(name);
    let make = |name: &str, owner: u32| {
        fs::write(path(name), "").unwrap();
        chown(path(name), Some(owner), None).unwrap();
    };
    make("offers.1001", 1002);
    make("spin.1001", 1002);
    make("slips.1001.00ff", 0);
    make("offers.1002", 1002);
    make("spin.1002", 1002);
    make("offers.none", 1002);
    fs::create_dir_all(path("offers.1003/full")).unwrap();
    fs::create_dir(path("spin.1003")).unwrap();
    symlink("offers.1002", path("offers.1004")).unwrap();
    assert_eq!(dir.sweep(), 6);
    let mut left = dir.names();
    left.sort();
    let aside = left.pop().unwrap();
    assert!(aside.starts_with("stranger."), "{aside}");
    assert_eq!(left, ["offers.1002", "offers.none", "spin.1002"]);
    assert_eq!(dir.sweep(), 0);
}

#[test]
fn many_names_are_not_all_looked_at() {
    let dir = Scratch::new();
    for number in 0..MOST_NAMES + 100 {
        fs::write(dir.path.join(format!("mail.1.{number:x}")), "").unwrap();
    }
    let mut seen = 0;
    dir.each_name(|_| seen += 1);
    assert_eq!(seen, MOST_NAMES);
    while dir.sweep() > 0 {}
    assert!(dir.names().is_empty(), "in turns");
}

#[test]
fn what_strangers_put_in_a_tables_place_is_no_table() {
    let dir = Scratch::new();
    let path = |name: &str| dir.path.join(name);
    fs::create_dir(path("folder")).unwrap();
    fs::write(path("target"), "kept").unwrap();
    symlink(path("target"), path("link")).unwrap();
    symlink(path("nothing"), path("dangling")).unwrap();
    fs::hard_link(path("target"), path("second")).unwrap();
    rustix::fs::mkfifoat(&*dir, "pipe", Mode::RUSR | Mode::WUSR).unwrap();
    fs::write(path("open"), "").unwrap();
    fs::set_permissions(path("open"), fs::Permissions::from_mode(0o666)).unwrap();
    for name in ["folder", "link", "dangling", "second", "pipe", "open"] {
        assert!(dir.map_own(name, 4096).is_none(), "{name}");
    }
    assert_eq!(fs::read(path("target")).unwrap(), b"kept");
    assert!(!path("nothing").exists());
}

#[test]
fn nobody_waits_for_a_table_under_a_lease() {
    let dir = Scratch::new();
    assert!(dir.map_own("table", 4096).is_some());
    let path = dir.path.join("table");
    let file = fs::File::options().write(true).open(path).unwrap();
    // include/uapi/asm-generic/fcntl.h: which signal says that somebody wants the file; this one is ignored.
    const F_SETSIG: i32 = 10;
    for (command, value) in [(F_SETSIG, libc::SIGURG), (libc::F_SETLEASE, libc::F_WRLCK)] {
        // SAFETY: a file of our own, and numbers.
        assert_eq!(unsafe { libc::fcntl(file.as_raw_fd(), command, value) }, 0);
    }
    assert!(dir.map_own("table", 4096).is_none());
    drop(file);
    assert!(dir.map_own("table", 4096).is_some());
}
