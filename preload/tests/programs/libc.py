"""libc's own functions by name, variadic ones above all: what the calling convention could break."""
import ctypes
import errno
import os
import tempfile

libc = ctypes.CDLL(None, use_errno=True)
VARIADIC_FLOATS = [ctypes.c_double(i + 0.5) for i in range(9)]
read_end, write_end = os.pipe()


def printed(*args):
    count = libc.dprintf(write_end, *args)
    return count, os.read(read_end, 999)


print(printed(b"plain"))
print(printed(b"%d %s %ld %d %d %d %d", 1, b"two", ctypes.c_long(1 << 40), 4, 5, 6, 7))
print(printed(b"%.1f" * 9, *VARIADIC_FLOATS))
print(printed(b"%d %.1f %s", 1, ctypes.c_double(2.5), b"three"))


def child(run):
    pid = os.fork()
    if pid == 0:
        run()
        os._exit(ctypes.get_errno())
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])


LETTERS = [bytes([c]) for c in b"abcdefghij"]
ENVIRONMENT = (ctypes.c_char_p * 2)(b"NAME=value", None)
print(child(lambda: libc.execl(b"/bin/echo", b"echo", *LETTERS, None)))
print(child(lambda: libc.execlp(b"echo", b"echo", *LETTERS, None)))
print(child(lambda: libc.execle(b"/usr/bin/env", b"env", b"-u", b"X", b"-u", b"Y", None, ENVIRONMENT)))
print(child(lambda: libc.execl(b"/nonexistent", b"x", None)) == errno.ENOENT)
print(child(lambda: libc._exit(11)), child(lambda: libc._Exit(12)), child(lambda: libc.quick_exit(13)))

SYS_PREAD64 = 17
with tempfile.NamedTemporaryFile() as file:
    file.write(b"0123456789")
    file.flush()
    buffer = ctypes.create_string_buffer(4)
    print(libc.syscall(SYS_PREAD64, file.fileno(), buffer, 4, ctypes.c_long(3)), buffer.raw)
    fd = libc.open(file.name.encode(), os.O_RDONLY)
    print(libc.read(fd, buffer, 4), buffer.raw, libc.fcntl(fd, 3) & os.O_ACCMODE, libc.close(fd))
    fd = libc.open(file.name.encode() + b".new", os.O_CREAT | os.O_WRONLY | os.O_EXCL, 0o640)
    print(oct(os.fstat(fd).st_mode & 0o7777), libc.close(fd), libc.close(fd), errno.errorcode[ctypes.get_errno()])
    os.unlink(file.name + ".new")

ctypes.set_errno(77)
print(libc.close(libc.dup(1)), ctypes.get_errno())
print(libc.syscall(-1), errno.errorcode[ctypes.get_errno()])
print(libc.prctl(15, b"renamed", 0, 0, 0), open("/proc/self/comm").read())
print(libc.accept(0, None, None), errno.errorcode[ctypes.get_errno()])

handler = ctypes.CFUNCTYPE(None, ctypes.c_int)(lambda number: print("handler", number))
libc.signal.restype = libc.sigset.restype = libc.sysv_signal.restype = ctypes.c_void_p
print(libc.signal(10, handler), libc.signal(10, 0) == ctypes.cast(handler, ctypes.c_void_p).value)
print(libc.signal(999, 0) == ctypes.c_void_p(-1).value, errno.errorcode[ctypes.get_errno()])
print(libc.sysv_signal(10, handler), getattr(libc, "raise")(10), libc.signal(10, 1))
print(libc.sigset(12, 2), libc.sigset(12, 1), libc.sigignore(12), libc.siginterrupt(12, 1))

ENTRY = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_void_p)
entry = ENTRY(lambda arg: (print("cloned", arg, flush=True), 21)[1])
stack = ctypes.create_string_buffer(1 << 20)
top = (ctypes.addressof(stack) + len(stack)) & ~15
print("before clone", flush=True)
pid = libc.clone(entry, ctypes.c_void_p(top), 17, ctypes.c_void_p(42))
print(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]))
