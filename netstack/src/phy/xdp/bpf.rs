//! bpf(2), as far as we need it.

use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd};

use rustix::io;

use super::assembler::Instruction;
use crate::phy::sys::{Fd, syscall};

const MAP_CREATE: usize = 0;
const MAP_UPDATE: usize = 2;
const PROG_LOAD: usize = 5;
const PROG_TEST_RUN: usize = 10;
const LINK_CREATE: usize = 28;

const XSKMAP: u32 = 17;
const PROG_TYPE_CLASSIFIER: u32 = 3;
const PROG_TYPE_XDP: u32 = 6;
const ATTACH_XDP: u32 = 37;
/// The program does not mind frames in several buffers.
const HAS_FRAGS: u32 = 1 << 5;

/// The parts of union bpf_attr (linux/bpf.h) that we fill in; what is not there is zero to the kernel.
#[repr(C)]
struct MapCreate {
    map_type: u32,
    key_size: u32,
    value_size: u32,
    max_entries: u32,
}

#[repr(C)]
struct MapUpdate {
    map: u32,
    padding: u32,
    key: u64,
    value: u64,
    flags: u64,
}

#[repr(C)]
#[derive(Default)]
struct Load {
    program_type: u32,
    count: u32,
    instructions: u64,
    license: u64,
    log_level: u32,
    log_size: u32,
    log: u64,
    version: u32,
    flags: u32,
    name: [u8; 16],
    interface: u32,
    attach_type: u32,
}

#[repr(C)]
struct LinkCreate {
    program: u32,
    interface: u32,
    attach_type: u32,
    flags: u32,
}

/// # Safety
/// As the command: what `attributes` point to is there until the call returns.
unsafe fn bpf<T>(command: usize, attributes: &T) -> io::Result<usize> {
    let attributes: *const T = attributes;
    let args = [command, attributes as usize, size_of::<T>()];
    // SAFETY: the kernel reads `size_of::<T>()` bytes; the rest is the caller's.
    unsafe { syscall(libc::SYS_bpf, args) }
}

/// # Safety
/// As `bpf`; and the command gives a new descriptor.
unsafe fn create<T>(command: usize, attributes: &T) -> io::Result<Fd> {
    // SAFETY: what `attributes` point to is there until the call returns, as the caller promises.
    let fd = unsafe { bpf(command, attributes)? };
    // SAFETY: the kernel has just given it to us; close-on-exec, as all of bpf's.
    Ok(Fd::from(unsafe { OwnedFd::from_raw_fd(fd as i32) }))
}

/// A map from queues to sockets.
pub fn socket_map(queues: u32) -> io::Result<Fd> {
    let attributes = MapCreate {
        map_type: XSKMAP,
        key_size: 4,
        value_size: 4,
        max_entries: queues,
    };
    // SAFETY: no pointers.
    unsafe { create(MAP_CREATE, &attributes) }
}

/// From now on this queue's frames go to this socket, until one of them is gone.
pub fn set_socket(map: BorrowedFd<'_>, queue: u32, socket: BorrowedFd<'_>) -> io::Result<()> {
    let socket = socket.as_raw_fd();
    let attributes = MapUpdate {
        map: map.as_raw_fd() as u32,
        padding: 0,
        key: &raw const queue as u64,
        value: &raw const socket as u64,
        flags: 0,
    };
    // SAFETY: key and value have four bytes each, and outlive the call.
    unsafe { bpf(MAP_UPDATE, &attributes)? };
    Ok(())
}

/// A program for an interface.
pub fn load(code: &[Instruction]) -> io::Result<Fd> {
    load_as(
        code,
        Load {
            program_type: PROG_TYPE_XDP,
            flags: HAS_FRAGS,
            attach_type: ATTACH_XDP,
            ..Load::default()
        },
    )
}

/// A program that is only [run] by ourselves.
pub fn load_to_run(code: &[Instruction]) -> io::Result<Fd> {
    load_as(
        code,
        Load {
            program_type: PROG_TYPE_CLASSIFIER,
            ..Load::default()
        },
    )
}

fn load_as(code: &[Instruction], kind: Load) -> io::Result<Fd> {
    // It calls nothing that asks for a certain licence.
    let license = c"Dual MIT/GPL";
    let mut name = [0; 16];
    name[..6].copy_from_slice(b"ulsock");
    let attributes = Load {
        count: code.len() as u32,
        instructions: code.as_ptr() as u64,
        license: license.as_ptr() as u64,
        name,
        ..kind
    };
    // SAFETY: `count` instructions, and a text with its end; both outlive the call.
    unsafe { create(PROG_LOAD, &attributes) }
}

/// The program sits on the interface as long as the link is open.
pub fn attach(program: BorrowedFd<'_>, interface: u32, flags: u32) -> io::Result<Fd> {
    let attributes = LinkCreate {
        program: program.as_raw_fd() as u32,
        interface,
        attach_type: ATTACH_XDP,
        flags,
    };
    // SAFETY: no pointers.
    unsafe { create(LINK_CREATE, &attributes) }
}

/// What the program says to a frame; `after` gets the frame as the program leaves it, if it has room.
pub fn run(program: BorrowedFd<'_>, frame: &[u8], after: &mut [u8]) -> io::Result<u32> {
    #[repr(C)]
    struct TestRun {
        program: u32,
        verdict: u32,
        size_in: u32,
        size_out: u32,
        input: u64,
        output: u64,
        repeat: u32,
        duration: u32,
    }
    let output = match after.is_empty() {
        true => 0,
        false => after.as_mut_ptr() as u64,
    };
    let mut attributes = TestRun {
        program: program.as_raw_fd() as u32,
        verdict: 0,
        size_in: frame.len() as u32,
        size_out: after.len() as u32,
        input: frame.as_ptr() as u64,
        output,
        repeat: 1,
        duration: 0,
    };
    let pointer = &raw mut attributes as usize;
    let args = [PROG_TEST_RUN, pointer, size_of::<TestRun>()];
    // SAFETY: the kernel reads `size_in` bytes of the frame, writes at most `size_out` bytes of `after`, and
    // its answer into `attributes`.
    unsafe { syscall(libc::SYS_bpf, args)? };
    Ok(attributes.verdict)
}
