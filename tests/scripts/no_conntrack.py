"""Runs a program for which the kernel has no connection tracking: `no_conntrack.py PROGRAM ARGUMENTS`.

A seccomp filter lets socket(AF_NETLINK, ..., NETLINK_NETFILTER) fail as in a kernel without it."""

import ctypes
import errno
import os
import struct
import sys

SOCKET, AF_NETLINK, NETLINK_NETFILTER = 41, 16, 12
LOAD, EQUAL, RETURN = 0x20, 0x15, 0x06
ALLOW, ERRNO = 0x7FFF0000, 0x00050000
PR_SET_NO_NEW_PRIVS, PR_SET_SECCOMP, FILTER = 38, 22, 2


def argument(number):
    """Where its lower half is in struct seccomp_data."""
    return 16 + 8 * number


steps = [
    (LOAD, 0, 0, 0),
    (EQUAL, 0, 5, SOCKET),
    (LOAD, 0, 0, argument(0)),
    (EQUAL, 0, 3, AF_NETLINK),
    (LOAD, 0, 0, argument(2)),
    (EQUAL, 0, 1, NETLINK_NETFILTER),
    (RETURN, 0, 0, ERRNO | errno.EPROTONOSUPPORT),
    (RETURN, 0, 0, ALLOW),
]
code = ctypes.create_string_buffer(b"".join(struct.pack("HBBI", *step) for step in steps))
program = struct.pack("HxxxxxxP", len(steps), ctypes.addressof(code))
prctl = ctypes.CDLL(None, use_errno=True).prctl
assert prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0
assert prctl(PR_SET_SECCOMP, FILTER, ctypes.create_string_buffer(program), 0, 0) == 0
os.execv(sys.argv[1], sys.argv[1:])
