//! dnsmasq with SRV, TXT and address records of the hosts.

use std::fs;
use std::os::unix::fs::MetadataExt;

use tests::ends::kernel_only;
use tests::hosts::Hosts;
use tests::program::Running;
use tests::wait;

use super::assert_private;

/// The user of that name, on Debian.
const NOBODY: u32 = 65_534;

struct Server<'h> {
    hosts: &'h Hosts,
    running: Option<Running>,
}

impl<'h> Server<'h> {
    fn new(hosts: &'h Hosts) -> Server<'h> {
        Server {
            hosts,
            running: None,
        }
    }

    fn source(&self) -> String {
        format!("dns://{}/hosts.test", self.hosts.host(0).address())
    }

    /// Starts it anew, on the first host, with these records.
    fn start(&mut self, records: &str) {
        self.stop();
        let file = self.hosts.folder().join("dnsmasq.conf");
        let address = self.hosts.host(0).address();
        let settings = format!(
            "keep-in-foreground\nno-resolv\nno-hosts\nlocal=/hosts.test/\nbind-interfaces\nlisten-address={address}\n\
             user=root\nlog-facility=-\npid-file\nlocal-ttl=1\nauth-ttl=1\n{records}"
        );
        fs::write(&file, settings).expect("its configuration");
        let server = self.hosts.plain(0, "dnsmasq");
        let mut server = server.arg("-C").arg(&file).start();
        server.until("it serves", |server| server.errors().contains("started"));
        self.running = Some(server);
    }

    fn stop(&mut self) {
        if let Some(server) = self.running.take() {
            server.stop(libc::SIGKILL);
        }
    }
}

/// As `ulsock nicd join` prints them, in dnsmasq's words.
fn records(hosts: &Hosts, host: usize) -> String {
    let (address, key) = (hosts.host(host).address(), hosts.public_key(host));
    let words = format!("join --name host{host} --address {address}");
    let printed = hosts.nicd(host, &words, "dns:hosts.test").run();
    for expected in [
        format!("_ulsock._udp.hosts.test. 300 IN SRV 0 0 4690 host{host}.hosts.test."),
        format!("host{host}.hosts.test. 300 IN A {address}"),
        format!("host{host}.hosts.test. 300 IN TXT \"ulsock keys={key}\""),
    ] {
        assert!(printed.contains(&expected), "{printed}");
    }
    of(&format!("host{host}"), &address, &key)
}

fn of(name: &str, address: &str, key: &str) -> String {
    format!(
        "srv-host=_ulsock._udp.hosts.test,{name}.hosts.test,4690\n\
         host-record={name}.hosts.test,{address}\n\
         txt-record={name}.hosts.test,\"ulsock keys={key}\"\n\
         txt-record={name}.hosts.test,\"something else\"\n"
    )
}

#[test]
fn records_come_and_go() {
    if kernel_only() {
        return;
    }
    let hosts = Hosts::unacquainted(3);
    let mut server = Server::new(&hosts);
    let known = [0, 1, 2].map(|host| records(&hosts, host));
    server.start(&known[..2].concat());
    let check = |words: &str| {
        let checked = hosts.nicd(1, &format!("check {words}"), &server.source());
        let checked = checked.start().wait();
        checked.output + &checked.errors
    };
    let untrusted = check("");
    assert!(untrusted.contains("proves nothing"), "{untrusted}");
    let trusted = check("--trust-dns");
    assert!(trusted.contains("knows 1 other host"), "{trusted}");

    let source = server.source();
    [0, 1]
        .into_iter()
        .for_each(|host| hosts.start_nicd_from(host, &source, "--trust-dns"));
    hosts.wait_until_acquainted(&[0, 1], 1);
    server.start(&known.concat());
    wait::until("it is known", || hosts.source_status(0).used == 3);
    hosts.start_nicd_from(2, &source, "--trust-dns");
    hosts.wait_until_acquainted(&[0, 1, 2], 2);

    server.stop();
    wait::until("the loss is noticed", || !hosts.source_status(1).in_touch);
    let status = hosts.source_status(1);
    assert!(status.cure.contains("resolver"), "{status:?}");
    // No record at all may be a mistake.
    server.start("");
    wait::until("that is noticed", || {
        hosts.source_status(1).why.contains("no SRV record")
    });
    hosts.wait_until_acquainted(&[0, 1, 2], 2);
    server.start(&known[..2].concat());
    hosts.wait_until_acquainted(&[0, 1], 1);
}

/// As the user who writes them, it keeps its peers, and serves its figures.
#[test]
fn a_daemon_of_another_user() {
    if kernel_only() {
        return;
    }
    let hosts = Hosts::unacquainted(2);
    let mut server = Server::new(&hosts);
    let known = [0, 1].map(|host| records(&hosts, host));
    server.start(&known[0]);
    let (source, page) = (server.source(), "127.0.0.1:9464");
    let words = format!("--trust-dns --user nobody --metrics {page}");
    hosts.start_nicd_from(0, &source, &words);
    hosts.wait_until_acquainted(&[0], 0);
    server.start(&known.concat());
    hosts.start_nicd_from(1, &source, "--trust-dns");
    hosts.wait_until_acquainted(&[0, 1], 1);

    let state = fs::metadata(hosts.state_file(0)).expect("a saved state");
    assert_eq!(state.uid(), NOBODY);
    assert_private(&hosts.state_file(0));
    let curl = hosts.plain(0, "curl").args("-s --max-time 10");
    let figures = curl.arg(format!("http://{page}/metrics")).run();
    let in_touch = figures
        .lines()
        .find(|line| line.starts_with("ulsock_nicd_peer_in_touch{"));
    assert!(
        in_touch.is_some_and(|line| line.ends_with(" 1")),
        "{figures}"
    );

    server.stop();
    hosts.kill_nicd(0);
    hosts.start_nicd_from(0, &source, &words);
    hosts.wait_until_acquainted(&[0, 1], 1);
}

/// More than a datagram has room for.
#[test]
fn many_records() {
    if kernel_only() {
        return;
    }
    let hosts = Hosts::unacquainted(1);
    let mut server = Server::new(&hosts);
    let others = (0..120).map(|number| {
        // 32 bytes in base64, all different, and none of them zero.
        let key = format!("{:A<43}=", format!("{number}z"));
        of(
            &format!("other{number}"),
            &format!("10.78.0.{number}"),
            &key,
        )
    });
    let records = records(&hosts, 0) + &others.collect::<String>();
    server.start(&records);
    let checked = hosts
        .nicd(0, "check --trust-dns", &server.source())
        .start()
        .wait();
    let listed = checked.output.matches(":4690").count();
    assert!(listed >= 100, "{listed} in {}", checked.output);
}
