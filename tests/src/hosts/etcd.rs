//! An etcd server for the names of the hosts, on the last of them.

use std::cell::RefCell;
use std::fs;
use std::path::{Path, PathBuf};
use std::rc::Rc;

use super::{Hosts, allow, wires};
use crate::ends::kernel_only;
use crate::netns::Namespace;
use crate::program::{Program, Running};
use crate::wait;

/// Its users, and its certificates.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Guard {
    Nobody,
    /// Only those whose certificate comes from the same authority.
    Certificates,
    /// Each host has a user of its own, who may write its own names, and read all.
    Users,
}

pub(super) struct Etcd {
    guard: Guard,
    folder: PathBuf,
    server: RefCell<Option<Running>>,
}

impl Etcd {
    pub(super) fn folder(&self) -> &Path {
        &self.folder
    }
}

impl Hosts {
    /// So many hosts on a bridge, which do not know each other but for names in etcd.
    pub fn sharing_etcd(count: usize, guard: Guard) -> Self {
        let mut hosts = Self::unwired(count);
        let name = hosts.folder().file_name().unwrap_or_default();
        let folder = Path::new("/dev/shm").join(name).with_extension("etcd");
        hosts.switch = Some(Rc::new(Namespace::new().expect("a network namespace")));
        wires::bridge(&hosts);
        fs::create_dir_all(&folder).expect("a folder for etcd");
        hosts.etcd = Some(Etcd {
            guard,
            folder,
            server: RefCell::new(None),
        });
        if kernel_only() {
            return hosts;
        }
        hosts.make_certificates();
        hosts.start_etcd();
        hosts.make_users();
        hosts.with_nicds()
    }

    fn etcd(&self) -> &Etcd {
        self.etcd.as_ref().expect("hosts with etcd")
    }

    fn etcd_url(&self) -> String {
        let scheme = match self.etcd().guard {
            Guard::Certificates => "https",
            _ => "http",
        };
        format!("{scheme}://{}:2379", self.host(self.count() - 1).address())
    }

    /// Starts it, with what it knew before it ended.
    pub fn start_etcd(&self) {
        let url = self.etcd_url();
        let mut server = self.plain(self.count() - 1, "etcd").arg("--data-dir");
        server = server.arg(self.etcd().folder.join("data"));
        server = server.args(&format!(
            "--listen-client-urls {url} --advertise-client-urls {url}
             --listen-peer-urls http://127.0.0.1:2380 --initial-advertise-peer-urls http://127.0.0.1:2380
             --initial-cluster default=http://127.0.0.1:2380"
        ));
        if self.etcd().guard == Guard::Certificates {
            server = server.args("--client-cert-auth --trusted-ca-file");
            server = server.arg(self.secret("ca.pem")).arg("--cert-file");
            server = server.arg(self.secret("server.pem")).arg("--key-file");
            server = server.arg(self.secret("server.key"));
        }
        let mut server = server.start();
        server.until("it serves", |server| {
            let text = server.errors();
            text.contains("client requests on ")
        });
        let before = self.etcd().server.replace(Some(server));
        assert!(before.is_none(), "etcd runs already");
    }

    /// As nobody can prevent.
    pub fn kill_etcd(&self) {
        let server = self.etcd().server.take().expect("a server");
        server.stop(libc::SIGKILL);
    }

    /// It has never been there before.
    pub fn forget_etcd(&self) {
        fs::remove_dir_all(self.etcd().folder.join("data")).expect("its data");
    }

    /// Runs etcdctl, as root.
    pub fn etcdctl(&self, arguments: &[&str]) -> String {
        let mut program = self.etcdctl_as("root");
        for argument in arguments {
            program = program.arg(argument);
        }
        program.run()
    }

