//! A server that speaks as much of Kubernetes' API as is used, by HTTPS: pages, a watch with bookmarks, versions that are
//! forgotten, errors, and answers that make no sense.

use std::fs;

use serde_json::{Map, Value};
use tests::ends::kernel_only;
use tests::hosts::Hosts;
use tests::program::Running;
use tests::wait;

use super::{assert_private, line};
use crate::script;

const TOKEN: &str = "good.token";

struct Api<'h> {
    hosts: &'h Hosts,
    server: Running,
    nodes: Map<String, Value>,
}

impl<'h> Api<'h> {
    /// On the first host.
    fn start(hosts: &'h Hosts) -> Api<'h> {
        let folder = hosts.folder();
        let address = hosts.host(0).address();
        hosts.certify(folder, &address);
        fs::write(folder.join("token"), format!("{TOKEN}\n")).expect("a token");
        fs::write(folder.join("nodes"), "{}").expect("the nodes");
        let server = hosts.plain(0, "python3").arg(script("kubernetes_api.py"));
        let server = server.arg(&address).args("6443").directory(folder);
        let server = server.args("server.pem server.key").arg(TOKEN).arg("nodes");
        let mut server = server.start();
        server.prints("serves");
        Api {
            hosts,
            server,
            nodes: Map::new(),
        }
    }

    fn source(&self) -> String {
        format!("kubernetes://{}:6443", self.hosts.host(0).address())
    }

    fn words(&self) -> String {
        let folder = self.hosts.folder().display();
        format!("--kubernetes-ca {folder}/ca.pem --kubernetes-token {folder}/token")
    }

    fn start_nicd(&self, host: usize) {
        self.hosts
            .start_nicd_from(host, &self.source(), &self.words());
    }

    /// Gives a node this annotation, or none.
    fn annotate(&mut self, node: usize, line: Option<String>) {
        self.nodes.insert(format!("node{node}"), line.into());
        self.write();
    }

    fn remove(&mut self, node: usize) {
        self.nodes.remove(&format!("node{node}"));
        self.write();
    }

    fn write(&self) {
        let folder = self.hosts.folder();
        let text = Value::Object(self.nodes.clone()).to_string();
        fs::write(folder.join("new"), text).expect("the nodes");
        fs::rename(folder.join("new"), folder.join("nodes")).expect("the nodes");
    }

    /// Forgets versions (SIGUSR1), fails or does so no more (SIGUSR2), talks nonsense or does so no more (SIGHUP).
    fn signal(&mut self, signal: i32, word: &str) {
        let before = self.server.output().matches(word).count();
        self.server.signal(signal);
        self.server.until(word, |server| {
            server.output().matches(word).count() > before
        });
    }
}

#[test]
fn nodes_come_and_go() {
    if kernel_only() {
        return;
    }
    let hosts = Hosts::unacquainted(3);
    let mut api = Api::start(&hosts);
    for host in [0, 1] {
        api.annotate(host, Some(line(&hosts, host)));
    }
    (2..6).for_each(|node| api.annotate(node, None));
    let check = |words: &str| hosts.nicd(1, &format!("check {words}"), &api.source());
    wait::until("all nodes are listed", || {
        let checked = check(&api.words()).start().wait();
        checked.status.success() && checked.output.contains("knows 1 other host")
    });
    [0, 1].into_iter().for_each(|host| api.start_nicd(host));
    hosts.wait_until_acquainted(&[0, 1], 1);
    assert_private(&hosts.state_file(0));

    api.annotate(2, Some(line(&hosts, 2)));
    wait::until("it is known", || hosts.source_status(0).used == 3);
    api.start_nicd(2);
    hosts.wait_until_acquainted(&[0, 1, 2], 2);

    // It stays as it was, also when all is listed anew.
    api.annotate(1, Some("10.77.0.2 keys=nonsense".to_owned()));
    wait::until("it is refused", || hosts.source_status(0).refused == 1);
    let status = hosts.source_status(0);
    assert!(status.shown[0].starts_with("node1: "), "{status:?}");
    api.signal(libc::SIGUSR1, "forgotten");
    api.remove(2);
    hosts.wait_until_acquainted(&[0, 1], 1);
    hosts.wait_until_acquainted(&[2], 0);
    assert_eq!(hosts.source_status(0).refused, 1);
}

#[test]
fn the_api_fails() {
    if kernel_only() {
        return;
    }
    let hosts = Hosts::unacquainted(2);
    let mut api = Api::start(&hosts);
    for host in [0, 1] {
        api.annotate(host, Some(line(&hosts, host)));
    }
    wait::until("the nodes are there", || {
        let words = format!("check {}", api.words());
        hosts
            .nicd(0, &words, &api.source())
            .start()
            .wait()
            .output
            .contains("node1")
    });
    [0, 1].into_iter().for_each(|host| api.start_nicd(host));
    hosts.wait_until_acquainted(&[0, 1], 1);
    let away = |why: &str| {
        wait::until(why, || {
            let status = hosts.source_status(1);
            !status.in_touch && status.why.contains(why) && status.cure.contains("ClusterRole")
        });
        hosts.wait_until_acquainted(&[0, 1], 1);
    };
    let back = || wait::until("it is in touch", || hosts.source_status(1).in_touch);
    api.signal(libc::SIGUSR2, "fails True");
    away("500 ");
    api.signal(libc::SIGUSR2, "fails False");
    back();
    api.signal(libc::SIGHUP, "nonsense True");
    api.signal(libc::SIGUSR1, "forgotten");
    away("no list of nodes");
    api.signal(libc::SIGHUP, "nonsense False");
    back();
    let wrong = hosts.folder().join("wrong");
    fs::write(&wrong, "wrong").expect("a token");
    let folder = hosts.folder().display();
    let words = format!("check --kubernetes-ca {folder}/ca.pem --kubernetes-token {folder}/wrong");
    let checked = hosts.nicd(1, &words, &api.source()).start().wait();
    assert!(checked.errors.contains("401 "), "{}", checked.errors);
    let Api { server, .. } = api;
    server.stop(libc::SIGKILL);
    wait::until("the loss is noticed", || !hosts.source_status(1).in_touch);
    hosts.wait_until_acquainted(&[0, 1], 1);
}
