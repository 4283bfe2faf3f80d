//! What a desktop has on Unix sockets: an X server with its clients, and D-Bus by dbus-daemon, with libsystemd's and
//! libdbus' clients.

use std::path::Path;

use tests::compile::compile;
use tests::place::{Place, Rings};
use tests::program::Running;

use super::same_as_kernel;

struct Display<'a> {
    place: &'a Place,
    name: String,
    server: Running,
}

impl<'a> Display<'a> {
    fn start(place: &'a Place) -> Self {
        let server = place.server("Xvfb").args("-displayfd 1 -nolisten tcp -ac");
        let mut server = server.args("-screen 0 800x800x24").start();
        // It says the number when it listens.
        server.until("it has a display", |server| server.output().ends_with('\n'));
        let name = format!(":{}", server.output().trim());
        Self {
            place,
            name,
            server,
        }
    }

    fn client(&self, line: &str) -> String {
        let shell = self.place.client("sh").args("-ec").arg(line);
        shell
            .env("DISPLAY", &self.name)
            .directory(self.place.folder())
            .run()
    }
}

/// Xvfb has closed its standard input: of clients one after the other each has number 0, and so stays on the kernel.
#[test]
fn x_server() {
    same_as_kernel(Rings::Any, |place| {
        let display = Display::start(place);
        let mut text = display.client("xdpyinfo | grep -v '^name of display'");
        display.client("xterm -e true");
        // 10 MB there, by requests and by shared memory, and back.
        display.client("x11perf -repeat 1 -reps 5 -time 1 -putimage500 -shmput500 -putimagexy100 -getimage500 -copywinwin500 -rect10 -prop");
        for _ in 0..3 {
            text += &display.client("xwd -root | md5sum");
        }
        display.client("timeout 0.2 xlogo || test $? = 124");
        text += &display.client("xwininfo -root -children | grep children");
        display.server.stop(libc::SIGTERM);
        text
    });
}

#[test]
fn message_bus() {
    same_as_kernel(Rings::Some, |place| {
        let socket = place.folder().join("bus");
        let address = format!("unix:path={}", socket.display());
        let daemon = place
            .server("dbus-daemon")
            .args("--session --nofork --nopidfile");
        let daemon = daemon.arg(format!("--address={address}")).start();
        let daemon = daemon.listening_at(&socket);
        let program = compile("cc", "unix/bus.c", "-lsystemd", place.folder(), "service");
        let mut text = own(place, &program, &address);
        for line in [
            "busctl --address=$BUS introspect org.freedesktop.DBus /org/freedesktop/DBus",
            "busctl --address=$BUS call org.freedesktop.DBus / org.freedesktop.DBus NameHasOwner s org.tests.Unix",
            "dbus-send --session --print-reply=literal --dest=org.freedesktop.DBus / org.freedesktop.DBus.ListNames",
            "dbus-send --session --print-reply --dest=org.tests.Nobody / org.tests.Nobody.Ask 2>&1 || echo $?",
        ] {
            let shell = place
                .client("sh")
                .args("-ec")
                .arg(line)
                .env("BUS", &address);
            text += &shell.env("DBUS_SESSION_BUS_ADDRESS", &address).run();
        }
        daemon.stop(libc::SIGTERM);
        // Numbers of connections and the time.
        let constant = text.lines().filter(|line| !line.contains("time="));
        constant.map(|line| format!("{line}\n")).collect()
    });
}

/// A service and its client; descriptors travel between them through the daemon.
fn own(place: &Place, program: &Path, address: &str) -> String {
    let service = place.client(&program.to_string_lossy()).arg("serve");
    let mut service = service.arg(address).start();
    service.prints("ready");
    let caller = place.client(&program.to_string_lossy()).arg("call");
    let text = caller.arg(address).run();
    service.succeed();
    text
}