    /// As a user that [`Guard::Users`] has made.
    pub fn etcdctl_as(&self, user: &str) -> Program {
        let program = self
            .plain(self.count() - 1, "etcdctl")
            .env("ETCDCTL_API", "3");
        let program = program.arg("--endpoints").arg(self.etcd_url());
        match self.etcd().guard {
            Guard::Nobody => program,
            Guard::Certificates => {
                let program = program.arg("--cacert").arg(self.secret("ca.pem"));
                let program = program.arg("--cert").arg(self.secret("host.pem"));
                program.arg("--key").arg(self.secret("host.key"))
            }
            Guard::Users => program.arg("--user").arg(format!("{user}:word")),
        }
    }

    fn secret(&self, name: &str) -> PathBuf {
        self.etcd().folder.join(name)
    }

    /// For the server and the hosts.
    fn make_certificates(&self) {
        if self.etcd().guard == Guard::Certificates {
            let address = self.host(self.count() - 1).address();
            self.certify(&self.etcd().folder, &address);
        }
    }

    /// Makes an authority there, and by it certificates of a server with that address and of a client.
    pub fn certify(&self, folder: &Path, address: &str) {
        let openssl = |words: &str| {
            let program = self.plain(0, "openssl").directory(folder);
            program.args(words).run();
        };
        let key = "-newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes";
        openssl(&format!(
            "req -x509 {key} -days 2 -subj /CN=ca -keyout ca.key -out ca.pem"
        ));
        for name in ["server", "host"] {
            let names = format!("subjectAltName=IP:{address}");
            fs::write(folder.join("names"), names).expect("a file");
            openssl(&format!(
                "req {key} -subj /CN={name} -keyout {name}.key -out {name}.csr"
            ));
            openssl(&format!(
                "x509 -req -in {name}.csr -CA ca.pem -CAkey ca.key -CAcreateserial -days 2 -extfile names -out {name}.pem"
            ));
            allow(&folder.join(format!("{name}.key")), 0o600);
        }
    }

    fn make_users(&self) {
        if self.etcd().guard != Guard::Users {
            return;
        }
        let run = |words: String| {
            // No password is asked for yet.
            let program = self
                .plain(self.count() - 1, "etcdctl")
                .env("ETCDCTL_API", "3");
            let program = program.arg("--endpoints").arg(self.etcd_url());
            program.args(&words).run();
        };
        run("user add root:word".to_owned());
        run("user grant-role root root".to_owned());
        for host in &self.hosts {
            let (name, address) = (format!("host{}", host.number), host.address());
            run(format!("user add {name}:word"));
            run(format!("role add {name}"));
            run(format!(
                "role grant-permission {name} --prefix=true read /ulsock/names/"
            ));
            run(format!(
                "role grant-permission {name} --prefix=true readwrite /ulsock/names/{address}/"
            ));
            run(format!("user grant-role {name} {name}"));
        }
        run("auth enable".to_owned());
        let password = self.secret("password");
        fs::write(&password, "word\n").expect("a file");
        allow(&password, 0o600);
    }

    /// What a daemon has to be told.
    pub(super) fn with_etcd(&self, host: usize, nicd: Program) -> Program {
        let Some(etcd) = &self.etcd else {
            return nicd;
        };
        let nicd = nicd.arg("--etcd").arg(self.etcd_url());
        match etcd.guard {
            Guard::Nobody => nicd,
            Guard::Certificates => {
                let nicd = nicd.arg("--etcd-ca").arg(self.secret("ca.pem"));
                let nicd = nicd.arg("--etcd-cert").arg(self.secret("host.pem"));
                nicd.arg("--etcd-key").arg(self.secret("host.key"))
            }
            Guard::Users => {
                let nicd = nicd.arg("--etcd-user").arg(format!("host{host}"));
                nicd.arg("--etcd-password-file")
                    .arg(self.secret("password"))
            }
        }
    }

    /// Waits until every daemon is in touch with it.
    pub fn wait_for_etcd(&self) {
        wait::until("all daemons are in touch with etcd", || {
            (0..self.count()).all(|host| self.store_status(host).in_touch)
        });
    }
}
