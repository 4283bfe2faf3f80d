//! liburing's functions: those that make an io_uring, and with it those that have the kernel take an entry on the descriptor, or
//! put the descriptor into the io_uring's own table.

use std::ffi::{CString, c_int, c_uint, c_void};
use std::ptr::{null, null_mut};

use crate::Case;
use crate::scene::{Scene, call};

pub const CASES: &[Case] = &[
    ("io_uring_queue_init", queue_init),
    ("io_uring_queue_init_params", queue_init_params),
    ("io_uring_queue_init_mem", queue_init_mem),
    ("io_uring_queue_init_try_nosqarr", queue_init_params),
    ("io_uring_setup", setup),
    ("io_uring_queue_exit", queue_exit),
    ("io_uring_submit", submit),
    ("io_uring_submit_and_get_events", submit),
    ("io_uring_submit_and_wait", submit_and_wait),
    ("io_uring_submit_and_wait_timeout", submit_and_wait_timeout),
    (
        "io_uring_submit_and_wait_min_timeout",
        submit_and_wait_min_timeout,
    ),
    ("io_uring_submit_and_wait_reg", submit_and_wait_reg),
    ("io_uring_enter", enter),
    ("io_uring_enter2", enter2),
    ("__io_uring_get_cqe", get_cqe),
    ("io_uring_wait_cqes", wait_cqes),
    ("io_uring_wait_cqe_timeout", wait_cqe_timeout),
    ("io_uring_get_events", without_arguments),
    ("io_uring_register_eventfd", register_eventfd),
    ("io_uring_register_eventfd_async", register_eventfd),
    ("io_uring_unregister_eventfd", without_arguments),
    ("io_uring_register_sync_cancel", register_sync_cancel),
    ("io_uring_register", register),
    ("io_uring_register_files", register_files),
    ("io_uring_register_files_tags", register_files_tags),
    ("io_uring_register_files_update", register_files_update),
    (
        "io_uring_register_files_update_tag",
        register_files_update_tag,
    ),
    ("io_uring_register_restrictions", register_restrictions),
    ("io_uring_close_ring_fd", without_arguments),
];

/// `struct io_uring`, with room to spare.
type Ring = [u64; 64];

/// Is this function in the liburing of this machine? One that is not is ENOSYS with ulsock.
fn exists(scene: &mut Scene, name: &'static str) -> bool {
    let symbol = CString::new(name).expect("name");
    // SAFETY: C strings.
    let found = unsafe {
        let library = libc::dlopen(
            c"liburing.so.2".as_ptr(),
            libc::RTLD_NOW | libc::RTLD_GLOBAL,
        );
        assert!(!library.is_null(), "liburing is not installed");
        // A library's own lookup finds the hook too, as long as it is in front.
        !libc::dlsym(library, symbol.as_ptr()).is_null()
    };
    scene.note("exists", found);
    scene.ended = !found;
    found
}

fn queue_init(scene: &mut Scene, name: &'static str) {
    let mut ring = [0_u64; 64];
    if exists(scene, name) {
        call!(
            scene,
            name,
            fn(c_uint, *mut c_void, c_uint) -> c_int,
            8,
            ring.as_mut_ptr(),
            0
        );
    }
}

fn queue_init_params(scene: &mut Scene, name: &'static str) {
    let (mut ring, mut params) = ([0_u64; 64], [0_u64; 32]);
    if exists(scene, name) {
        call!(
            scene,
            name,
            fn(c_uint, *mut c_void, *mut c_void) -> c_int,
            8,
            ring.as_mut_ptr(),
            params.as_mut_ptr()
        );
    }
}

fn queue_init_mem(scene: &mut Scene, name: &'static str) {
    let (mut ring, mut params, mut memory) = ([0_u64; 64], [0_u64; 32], [0_u64; 8]);
    if exists(scene, name) {
        call!(
            scene,
            name,
            fn(c_uint, *mut c_void, *mut c_void, *mut c_void, usize) -> c_int,
            8,
            ring.as_mut_ptr(),
            params.as_mut_ptr(),
            memory.as_mut_ptr(),
            64
        );
    }
}

