//! Calls that move a socket's bytes inside libc or the kernel, where no hook sees them: stdio
//! streams on an fd, dprintf, splice. The connection goes back to the kernel first.

use crate::errno;
use libc::{FILE, c_char, c_int, c_uint, c_void, iovec, loff_t, size_t, ssize_t};
use sockets::api;

/// Before libc closes a stream's fd by itself. Streams without an fd (fopencookie) have none to
/// forget, and asking for it must not show in errno.
unsafe fn closing(stream: *mut FILE) {
    // SAFETY: the program's own open stream.
    let fd = errno::keep(|| unsafe { libc::fileno(stream) });
    if fd >= 0 {
        // What remains of the close is libc's part, whatever the verdict.
        let _ = api::close(fd);
    }
}

/// What the three forms of asynchronous I/O begin with.
#[repr(C)]
pub struct Request {
    fd: c_int,
}

/// libc's helper threads read and write the descriptor by themselves.
unsafe fn asynchronous(request: *const Request) {
    // SAFETY: the program's own control block, null or valid.
    if let Some(request) = unsafe { request.as_ref() } {
        api::to_kernel(request.fd);
    }
}

unsafe fn asynchronous_all(list: *const *const Request, count: c_int) {
    for at in 0..usize::try_from(count).unwrap_or(0) {
        // SAFETY: the program's own list of `count` pointers, each null or valid.
        unsafe { asynchronous(*list.add(at)) };
    }
}

hooks! {
    redhook fn fdopen(fd: c_int, mode: *const c_char) -> *mut FILE {
        api::to_kernel(fd);
        // SAFETY: the program's own arguments.
        unsafe { real()(fd, mode) }
    }

    redhook fn fclose(stream: *mut FILE) -> c_int {
        // SAFETY: the program's own stream.
        unsafe {
            closing(stream);
            real()(stream)
        }
    }

    redhook fn freopen(path: *const c_char, mode: *const c_char, stream: *mut FILE) -> *mut FILE {
        // SAFETY: the program's own stream, whose old fd is closed even if the new file fails.
        unsafe {
            closing(stream);
            real()(path, mode, stream)
        }
    }

    redhook fn freopen64(path: *const c_char, mode: *const c_char, stream: *mut FILE) -> *mut FILE {
        // SAFETY: as for `freopen`.
        unsafe {
            closing(stream);
            real()(path, mode, stream)
        }
    }

    forward fn dprintf(fd: c_int) { api::to_kernel(fd); }
    forward fn __dprintf_chk(fd: c_int) { api::to_kernel(fd); }
    /// A `va_list` is an array in C and arrives as a pointer, but Rust has no name for it.
    forward fn vdprintf(fd: c_int) { api::to_kernel(fd); }
    forward fn __vdprintf_chk(fd: c_int) { api::to_kernel(fd); }

    redhook fn splice(input: c_int, offset_in: *mut loff_t, out: c_int, offset_out: *mut loff_t, len: size_t, flags: c_uint) -> ssize_t {
        api::to_kernel(input);
        api::to_kernel(out);
        // SAFETY: the program's own arguments.
        let moved = unsafe { real()(input, offset_in, out, offset_out, len, flags) };
        // An edge-triggered set tells of the room that there will be.
        if moved < 0 && errno::get() == libc::EAGAIN {
            errno::keep(|| api::send_blocked(out));
        }
        moved
    }

    redhook fn vmsplice(fd: c_int, iov: *const iovec, count: size_t, flags: c_uint) -> ssize_t {
        api::to_kernel(fd);
        // SAFETY: the program's own arguments.
        unsafe { real()(fd, iov, count, flags) }
    }

    redhook fn tee(input: c_int, out: c_int, len: size_t, flags: c_uint) -> ssize_t {
        api::to_kernel(input);
        api::to_kernel(out);
        // SAFETY: plain numbers.
        unsafe { real()(input, out, len, flags) }
    }

    by_hand fn aio_read(request: *mut Request) -> c_int {
        // SAFETY: the program's own control block.
        unsafe {
            asynchronous(request);
            real()(request)
        }
    }

    by_hand fn aio_write(request: *mut Request) -> c_int {
        // SAFETY: as for `aio_read`.
        unsafe {
            asynchronous(request);
            real()(request)
        }
    }

    /// RTLD_NEXT finds the default version; the one of before glibc 2.4 does not notify by thread.
    by_hand fn lio_listio(mode: c_int, list: *const *const Request, count: c_int, event: *mut c_void) -> c_int {
        // SAFETY: the program's own list.
        unsafe {
            asynchronous_all(list, count);
            real()(mode, list, count, event)
        }
    }

    /// A message queue's number is a descriptor, and closing it a plain close.
    by_hand fn mq_close(fd: c_int) -> c_int {
        // SAFETY: a plain number.
        unsafe { crate::lifecycle::close::hooked(fd) }
    }

    /// What libstdc++ once opened streams with.
    #[expect(non_snake_case, reason = "libc's name")]
    redhook fn _IO_file_attach(stream: *mut FILE, fd: c_int) -> *mut FILE {
        api::to_kernel(fd);
        // SAFETY: the program's own arguments.
        unsafe { real()(stream, fd) }
    }
}

aliases! {
    fn _IO_fdopen(fd: c_int, mode: *const c_char) -> *mut FILE = fdopen;
    fn _IO_fclose(stream: *mut FILE) -> c_int = fclose;
    fn aio_read64(request: *mut Request) -> c_int = aio_read;
    fn aio_write64(request: *mut Request) -> c_int = aio_write;
    fn lio_listio64(mode: c_int, list: *const *const Request, count: c_int, event: *mut c_void) -> c_int = lio_listio;
}
