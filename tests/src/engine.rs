//! A container engine in miniature: runs containers as compose files and manifests of Kubernetes describe them
//! (`scripts/containers.py`), in namespaces: their networks, file systems, processes, users and capabilities. The images
//! are this machine's own files; that of ulsock has the release build besides.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::rc::Rc;
use std::sync::atomic::{AtomicU32, Ordering};

use serde::Deserialize;

use crate::netns::{Mounts, Namespace};
use crate::program::{Program, built};
use crate::report::Report;

/// The node's address, which is the gateway of its containers.
pub const NODE: &str = "10.88.0.1";
/// That of its service, if there is one.
const SERVICE: &str = "10.96.0.1";

/// What the files say.
#[derive(Debug, Deserialize)]
pub struct Described {
    pub containers: Vec<Container>,
    /// Names and ports.
    pub services: Vec<(String, u16)>,
}

/// One container.
#[derive(Clone, Debug, Deserialize)]
pub struct Container {
    pub pod: String,
    pub image: String,
    pub argv: Vec<String>,
    pub env: std::collections::BTreeMap<String, String>,
    /// From a folder of the node, or (relative) of the pod, to a path, and whether it is read only.
    pub binds: Vec<(String, String, bool)>,
    pub tmpfs: Vec<(String, String)>,
    pub user: String,
    pub caps: Vec<String>,
    pub read_only: bool,
    /// The others of its pod begin when it has succeeded.
    pub init: bool,
    pub host_network: bool,
}

impl Described {
    /// What is in these files.
    pub fn read(script: &Path, files: &[PathBuf]) -> Self {
        let said = Command::new("python3").arg(script).args(files).output();
        let said = said.expect("python3 runs");
        let errors = String::from_utf8_lossy(&said.stderr);
        assert!(said.status.success(), "{errors}");
        serde_json::from_slice(&said.stdout).expect("containers")
    }
}

/// A host with containers; all is removed on drop. The programs must be dropped before.
pub struct Node {
    folder: PathBuf,
    network: Rc<Namespace>,
    /// By pod, with the number of its address.
    pods: Vec<(String, Rc<Namespace>)>,
    names: Vec<(String, String)>,
}

impl Node {
    /// With networks for these containers.
    pub fn new(described: &Described) -> Self {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let name = format!("ulsock-node-{}-{number}", std::process::id());
        let folder = std::env::temp_dir().join(name);
        let library = folder.join("node/usr/lib/ulsock");
        for made in [&library, &folder.join("report"), &folder.join("logs")] {
            fs::create_dir_all(made).expect("a folder");
        }
        shell(&format!(
            "chmod 1777 {folder}/report; cp {library_file} {library}/",
            folder = folder.display(),
            library_file = built("libulsock_preload.so").display(),
            library = library.display()
        ));
        let network = Rc::new(Namespace::new().expect("a network namespace"));
        let mut node = Self {
            folder,
            network,
            pods: Vec::new(),
            names: Vec::new(),
        };
        node.on_network(&format!(
            "link set lo up
             link add br0 type bridge
             link set br0 up
             addr add {NODE}/24 dev br0\n"
        ));
        let forward = "echo 1 > /proc/sys/net/ipv4/ip_forward
            for device in all br0; do echo 0 > /proc/sys/net/ipv4/conf/$device/send_redirects; done";
        node.network.enter(|| shell(forward)).expect("setns");
        for container in &described.containers {
            if !container.host_network {
                node.add_pod(&container.pod);
            }
        }
        for (name, port) in &described.services {
            node.add_service(name, *port);
        }
        node
    }

    fn on_network(&self, commands: &str) {
        self.network.ip(commands, &self.folder.join("ip"));
    }

    fn address(&self, pod: &str) -> String {
        let place = self.pods.iter().position(|(name, _)| name == pod);
        format!("10.88.0.{}", place.expect("a pod") + 2)
    }

    /// With an address that leads through the node, as those of clusters do.
    fn add_pod(&mut self, pod: &str) {
        if self.pods.iter().any(|(name, _)| name == pod) {
            return;
        }
        let number = self.pods.len();
        let network = Namespace::new().expect("a network namespace");
        self.on_network(&format!(
            "link add port{number} type veth peer name eth0 netns {}
             link set port{number} master br0 up\n",
            network.path().display()
        ));
        self.pods.push((pod.to_owned(), Rc::new(network)));
        let address = self.address(pod);
        let network = &self.pods[number].1;
        network.ip(
            &format!(
                "link set lo up
                 link set eth0 up
                 addr add {address}/32 dev eth0
                 route add {NODE}/32 dev eth0
                 route add default via {NODE}\n"
            ),
            &self.folder.join("ip"),
        );
        self.names.push((pod.to_owned(), address));
    }

    /// Its address leads to the pod of the same name.
    fn add_service(&mut self, name: &str, port: u16) {
        let pod = self.address(name);
        let rules = format!(
            "nft 'add table ip s; add chain ip s c {{ type nat hook prerouting priority -100; }}
             add rule ip s c ip daddr {SERVICE} tcp dport {port} dnat to {pod}:{port}'"
        );
        self.network.enter(|| shell(&rules)).expect("setns");
        self.names.retain(|(known, _)| known != name);
        self.names.push((name.to_owned(), SERVICE.to_owned()));
    }