fn setup(scene: &mut Scene, name: &'static str) {
    let mut params = [0_u64; 32];
    if exists(scene, name) {
        call!(
            scene,
            name,
            fn(c_uint, *mut c_void) -> c_int,
            8,
            params.as_mut_ptr()
        );
    }
}

/// One with 8 entries, if the function is there.
fn ring(scene: &mut Scene, name: &'static str) -> Option<Ring> {
    let mut ring = [0_u64; 64];
    exists(scene, name).then(|| {
        call!(
            scene,
            "io_uring_queue_init",
            fn(c_uint, *mut c_void, c_uint) -> c_int,
            8,
            ring.as_mut_ptr(),
            0
        );
        ring
    })
}

fn number(ring: &Ring) -> c_uint {
    (ring[24] >> 32) as c_uint
}

/// One with an entry that polls the descriptor, which the kernel has not got yet.
fn ring_with_poll(scene: &mut Scene, name: &'static str) -> Option<Ring> {
    const POLL_ADD: u64 = 6;
    let mut ring = ring(scene, name)?;
    let entry = [
        u64::from(scene.a.cast_unsigned()) << 32 | POLL_ADD,
        0,
        0,
        (libc::POLLOUT as u64) << 32,
        7,
        0,
        0,
        0,
    ];
    // SAFETY: the first of the entries, which liburing has mapped.
    unsafe { (ring[7] as *mut [u64; 8]).write(entry) };
    // The tail of those that are not in the queue.
    ring[8] = 1 << 32;
    Some(ring)
}

/// What came of the entry.
fn note_result(scene: &mut Scene, ring: &Ring) {
    // SAFETY: the completion queue, which liburing has mapped: head, tail and its first entry.
    let (head, tail, entry) = unsafe {
        let word = |at: usize| (ring[13 + at] as *const u32).read_volatile();
        (
            word(0),
            word(1),
            (ring[19] as *const [u64; 2]).read_volatile(),
        )
    };
    scene.note("completions", tail - head);
    scene.note("result", (entry[0], entry[1] as i32));
}

fn queue_exit(scene: &mut Scene, name: &'static str) {
    if let Some(mut ring) = ring(scene, name) {
        let exit: unsafe extern "C" fn(*mut c_void) = crate::scene::symbol(name);
        // SAFETY: one that was made just now.
        unsafe { exit(ring.as_mut_ptr().cast()) };
        // SAFETY: a number that is closed.
        let flags = unsafe { libc::fcntl(number(&ring) as c_int, libc::F_GETFD) };
        scene.note("is open", flags >= 0);
    }
}

fn submit(scene: &mut Scene, name: &'static str) {
    if let Some(mut ring) = ring_with_poll(scene, name) {
        call!(scene, name, fn(*mut c_void) -> c_int, ring.as_mut_ptr());
        note_result(scene, &ring);
    }
}

fn submit_and_wait(scene: &mut Scene, name: &'static str) {
    if let Some(mut ring) = ring_with_poll(scene, name) {
        call!(
            scene,
            name,
            fn(*mut c_void, c_uint) -> c_int,
            ring.as_mut_ptr(),
            1
        );
        note_result(scene, &ring);
    }
}

const SECOND: [u64; 2] = [1, 0];
const MOMENT: [u64; 2] = [0, 1000];

fn submit_and_wait_timeout(scene: &mut Scene, name: &'static str) {
    if let Some(mut ring) = ring_with_poll(scene, name) {
        let mut found = null_mut::<c_void>();
        call!(
            scene,
            name,
            fn(*mut c_void, *mut *mut c_void, c_uint, *const u64, *const c_void) -> c_int,
            ring.as_mut_ptr(),
            &raw mut found,
            1,
            SECOND.as_ptr(),
            null::<c_void>()
        );
        note_result(scene, &ring);
    }
}

