//! Kernel rules that translate addresses, on containers and on their host, by nft(8).

use std::fs;
use std::io::Write;
use std::process::{Command, Stdio};

use super::Hosts;
use crate::netns::Namespace;

impl Hosts {
    /// Lets a container have these rules.
    pub fn rules(&self, host: usize, text: &str) {
        apply(self.host(host).namespace(), text);
    }

    /// Lets the host of the containers have these rules, which it applies to what it forwards between them: it has
    /// the service addresses `10.96.0.0/16` and `fd96::/64`, and containers reach each other through it only.
    pub fn rules_above(&self, text: &str) {
        let above = self.switch.as_ref().expect("a host");
        let settings = [
            ("ipv4/ip_forward", "1"),
            ("ipv6/conf/all/forwarding", "1"),
            ("ipv4/conf/all/send_redirects", "0"),
            ("ipv4/conf/br0/send_redirects", "0"),
            // What a bridge forwards is none of the host's, as between networks that know nothing of each other.
            ("bridge/bridge-nf-call-iptables", "0"),
            ("bridge/bridge-nf-call-ip6tables", "0"),
        ];
        above
            .enter(|| {
                let settings =
                    settings.map(|(name, value)| (format!("/proc/sys/net/{name}"), value));
                for (file, value) in settings
                    .iter()
                    .filter(|(file, _)| fs::exists(file).is_ok_and(|it| it))
                {
                    fs::write(file, value).expect(file);
                }
            })
            .expect("setns");
        let gateway6 = "fd77::100";
        self.on_switch(&format!(
            "addr replace {gateway6}/64 dev br0 nodad
             route replace 10.96.0.0/16 dev br0
             route replace fd96::/64 dev br0\n"
        ));
        for host in 0..2 {
            let other = self.host(1 - host);
            let (ip, ip6) = (other.address(), other.address6());
            let gateway = self.address_above();
            self.ip(
                host,
                &format!(
                    "route replace 10.96.0.0/16 via {gateway}
                     route replace {ip}/32 via {gateway}
                     route replace fd96::/64 via {gateway6}
                     route replace {ip6}/128 via {gateway6}\n"
                ),
            );
        }
        apply(above, text);
    }
}

fn apply(namespace: &Namespace, text: &str) {
    let run = || {
        let mut nft = Command::new("nft")
            .args(["-f", "-"])
            .stdin(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()?;
        nft.stdin
            .take()
            .expect("a pipe")
            .write_all(text.as_bytes())?;
        nft.wait_with_output()
    };
    let output = namespace.enter(run).expect("setns").expect("nft runs");
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "nft: {errors}in {text}");
}
