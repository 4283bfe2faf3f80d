//! fork, exec, exit, children, and descriptors that travel between actors.

use std::ffi::CString;
use std::sync::atomic::Ordering;

use libc::c_int;

use super::outcome::Outcome;
use super::{TABLE, name, number};
use crate::differ::program::Step;
use crate::differ::wires;

pub fn run(actor: usize, step: &Step, outcome: &mut Outcome) -> bool {
    match step.call.as_str() {
        "fork" => fork(actor, outcome),
        "exec" => exec(actor, outcome),
        "spawn" => spawn(outcome),
        // SAFETY: ends the process as a program would, from one of its threads.
        "exit" => unsafe { libc::exit(0) },
        // SAFETY: the same, without the handlers.
        "_exit" => unsafe { libc::_exit(0) },
        "pass" => pass(step, outcome),
        "take" => take(step, outcome),
        _ => return false,
    }
    true
}

/// The child becomes the actor that hangs below this one; its hello tells the controller.
fn fork(actor: usize, outcome: &mut Outcome) {
    let Some(child) = wires::child_of(actor) else {
        return outcome.word("no more generations");
    };
    // SAFETY: the child starts threads of its own and uses nothing that others may hold locked.
    let result = outcome.quietly(|| unsafe { libc::fork().into() });
    if result == 0 {
        super::live(child);
    }
    outcome.word(if result > 0 { "child" } else { "none" });
}

/// The same program again, with the descriptors that it has.
fn exec(actor: usize, outcome: &mut Outcome) {
    let place = super::place();
    let host = u32::from_be_bytes(place.host);
    let mut words = vec!["differ".to_owned(), "actor".to_owned()];
    words.extend([actor.to_string(), host.to_string(), place.port.to_string()]);
    words.push(place.folder.to_string_lossy().into_owned());
    words.extend(
        TABLE
            .iter()
            .map(|number| number.load(Ordering::Relaxed).to_string()),
    );
    let words: Vec<CString> = words
        .into_iter()
        .map(|word| CString::new(word).expect("no zero"))
        .collect();
    let mut pointers: Vec<*const libc::c_char> = words.iter().map(|word| word.as_ptr()).collect();
    pointers.push(std::ptr::null());
    // SAFETY: a list of strings with a null at its end.
    outcome.call(|| unsafe { libc::execv(c"/proc/self/exe".as_ptr(), pointers.as_ptr()).into() });
}

/// Another program, which inherits what is not close-on-exec.
fn spawn(outcome: &mut Outcome) {
    let status = std::process::Command::new("/bin/true").status();
    outcome.word(match status {
        Ok(status) if status.success() => "spawned",
        _ => "not spawned",
    });
}

/// Room for one descriptor in control data, aligned as its header.
#[repr(align(8))]
struct Control([u8; 24]);

fn with_message(
    control: &mut Control,
    byte: &mut u8,
    call: impl FnOnce(*mut libc::msghdr) -> i64,
) -> i64 {
    let mut vector = libc::iovec {
        iov_base: (&raw mut *byte).cast(),
        iov_len: 1,
    };
    // SAFETY: a header of zeroes is an empty message.
    let mut message: libc::msghdr = unsafe { std::mem::zeroed() };
    message.msg_iov = &raw mut vector;
    message.msg_iovlen = 1;
    message.msg_control = control.0.as_mut_ptr().cast();
    message.msg_controllen = control.0.len();
    call(&raw mut message)
}

fn pass(step: &Step, outcome: &mut Outcome) {
    send_descriptor(number(step.get("fd")), outcome);
}

/// To the other actor, which has to [`take`] it.
pub fn send_descriptor(fd: c_int, outcome: &mut Outcome) {
    let mut control = Control([0; 24]);
    outcome.call(|| {
        with_message(&mut control, &mut 7, |message| {
            // SAFETY: the control data has room for one header and one int.
            unsafe {
                let header = libc::CMSG_FIRSTHDR(message);
                (*header).cmsg_level = libc::SOL_SOCKET;
                (*header).cmsg_type = libc::SCM_RIGHTS;
                (*header).cmsg_len = libc::CMSG_LEN(4) as usize;
                libc::CMSG_DATA(header).cast::<c_int>().write_unaligned(fd);
                libc::sendmsg(wires::PASS, message, libc::MSG_DONTWAIT) as i64
            }
        })
    });
}

fn take(step: &Step, outcome: &mut Outcome) {
    let mut control = Control([0; 24]);
    let mut fd = None;
    outcome.call(|| {
        with_message(&mut control, &mut 0, |message| {
            // SAFETY: the kernel fills the message; its control data has room for one int.
            unsafe {
                let result = libc::recvmsg(wires::PASS, message, libc::MSG_DONTWAIT) as i64;
                let header = libc::CMSG_FIRSTHDR(message);
                if result >= 0 && !header.is_null() {
                    fd = Some(libc::CMSG_DATA(header).cast::<c_int>().read_unaligned());
                }
                result
            }
        })
    });
    if let Some(fd) = fd {
        name(step.get("to"), fd);
        outcome.word(format!("fd={fd}"));
    }
}
