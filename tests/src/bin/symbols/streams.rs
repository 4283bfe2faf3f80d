//! Calls that move a socket's bytes inside libc or the kernel.

use std::ffi::{c_char, c_int, c_uint, c_void};
use std::ptr::null_mut;

use libc::{FILE, iovec, off_t, size_t, ssize_t};

use crate::Case;
use crate::scene::{Scene, call, read_some};

pub const CASES: &[Case] = &[
    ("fdopen", fdopen),
    ("_IO_fdopen", fdopen),
    ("_IO_file_attach", file_attach),
    ("fclose", fclose),
    ("_IO_fclose", fclose),
    ("freopen", freopen),
    ("freopen64", freopen),
    ("dprintf", dprintf),
    ("__dprintf_chk", dprintf_checked),
    ("vdprintf", vdprintf),
    ("__vdprintf_chk", vdprintf_checked),
    ("splice", splice),
    ("vmsplice", vmsplice),
    ("tee", tee),
    ("aio_read", aio_read),
    ("aio_read64", aio_read),
    ("aio_write", aio_write),
    ("aio_write64", aio_write),
    ("lio_listio", lio_listio),
    ("lio_listio64", lio_listio),
];

fn fdopen(scene: &mut Scene, name: &'static str) {
    let stream = call!(
        scene,
        name,
        fn(c_int, *const c_char) -> *mut FILE,
        scene.a,
        c"r+".as_ptr()
    );
    if stream.is_null() {
        return;
    }
    // SAFETY: an open stream, and a C string.
    unsafe {
        libc::fputs(c"through a stream".as_ptr(), stream);
        libc::fflush(stream);
    }
    scene.drain(16);
}

/// A stream of nothing, which gets the descriptor.
fn file_attach(scene: &mut Scene, name: &'static str) {
    // SAFETY: C strings.
    let stream = unsafe { libc::fopen(c"/dev/null".as_ptr(), c"r+".as_ptr()) };
    call!(scene, "_IO_file_close_it", fn(*mut FILE) -> c_int, stream);
    call!(
        scene,
        name,
        fn(*mut FILE, c_int) -> *mut FILE,
        stream,
        scene.a
    );
}

fn stream_of(scene: &Scene) -> *mut FILE {
    // SAFETY: a C string.
    unsafe { libc::fdopen(scene.a, c"r+".as_ptr()) }
}

fn fclose(scene: &mut Scene, name: &'static str) {
    let stream = stream_of(scene);
    if stream.is_null() {
        return;
    }
    // SAFETY: an open stream, and a C string.
    unsafe { libc::fputs(c"last words".as_ptr(), stream) };
    call!(scene, name, fn(*mut FILE) -> c_int, stream);
    scene.drain(10);
    // SAFETY: plain integers.
    scene.note("closed", unsafe { libc::fcntl(scene.a, libc::F_GETFD) });
    scene.ended = true;
}

fn freopen(scene: &mut Scene, name: &'static str) {
    let stream = stream_of(scene);
    if stream.is_null() {
        return;
    }
    // SAFETY: an open stream, and a C string.
    unsafe { libc::fputs(c"last words".as_ptr(), stream) };
    call!(
        scene,
        name,
        fn(*const c_char, *const c_char, *mut FILE) -> *mut FILE,
        c"/dev/null".as_ptr(),
        c"r+".as_ptr(),
        stream
    );
    scene.drain(10);
    scene.note("to nothing", crate::scene::write(scene.a, b"nothing"));
    scene.ended = true;
}

fn dprintf(scene: &mut Scene, name: &'static str) {
    call!(
        scene,
        name,
        fn(c_int, *const c_char, c_int, *const c_char) -> c_int,
        scene.a,
        c"%d %s".as_ptr(),
        42,
        c"words".as_ptr()
    );
    scene.drain(8);
}

fn dprintf_checked(scene: &mut Scene, name: &'static str) {
    call!(
        scene,
        name,
        fn(c_int, c_int, *const c_char, c_int, *const c_char) -> c_int,
        scene.a,
        1,
        c"%d %s".as_ptr(),
        42,
        c"words".as_ptr()
    );
    scene.drain(8);
}

/// A va_list of this architecture: two counts of bytes that registers have used up, and two places.
#[repr(C)]
struct Arguments {
    general: c_uint,
    vector: c_uint,
    stack: *const usize,
    registers: *const c_void,
}

fn arguments(words: &[usize; 2]) -> Arguments {
    Arguments {
        general: 48,
        vector: 176,
        stack: words.as_ptr(),
        registers: null_mut(),
    }
}

