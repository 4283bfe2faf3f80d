//! The examples for people, as they stand in `packaging`: two containers with run directories of their own and the
//! daemon of their host, by a compose file and by manifests of Kubernetes, run in namespaces (`tests::engine`).

use std::fs;
use std::path::{Path, PathBuf};

use tests::ends::kernel_only;
use tests::engine::{Container, Described, Node};
use tests::procfs;
use tests::program::Running;

use crate::script;

fn packaging(file: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../packaging")
        .join(file)
}

fn described(files: &[&str]) -> Described {
    let files: Vec<_> = files.iter().map(|file| packaging(file)).collect();
    Described::read(&script("containers.py"), &files)
}

/// Containers of pods with this name, but for those that come first.
fn main_of<'a>(described: &'a Described, pod: &str) -> &'a Container {
    let mut all = described.containers.iter();
    all.find(|it| it.pod == pod && !it.init)
        .expect("a container")
}

/// The pod's init containers, then the container, until `ready`.
fn start(node: &Node, described: &Described, pod: &str, ready: impl Fn() -> bool) -> Running {
    for init in described
        .containers
        .iter()
        .filter(|it| it.pod == pod && it.init)
    {
        node.container(init).run();
    }
    let mut running = node.container(main_of(described, pod)).start();
    running.until("it is ready", |_| ready());
    running
}

/// As engines do: the first process of the container gets the signal.
fn end(container: Running) {
    let pid = container.pid();
    let first = procfs::children(pid)[0] as i32;
    // SAFETY: plain numbers; the process is a child of one that we have started and that still runs.
    assert_eq!(unsafe { libc::kill(first, libc::SIGTERM) }, 0);
    container.succeed();
}

fn run(files: &[&str], run_dir: &str, [server, client]: [&str; 2]) {
    if kernel_only() {
        return;
    }
    let described = described(files);
    let node = Node::new(&described);
    if run_dir.starts_with("/dev/shm") {
        // The first of the commands at the top of the file.
        node.make_run_dir(run_dir);
    }
    let door = node.path(run_dir).join("host/nicd");
    let nicd = start(&node, &described, "nicd", || door.exists());
    let mut redis = start(&node, &described, server, || true);
    redis.until("it listens", |redis| {
        redis.output().contains("Ready to accept connections")
    });
    let init = described
        .containers
        .iter()
        .filter(|it| it.pod == client && it.init);
    init.for_each(|it| drop(node.container(it).run()));
    let said = node.container(main_of(&described, client)).run();
    assert!(said.contains("requests per second"), "{said}");
    end(redis);
    for pod in [server, client] {
        let report = node.report(pod);
        assert!(
            report.ring_bytes() > report.kernel_bytes(),
            "{pod}: {report:?}"
        );
    }
    end(nicd);
}

#[test]
fn compose() {
    run(
        &["containers/compose.yaml"],
        "/dev/shm/ulsock",
        ["server", "client"],
    );
}

#[test]
fn kubernetes() {
    let files = ["kubernetes/nicd.yaml", "kubernetes/example.yaml"];
    run(&files, "/run/ulsock", ["redis", "redis-benchmark"]);
}

/// Names of variables, paths and capabilities are those that the code has.
#[test]
fn they_agree_with_the_code() {
    let all = described(&[
        "containers/compose.yaml",
        "kubernetes/nicd.yaml",
        "kubernetes/example.yaml",
    ]);
    let source = |file: &str| fs::read_to_string(packaging("..").join(file)).expect(file);
    let config = source("ulsock/rendezvous/src/config/mod.rs");
    let caps = source("ulsock/nicd/src/caps.rs");
    let kept = caps.matches("\"CAP_").count();
    let stage = source("packaging/stage");
    assert!(
        stage.contains("$main/lib/ulsock/$file"),
        "where the library is installed"
    );
    for container in &all.containers {
        let of = &container.pod;
        for name in container
            .env
            .keys()
            .filter(|name| name.starts_with("ULSOCK"))
        {
            let known = config.contains(&format!("\"{name}\""));
            assert!(known, "{of}: {name}");
        }
        for cap in &container.caps {
            assert!(caps.contains(&format!("\"CAP_{cap}\"")), "{of}: {cap}");
        }
        let is_nicd = container.pod == "nicd" && !container.init;
        assert_eq!(container.caps.len(), if is_nicd { kept } else { 0 }, "{of}");
        assert!(container.read_only, "{of}");
        assert_eq!(container.host_network, container.pod == "nicd", "{of}");
        if let Some(library) = container.env.get("LD_PRELOAD") {
            assert_eq!(library, "/usr/lib/ulsock/libulsock_preload.so", "{of}");
            let dir = &container.env["ULSOCK_RUN_DIR"];
            let door = format!("{dir}/host");
            let bound = container.binds.iter().find(|(_, path, _)| *path == door);
            assert!(
                bound.is_some_and(|(source, _, read_only)| *read_only && source.ends_with("/host"))
            );
        }
    }
}
