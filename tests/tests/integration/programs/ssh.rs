//! OpenSSH: sshd on a port of its own executes itself for each connection, separates its privileges,
//! puts one half into a chroot and a seccomp sandbox, and passes descriptors between the two.

use std::fs;
use std::path::Path;

use tests::ends::{Ends, Side};
use tests::place::{Place, Rings};
use tests::ports;
use tests::program::{Program, Running};

use crate::{pattern_file, same_content};

const BIG: usize = 40_000_000;

struct Ssh {
    server: Running,
    place: Place,
}

impl Ssh {
    fn start(ends: Ends) -> Self {
        let place = Place::new(ends);
        let folder = place.folder();
        let port = ports::free();
        // sshd wants it even when told to keep everything else elsewhere.
        fs::create_dir_all("/run/sshd").expect("/run/sshd");
        for name in ["host", "user"] {
            let keygen = Program::new("ssh-keygen", &folder.join(format!("log-{name}")));
            let keygen = keygen.args("-q -t ed25519 -N").arg("").arg("-f");
            keygen.arg(folder.join(name)).run();
        }
        fs::copy(folder.join("user.pub"), folder.join("authorized")).expect("the user's key");
        fs::write(folder.join("sshd_config"), server_config(folder, port)).expect("config");
        fs::write(folder.join("ssh_config"), client_config(folder, port)).expect("config");
        // It executes itself again by its full path.
        let server = place.server("/usr/sbin/sshd").args("-D -e -f");
        let server = server
            .arg(folder.join("sshd_config"))
            .start()
            .listening(port);
        Self { server, place }
    }

    fn client(&self, program: &str) -> Program {
        let folder = self.place.folder();
        let client = self.place.client(program).arg("-F");
        client.arg(folder.join("ssh_config")).directory(folder)
    }

    fn stop(self, rings: Rings) {
        self.server.stop(libc::SIGTERM);
        self.place.check(rings);
    }
}

fn server_config(folder: &Path, port: u16) -> String {
    let folder = folder.display();
    format!(
        "ListenAddress 127.0.0.1:{port}
         HostKey {folder}/host
         PidFile none
         AuthorizedKeysFile {folder}/authorized
         PermitRootLogin yes
         PasswordAuthentication no
         StrictModes no
         UsePAM yes
         Subsystem sftp /usr/lib/openssh/sftp-server\n"
    )
}

fn client_config(folder: &Path, port: u16) -> String {
    let folder = folder.display();
    format!(
        "Host test
         HostName 127.0.0.1
         Port {port}
         IdentityFile {folder}/user
         IdentitiesOnly yes
         BatchMode yes
         StrictHostKeyChecking no
         UserKnownHostsFile {folder}/known\n"
    )
}

#[test]
fn commands() {
    for &ends in Ends::all() {
        let ssh = Ssh::start(ends);
        // root keeps one process after its login; others get a second one under their own uid.
        for user in ["root", "postgres"] {
            let whoami = ssh.client("ssh").args(&format!("{user}@test id -un")).run();
            assert_eq!(whoami, format!("{user}\n"));
        }
        let mut cat = ssh.client("ssh").args("root@test cat").piped().start();
        for number in 0..200 {
            let line = format!("line {number} there and back\n");
            cat.tell(&line);
            cat.prints(&line);
        }
        cat.succeed();
        let failing = ssh.client("ssh").args("root@test exit 42").start().wait();
        assert_eq!(failing.status.code(), Some(42), "{}", failing.errors);
        ssh.stop(Rings::Any);
    }
}

#[test]
fn copies_of_a_large_file() {
    for &ends in Ends::all() {
        let ssh = Ssh::start(ends);
        let folder = ssh.place.folder().to_owned();
        let file = folder.join("file");
        pattern_file(&file, BIG);
        let remote = |name: &str| format!("root@test:{}", folder.join(name).display());
        let scp = |options: &str| ssh.client("scp").args(&format!("-q {options}")).run();
        scp(&format!("file {}", remote("there")));
        scp(&format!("{} back", remote("there")));
        scp(&format!("-O file {}", remote("old")));
        let batch = format!("put file {0}/put\nget {0}/put got\n", folder.display());
        fs::write(folder.join("batch"), batch).expect("batch");
        ssh.client("sftp").args("-q -b batch root@test").run();
        for copy in ["there", "back", "old", "put", "got"] {
            same_content(&file, &folder.join(copy));
        }
        ssh.stop(Rings::Any);
    }
}

/// A server behind sshd that only sshd connects to, through the port that ssh listens on.
#[test]
fn forwarded_port() {
    for &ends in Ends::all() {
        let ssh = Ssh::start(ends);
        let (behind, front) = (ports::free(), ports::free());
        let server = ssh.place.own(Side::Server, "echo_threads");
        let server = server.args(&format!("conns=4 host=127.0.0.1 port={behind}"));
        let server = server.start().listening(behind);
        let forward = format!("-N -L 127.0.0.1:{front}:127.0.0.1:{behind} root@test");
        let forwarder = ssh.client("ssh").args(&forward).start().listening(front);
        let client = ssh.place.own(Side::Client, "echo_client");
        client
            .args(&format!("conns=4 rounds=200 host=127.0.0.1 port={front}"))
            .run();
        server.succeed();
        forwarder.stop(libc::SIGTERM);
        ssh.server.stop(libc::SIGTERM);
        ssh.place.check_quiet();
    }
}