fn vdprintf(scene: &mut Scene, name: &'static str) {
    let words = [42, c"words".as_ptr() as usize];
    let mut list = arguments(&words);
    call!(
        scene,
        name,
        fn(c_int, *const c_char, *mut Arguments) -> c_int,
        scene.a,
        c"%d %s".as_ptr(),
        &raw mut list
    );
    scene.drain(8);
}

fn vdprintf_checked(scene: &mut Scene, name: &'static str) {
    let words = [42, c"words".as_ptr() as usize];
    let mut list = arguments(&words);
    call!(
        scene,
        name,
        fn(c_int, c_int, *const c_char, *mut Arguments) -> c_int,
        scene.a,
        1,
        c"%d %s".as_ptr(),
        &raw mut list
    );
    scene.drain(8);
}

fn pipe() -> [c_int; 2] {
    let mut pair = [0; 2];
    // SAFETY: an array of two.
    unsafe { libc::pipe(pair.as_mut_ptr()) };
    pair
}

type Splice = fn(&mut Scene, &'static str, c_int, c_int);

fn splice(scene: &mut Scene, name: &'static str) {
    let splice: Splice = |scene, name, from, to| {
        call!(
            scene,
            name,
            fn(c_int, *mut off_t, c_int, *mut off_t, size_t, c_uint) -> ssize_t,
            from,
            null_mut::<off_t>(),
            to,
            null_mut::<off_t>(),
            7,
            libc::SPLICE_F_NONBLOCK
        );
    };
    let [out, input] = pipe();
    crate::scene::write(input, b"spliced");
    splice(scene, name, out, scene.a);
    scene.drain(7);
    scene.feed(b"and back");
    splice(scene, name, scene.b, input);
    scene.note(
        "back",
        String::from_utf8_lossy(&read_some(out, 0)).into_owned(),
    );
    scene.drain(0);
}

fn vmsplice(scene: &mut Scene, name: &'static str) {
    let mut bytes = *b"bytes";
    let piece = iovec {
        iov_base: bytes.as_mut_ptr().cast(),
        iov_len: 5,
    };
    call!(
        scene,
        name,
        fn(c_int, *const iovec, size_t, c_uint) -> ssize_t,
        scene.a,
        &raw const piece,
        1,
        libc::SPLICE_F_NONBLOCK
    );
    scene.drain(0);
}

fn tee(scene: &mut Scene, name: &'static str) {
    let [_, input] = pipe();
    scene.feed(b"bytes");
    call!(
        scene,
        name,
        fn(c_int, c_int, size_t, c_uint) -> ssize_t,
        scene.b,
        input,
        5,
        libc::SPLICE_F_NONBLOCK
    );
    scene.drain(5);
}

fn request(fd: c_int, bytes: &mut [u8], operation: c_int) -> libc::aiocb {
    // SAFETY: all zero is a request without notification.
    let mut request: libc::aiocb = unsafe { std::mem::zeroed() };
    request.aio_fildes = fd;
    request.aio_buf = bytes.as_mut_ptr().cast();
    request.aio_nbytes = bytes.len();
    request.aio_lio_opcode = operation;
    request.aio_sigevent.sigev_notify = libc::SIGEV_NONE;
    request
}

fn finish(scene: &mut Scene, request: &mut libc::aiocb) {
    // SAFETY: a request that was begun.
    unsafe {
        let list = [&raw const *request];
        while libc::aio_error(request) == libc::EINPROGRESS {
            libc::aio_suspend(list.as_ptr(), 1, std::ptr::null());
        }
        scene.note(
            "finished",
            (libc::aio_error(request), libc::aio_return(request)),
        );
    }
}

fn aio_read(scene: &mut Scene, name: &'static str) {
    let mut room = [0; 5];
    let mut request = request(scene.b, &mut room, 0);
    scene.feed(b"bytes");
    let result = call!(scene, name, fn(*mut libc::aiocb) -> c_int, &raw mut request);
    if result == 0 {
        finish(scene, &mut request);
    }
    scene.note("got", room);
}

fn aio_write(scene: &mut Scene, name: &'static str) {
    let mut bytes = *b"bytes";
    let mut request = request(scene.a, &mut bytes, 0);
    if call!(scene, name, fn(*mut libc::aiocb) -> c_int, &raw mut request) == 0 {
        finish(scene, &mut request);
    }
    scene.drain(5);
}

fn lio_listio(scene: &mut Scene, name: &'static str) {
    let mut bytes = *b"bytes";
    let mut request = request(scene.a, &mut bytes, libc::LIO_WRITE);
    let list = [&raw mut request];
    call!(
        scene,
        name,
        fn(c_int, *const *mut libc::aiocb, c_int, *mut c_void) -> c_int,
        libc::LIO_WAIT,
        list.as_ptr(),
        1,
        null_mut::<c_void>()
    );
    scene.drain(5);
}
