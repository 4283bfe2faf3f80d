//! One test: a process has one recording.

use std::net::TcpListener;
use std::os::fd::AsRawFd;
use std::path::Path;

use super::*;
use crate::layout::ENTRIES;
use crate::read::{self, Recording};
use rendezvous::tracer::mark as word;

fn call(call: Call, fd: c_int) {
    let span = begin(call, fd).expect("it is recorded");
    end(span, 5, None, 0);
}

fn read(folder: &Path) -> Recording {
    let (mut found, others) = read::folder(folder).expect("read");
    assert_eq!((found.len(), others), (1, 0));
    found.remove(0)
}

fn calls(recording: &Recording) -> usize {
    let entries = recording.threads.iter().flat_map(|it| &it.entries);
    entries.filter(|it| matches!(it, Entry::Called(_))).count()
}

fn in_a_child(act: impl FnOnce()) {
    // SAFETY: the child does what the recorder may do in one, and leaves.
    unsafe {
        match libc::fork() {
            0 => {
                act();
                libc::_exit(0);
            }
            child => assert_eq!(libc::waitpid(child, std::ptr::null_mut(), 0), child),
        }
    }
}

const CHUNKS: u32 = 6;

/// One recording for all: a process has no more.
#[test]
fn a_run() {
    let listener = TcpListener::bind("127.0.0.1:0").expect("bound");
    let fd = listener.as_raw_fd();
    assert!(begin(Call::Recv, fd).is_none(), "nothing is recorded yet");
    let folder = tempfile::tempdir().expect("a folder");
    file::create(folder.path(), CHUNKS).expect("a recording");
    threads_have_their_own(folder.path(), fd);
    how_a_call_is_spent(folder.path());
    a_child_goes_on_by_itself(folder.path(), fd);
    what_has_no_room_is_counted(folder.path(), fd);
    a_sandbox_ends_it(fd);
}

fn threads_have_their_own(folder: &Path, fd: c_int) {
    call(Call::Recv, fd);
    assert!(begin(Call::Read, 0).is_none() && begin(Call::Read, -1).is_none());
    std::thread::scope(|scope| {
        scope.spawn(|| (0..ENTRIES + 1).for_each(|_| call(Call::Poll, -1)));
    });
    let recording = read(folder);
    let found = (calls(&recording), recording.threads.len());
    assert_eq!(found, (ENTRIES + 2, 2));
    assert_eq!((recording.dropped, recording.broken), (0, 0));
}

/// The sum and the parts.
fn how_a_call_is_spent(folder: &Path) {
    let span = begin(Call::EpollWait, 3).expect("it is recorded");
    for what in [
        word::IN_VAIN,
        word::ASLEEP,
        word::UP,
        word::AWAKE,
        word::WOKE,
    ] {
        mark(what);
    }
    end(span, 1, None, 0);
    // Outside of a call nobody knows since when.
    mark(word::AWAKE);
    let recording = read(folder);
    let mut threads = recording.threads.iter();
    let mine = threads.find(|it| it.tid == it.pid || it.entries.len() < 9);
    let entries = &mine.expect("this thread").entries;
    let phases = entries
        .iter()
        .filter(|it| matches!(it, Entry::Phase { .. }));
    assert_eq!(phases.count(), 4, "{entries:?}");
    let Some(Entry::Called(last)) = entries.last() else {
        panic!("{entries:?}");
    };
    assert!(
        last.awake > 0 && last.in_vain > 0 && last.asleep > 0,
        "{last:?}"
    );
    assert_eq!(last.woke, 1);
}

/// And leaves its parent's chunk alone.
fn a_child_goes_on_by_itself(folder: &Path, fd: c_int) {
    let under_way = begin(Call::Accept, fd).expect("it is recorded");
    in_a_child(|| call(Call::Send, fd));
    let recording = read(folder);
    assert_eq!(recording.threads.len(), 3);
    let waiting: Vec<_> = recording
        .threads
        .iter()
        .filter_map(|it| it.under_way)
        .collect();
    assert_eq!(waiting.len(), 1);
    assert_eq!((waiting[0].call, waiting[0].fd), (Call::Accept, fd));
    end(under_way, -1, None, libc::EAGAIN);
}

/// Also if a child that shares the file has written there that there is more.
fn what_has_no_room_is_counted(folder: &Path, fd: c_int) {
    in_a_child(|| {
        let header = file::header().expect("a recording");
        header.chunks.store(u32::MAX, Ordering::Relaxed);
    });
    let before = calls(&read(folder));
    (0..4 * ENTRIES).for_each(|_| call(Call::Poll, -1));
    let recording = read(folder);
    assert!(recording.dropped > 0 && recording.full_at > recording.began);
    let kept = calls(&recording) - before;
    assert_eq!(kept as u64 + recording.dropped, 4 * ENTRIES as u64);
    in_a_child(|| call(Call::Send, fd));
    assert_eq!(read(folder).dropped, recording.dropped + 1);
}

fn a_sandbox_ends_it(fd: c_int) {
    mark(word::STOP);
    assert!(begin(Call::Send, fd).is_none() && begin(Call::Poll, -1).is_none());
}