fn submit_and_wait_min_timeout(scene: &mut Scene, name: &'static str) {
    if let Some(mut ring) = ring_with_poll(scene, name) {
        let mut found = null_mut::<c_void>();
        call!(
            scene,
            name,
            fn(*mut c_void, *mut *mut c_void, c_uint, *const u64, c_uint, *const c_void) -> c_int,
            ring.as_mut_ptr(),
            &raw mut found,
            1,
            SECOND.as_ptr(),
            0,
            null::<c_void>()
        );
        note_result(scene, &ring);
    }
}

/// Without a region of waits it fails, after it has submitted or before.
fn submit_and_wait_reg(scene: &mut Scene, name: &'static str) {
    if let Some(mut ring) = ring_with_poll(scene, name) {
        let mut found = null_mut::<c_void>();
        call!(
            scene,
            name,
            fn(*mut c_void, *mut *mut c_void, c_uint, c_int) -> c_int,
            ring.as_mut_ptr(),
            &raw mut found,
            1,
            0
        );
    }
}

/// Of an io_uring that liburing has made nobody knows where the queue is by its number alone.
fn enter(scene: &mut Scene, name: &'static str) {
    if let Some(ring) = ring_with_poll(scene, name) {
        publish(&ring);
        call!(
            scene,
            name,
            fn(c_uint, c_uint, c_uint, c_uint, *const c_void) -> c_int,
            number(&ring),
            1,
            1,
            1,
            null::<c_void>()
        );
        note_result(scene, &ring);
    }
}

fn enter2(scene: &mut Scene, name: &'static str) {
    if let Some(ring) = ring_with_poll(scene, name) {
        publish(&ring);
        call!(
            scene,
            name,
            fn(c_uint, c_uint, c_uint, c_uint, *const c_void, usize) -> c_int,
            number(&ring),
            1,
            1,
            1,
            null::<c_void>(),
            8
        );
        note_result(scene, &ring);
    }
}

/// The kernel may take the first entry.
fn publish(ring: &Ring) {
    // SAFETY: the queue, which liburing has mapped: its array and tail.
    unsafe {
        (ring[6] as *mut u32).write_volatile(0);
        (ring[1] as *mut u32).write_volatile(1);
    }
}

fn get_cqe(scene: &mut Scene, name: &'static str) {
    if let Some(mut ring) = ring(scene, name) {
        let mut found = null_mut::<c_void>();
        call!(
            scene,
            name,
            fn(*mut c_void, *mut *mut c_void, c_uint, c_uint, *const c_void) -> c_int,
            ring.as_mut_ptr(),
            &raw mut found,
            0,
            0,
            null::<c_void>()
        );
    }
}

fn wait_cqes(scene: &mut Scene, name: &'static str) {
    if let Some(mut ring) = ring_with_poll(scene, name) {
        let mut found = null_mut::<c_void>();
        call!(
            scene,
            name,
            fn(*mut c_void, *mut *mut c_void, c_uint, *const u64, *const c_void) -> c_int,
            ring.as_mut_ptr(),
            &raw mut found,
            1,
            MOMENT.as_ptr(),
            null::<c_void>()
        );
    }
}

fn wait_cqe_timeout(scene: &mut Scene, name: &'static str) {
    if let Some(mut ring) = ring_with_poll(scene, name) {
        let mut found = null_mut::<c_void>();
        call!(
            scene,
            name,
            fn(*mut c_void, *mut *mut c_void, *const u64) -> c_int,
            ring.as_mut_ptr(),
            &raw mut found,
            MOMENT.as_ptr()
        );
    }
}

fn register(scene: &mut Scene, name: &'static str) {
    const FILES: c_uint = 2;
    if let Some(ring) = ring(scene, name) {
        let files = [scene.a];
        call!(
            scene,
            name,
            fn(c_uint, c_uint, *const c_void, c_uint) -> c_int,
            number(&ring),
            FILES,
            files.as_ptr(),
            1
        );
    }
}

