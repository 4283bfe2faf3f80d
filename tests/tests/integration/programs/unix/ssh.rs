//! OpenSSH on Unix sockets alone: its agent, the connection to sshd through a socket pair, one connection shared by a socket
//! in the file system that passes the descriptors of each client, and a forwarded socket.

use std::fs;
use std::path::Path;

use tests::place::{Place, Rings};
use tests::program::{Program, Running};

use super::same_as_kernel;
use crate::{pattern_file, same_content};

struct Ssh<'a> {
    place: &'a Place,
    agent: Running,
}

impl<'a> Ssh<'a> {
    fn start(place: &'a Place) -> Self {
        let folder = place.folder();
        fs::create_dir_all("/run/sshd").expect("/run/sshd");
        for name in ["host", "user"] {
            let keygen = Program::new("ssh-keygen", &folder.join(format!("log-{name}")));
            let keygen = keygen.args("-q -t ed25519 -C tests -N").arg("").arg("-f");
            keygen.arg(folder.join(name)).run();
        }
        fs::copy(folder.join("user.pub"), folder.join("authorized")).expect("the user's key");
        fs::write(folder.join("sshd_config"), server_config(folder)).expect("config");
        fs::write(folder.join("ssh_config"), client_config(folder)).expect("config");
        // A copy does not run under another group, and so loads the library.
        fs::copy("/usr/bin/ssh-agent", folder.join("ssh-agent")).expect("the agent");
        let agent = place.server(&folder.join("ssh-agent").to_string_lossy());
        let agent = agent.args("-D -a").arg(folder.join("agent")).start();
        let agent = agent.listening_at(folder.join("agent"));
        Self { place, agent }
    }

    /// A shell's line, in which SSH is ssh with all its options.
    fn program(&self, line: &str) -> Program {
        let folder = self.place.folder();
        let shell = self.place.client("sh").args("-ec");
        shell
            .arg(line.replace("SSH", "ssh -F ssh_config"))
            .env("SSH_AUTH_SOCK", folder.join("agent"))
            .directory(folder)
    }

    fn shell(&self, line: &str) -> String {
        self.program(line).run()
    }
}

fn server_config(folder: &Path) -> String {
    let folder = folder.display();
    format!(
        "HostKey {folder}/host
         PidFile none
         AuthorizedKeysFile {folder}/authorized
         PermitRootLogin yes
         PasswordAuthentication no
         StrictModes no
         UsePAM yes
         LogLevel ERROR\n"
    )
}

/// The key is the agent's.
fn client_config(folder: &Path) -> String {
    let folder = folder.display();
    format!(
        "Host test
         User root
         ProxyCommand /usr/sbin/sshd -i -f {folder}/sshd_config
         BatchMode yes
         StrictHostKeyChecking no
         UserKnownHostsFile {folder}/known
         ControlPath {folder}/mux
         IdentityFile none
         LogLevel ERROR\n"
    )
}

#[test]
fn agent_and_shared_connection() {
    same_as_kernel(Rings::Any, |place| {
        let ssh = Ssh::start(place);
        let [big, copy] = ["big", "copy"].map(|name| place.folder().join(name));
        pattern_file(&big, 3_000_000);
        ssh.shell("ssh-add -q user; for turn in 1 2 3 4 5; do ssh-add -T user.pub; done");
        ssh.shell("echo text > text; ssh-keygen -q -Y sign -f user.pub -n tests text 2>/dev/null");
        let mut text = ssh.shell("echo \"tests $(cat user.pub)\" > signers; ssh-keygen -q -Y verify -f signers -I tests -n tests -s text.sig < text && echo signed");
        text += &ssh.shell("SSH -A test 'id -un; ssh-add -L' | cut -d' ' -f1,3");
        ssh.shell("SSH test cat < big > copy");
        same_content(&big, &copy);
        text += &shared(&ssh);
        same_content(&big, &copy);
        ssh.agent.stop(libc::SIGTERM);
        text
    });
}

/// What clients of one connection give, each of which hands it its descriptors; and an echo behind a forwarded socket.
fn shared(ssh: &Ssh) -> String {
    let folder = ssh.place.folder();
    let master = ssh.program("exec SSH -M -N -L $PWD/near:$PWD/far test");
    let master = master.start().listening_at(folder.join("near"));
    let far = folder.join("far");
    let echo = ssh.program("exec socat UNIX-LISTEN:far EXEC:cat").start();
    let echo = echo.listening_at("far");
    let mut text = ssh.shell(
        "rm copy; for turn in 1 2 3; do SSH test 'cat; echo to stderr >&2' < big 2>> errors > copy; done; cat errors
         SSH test 'exit 42' || echo $?; SSH test 'tr a-z A-Z' < signers | cut -c1-5",
    );
    text += &ssh.shell("head -c 500000 big | socat -t 30 - UNIX-CONNECT:near | cmp -n 500000 - big && echo forwarded");
    echo.succeed();
    ssh.shell("SSH -O exit test 2>/dev/null");
    master.wait();
    text + &far.exists().to_string()
}