    /// Not started yet.
    pub fn container(&self, container: &Container) -> Program {
        let mounts = Mounts::new(&self.mounts(container)).expect("a mount namespace");
        let network = match container.host_network {
            true => &self.network,
            false => {
                &self
                    .pods
                    .iter()
                    .find(|(name, _)| *name == container.pod)
                    .expect("a pod")
                    .1
            }
        };
        let namespace = network.duplicate().expect("its network").with(mounts);
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let log = self
            .folder
            .join(format!("logs/{number:03}-{}", container.pod));
        let program = Program::new("/usr/bin/unshare", &log).without_ulsock();
        let program = program.within(&Rc::new(namespace));
        let program = program.args("--pid --fork --kill-child --mount-proc --");
        let mut program = privileges(program, container);
        for word in &container.argv {
            program = program.arg(word);
        }
        program
    }

    fn mounts(&self, container: &Container) -> String {
        let folder = self.folder.display();
        let (ulsock, library) = (built("ulsock"), built("libulsock_preload.so"));
        let mut commands =
            format!("O=$(mktemp -d {folder}/overlay.XXXXXX); mount -t tmpfs none $O\n");
        for lower in ["etc", "usr/bin", "usr/lib"] {
            commands += &format!(
                "mkdir -p $O/{lower} $O/work/{lower}
                 mount -t overlay none -o lowerdir=/{lower},upperdir=$O/{lower},workdir=$O/work/{lower} /{lower}\n"
            );
        }
        commands += "mount -t tmpfs -o mode=755 none /run; mkdir -p /run/report
            mount -t tmpfs -o mode=1777 none /dev/shm\n";
        commands += &format!("mount --bind {folder}/report /run/report\n");
        if container.image == "localhost/ulsock" {
            commands += &format!(
                "mkdir -p /usr/lib/ulsock; cp {} /usr/bin/ulsock; cp {} /usr/lib/ulsock/\n",
                ulsock.display(),
                library.display()
            );
        }
        for (name, address) in &self.names {
            commands += &format!("echo {address} {name} >> /etc/hosts\n");
        }
        for (path, mode) in &container.tmpfs {
            commands += &format!("mkdir -p {path}; mount -t tmpfs -o mode={mode} none {path}\n");
        }
        for (source, path, read_only) in &container.binds {
            // Those of a pod are made by the engine, for everybody; of the node, as `DirectoryOrCreate` does.
            let (source, mode) = match source.strip_prefix('/') {
                Some(of_node) => (format!("{folder}/node/{of_node}"), 755),
                None => (format!("{folder}/{source}"), 777),
            };
            commands += &format!(
                "[ -d {source} ] || {{ mkdir -p {source}; chmod {mode} {source}; }}
                 mkdir -p {path}; mount --bind {source} {path}\n"
            );
            if *read_only {
                commands += &format!("mount -o remount,bind,ro {path}\n");
            }
        }
        if container.read_only {
            // What the tests write from inside is not the container's.
            commands += &format!("mount --bind {folder}/logs {folder}/logs\n");
            commands += "for m in / /etc /usr/bin /usr/lib; do mount -o remount,bind,ro $m; done\n";
        }
        commands
    }

    /// The sum of what the programs of a pod have reported.
    pub fn report(&self, pod: &str) -> Report {
        Report::sum(&self.folder.join("report").join(pod)).0
    }

    /// A folder of the node that belongs to root, and in which everybody may make files.
    pub fn make_run_dir(&self, path: &str) {
        let path = self.path(path);
        shell(&format!("mkdir -p {0}; chmod 1777 {0}", path.display()));
    }

    /// A folder of the node.
    pub fn path(&self, path: &str) -> PathBuf {
        self.folder.join("node").join(path.trim_start_matches('/'))
    }
}

static NUMBER: AtomicU32 = AtomicU32::new(0);

fn privileges(program: Program, container: &Container) -> Program {
    let caps: String = container
        .caps
        .iter()
        .map(|cap| format!(",+{}", cap.to_lowercase()))
        .collect();
    let (user, group) = container
        .user
        .split_once(':')
        .unwrap_or((&container.user, &container.user));
    let program = program.args("/usr/bin/setpriv --no-new-privs --clear-groups --bounding-set");
    let program = program.arg(format!("-all{caps}"));
    let program = program
        .arg(format!("--reuid={user}"))
        .arg(format!("--regid={group}"));
    // Its variables come into force with its program: what is above is not preloaded.
    let program = program.args("-- /usr/bin/env");
    variables(container).fold(program, |program, variable| program.arg(variable))
}

/// The container's own, with the node's address where the files ask for it; who is preloaded reports.
fn variables(container: &Container) -> impl Iterator<Item = String> {
    let own = container
        .env
        .iter()
        .map(|(name, value)| match value.as_str() {
            "@status.hostIP" => format!("{name}={NODE}"),
            value if value.starts_with("${") => format!("{name}={NODE}"),
            value => format!("{name}={value}"),
        });
    let report = format!("ULSOCK_REPORT=/run/report/{}", container.pod);
    let report = container.env.contains_key("LD_PRELOAD").then_some(report);
    own.chain(report)
}

fn shell(commands: &str) {
    let done = Command::new("sh")
        .args(["-ec", commands])
        .output()
        .expect("sh runs");
    let errors = String::from_utf8_lossy(&done.stderr);
    assert!(done.status.success(), "{errors}in {commands}");
}

impl Drop for Node {
    fn drop(&mut self) {
        if std::thread::panicking() {
            let logs = fs::read_dir(self.folder.join("logs"))
                .into_iter()
                .flatten()
                .flatten();
            for log in logs.map(|it| it.path()) {
                if log.extension().is_some_and(|it| it == "out" || it == "err") {
                    crate::place::print_tail(&log);
                }
            }
        }
        self.pods.clear();
        let _ = fs::remove_dir_all(&self.folder);
    }
}
