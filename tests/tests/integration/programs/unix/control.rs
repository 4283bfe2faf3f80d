//! What travels beside the bytes, and who may not be woken: descriptors and credentials amid a stream, helpers in a seccomp
//! sandbox, and the datagrams of systemd's notifications, which are left in peace.

use tests::compile::compile;
use tests::place::Rings;

use super::{same_as_kernel, same_as_kernel_with};
use crate::script;

fn passing(what: &str, rings: Rings) {
    same_as_kernel_with(rings, rings, |place| {
        let socket = place.folder().join("passing");
        let end = |program: tests::program::Program, role: &str| {
            let program = program.arg(script("unix/passing.py")).arg(role);
            program.arg(&socket).arg(what).limit(60).start()
        };
        let server = end(place.server("/usr/bin/python3"), "serve").listening_at(&socket);
        let text = end(place.client("/usr/bin/python3"), "call").succeed();
        server.succeed() + &text
    });
}

/// The connections return to the kernel at the byte of each message with descriptors.
#[test]
fn descriptors() {
    passing("descriptors", Rings::Some);
}

/// Every byte can have a sender's note: the connections stay on the kernel.
#[test]
fn credentials() {
    passing("credentials", Rings::Any);
}

/// A system call that the sandbox forbids would end the helper.
#[test]
fn helper_in_a_sandbox() {
    same_as_kernel_with(Rings::Any, Rings::Any, |place| {
        let sandbox = compile("cc", "unix/sandbox.c", "", place.folder(), "sandbox");
        place.client(&sandbox.to_string_lossy()).run()
    });
}

#[test]
fn datagrams_of_systemd() {
    same_as_kernel(Rings::Any, |place| {
        let python = place.client("/usr/bin/python3").directory(place.folder());
        python.arg(script("unix/notify.py")).run()
    });
}

/// A ring that is full has a kernel socket beneath that is full, too, and whose poll does not tell of this. Both ends are
/// processes of one program.
#[test]
fn who_sleeps_for_room_hears_that_nobody_reads() {
    same_as_kernel_with(Rings::Any, Rings::Any, |place| {
        let python = place.client("/usr/bin/python3").directory(place.folder());
        python.arg(script("unix/shut_down.py")).limit(60).run()
    });
}