fn register_files(scene: &mut Scene, name: &'static str) {
    if let Some(mut ring) = ring(scene, name) {
        let files = [scene.a];
        call!(
            scene,
            name,
            fn(*mut c_void, *const c_int, c_uint) -> c_int,
            ring.as_mut_ptr(),
            files.as_ptr(),
            1
        );
    }
}

fn register_files_tags(scene: &mut Scene, name: &'static str) {
    if let Some(mut ring) = ring(scene, name) {
        let (files, tags) = ([scene.a], [0_u64]);
        call!(
            scene,
            name,
            fn(*mut c_void, *const c_int, *const u64, c_uint) -> c_int,
            ring.as_mut_ptr(),
            files.as_ptr(),
            tags.as_ptr(),
            1
        );
    }
}

/// A table with one free place.
fn ring_with_table(scene: &mut Scene, name: &'static str) -> Option<Ring> {
    let mut ring = ring(scene, name)?;
    call!(
        scene,
        "io_uring_register_files",
        fn(*mut c_void, *const c_int, c_uint) -> c_int,
        ring.as_mut_ptr(),
        [-1].as_ptr(),
        1
    );
    Some(ring)
}

fn register_files_update(scene: &mut Scene, name: &'static str) {
    if let Some(mut ring) = ring_with_table(scene, name) {
        let files = [scene.a];
        call!(
            scene,
            name,
            fn(*mut c_void, c_uint, *const c_int, c_uint) -> c_int,
            ring.as_mut_ptr(),
            0,
            files.as_ptr(),
            1
        );
    }
}

fn register_files_update_tag(scene: &mut Scene, name: &'static str) {
    if let Some(mut ring) = ring_with_table(scene, name) {
        let (files, tags) = ([scene.a], [0_u64]);
        call!(
            scene,
            name,
            fn(*mut c_void, c_uint, *const c_int, *const u64, c_uint) -> c_int,
            ring.as_mut_ptr(),
            0,
            files.as_ptr(),
            tags.as_ptr(),
            1
        );
    }
}

/// It is not disabled: none can be registered any more.
fn register_restrictions(scene: &mut Scene, name: &'static str) {
    if let Some(mut ring) = ring(scene, name) {
        let mut list = [0_u64; 2];
        call!(
            scene,
            name,
            fn(*mut c_void, *mut c_void, c_uint) -> c_int,
            ring.as_mut_ptr(),
            list.as_mut_ptr(),
            1
        );
    }
}

/// It is not registered: it stays open.
fn register_eventfd(scene: &mut Scene, name: &'static str) {
    if let Some(mut ring) = ring(scene, name) {
        // SAFETY: no memory is named.
        let counter = unsafe { libc::eventfd(0, libc::EFD_CLOEXEC) };
        call!(
            scene,
            name,
            fn(*mut c_void, c_int) -> c_int,
            ring.as_mut_ptr(),
            counter
        );
        // SAFETY: our own, which nobody else uses.
        unsafe { libc::close(counter) };
    }
}

/// There is nothing that could be cancelled.
fn register_sync_cancel(scene: &mut Scene, name: &'static str) {
    if let Some(mut ring) = ring(scene, name) {
        // struct io_uring_sync_cancel_reg: name; descriptor, flags; seconds, nanoseconds; reserved.
        let what = [77_u64, 0, u64::MAX, u64::MAX, 0, 0, 0, 0];
        call!(
            scene,
            name,
            fn(*mut c_void, *const u64) -> c_int,
            ring.as_mut_ptr(),
            what.as_ptr()
        );
    }
}

fn without_arguments(scene: &mut Scene, name: &'static str) {
    if let Some(mut ring) = ring(scene, name) {
        call!(scene, name, fn(*mut c_void) -> c_int, ring.as_mut_ptr());
    }
}
