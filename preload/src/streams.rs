//! Calls that move a socket's bytes inside libc or the kernel, where no hook sees them: stdio
//! streams on an fd, dprintf, splice. The connection goes back to the kernel first.

use crate::errno;
use libc::{c_char, c_int, c_uint, iovec, loff_t, size_t, ssize_t, FILE};
use ulsock::api;

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
        unsafe { real()(input, offset_in, out, offset_out, len, flags) }
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
}
