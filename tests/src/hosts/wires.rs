//! The network between the hosts: addresses, a cable between two, a bridge for more, and their failures.

use super::{Host, Hosts};

/// The device's name on every host.
pub const DEVICE: &str = "eth0";

impl Host {
    /// Its IPv4 address.
    pub fn address(&self) -> String {
        format!("10.77.0.{}", self.seat + 1)
    }

    /// Its IPv6 address.
    pub fn address6(&self) -> String {
        format!("fd77::{}", self.seat + 1)
    }

    /// What gives it its addresses. Nobody else has them: duplicates need not be looked for, which takes
    /// seconds.
    fn settle(&self) -> String {
        format!(
            "link set lo up
             link set {DEVICE} up
             addr add {}/24 dev {DEVICE}
             addr add {}/64 dev {DEVICE} nodad\n",
            self.address(),
            self.address6()
        )
    }
}

/// Two hosts, one cable.
pub fn cable(hosts: &Hosts) {
    let [first, second] = [hosts.host(0), hosts.host(1)];
    let there = second.namespace.path();
    let wire = format!(
        "link add {DEVICE} type veth peer name {DEVICE} netns {}\n",
        there.display()
    );
    hosts.ip(0, &(wire + &first.settle()));
    hosts.ip(1, &second.settle());
}

/// Any number of hosts, a cable from each to a port of the bridge.
pub fn bridge(hosts: &Hosts) {
    bridges(hosts, hosts.count());
}

/// As many to each bridge, which know nothing of each other.
pub fn bridges(hosts: &Hosts, many: usize) {
    let switch = hosts.switch.as_ref().expect("a namespace for the bridge");
    let mut commands = String::new();
    for (number, together) in hosts.hosts.chunks(many).enumerate() {
        commands += &format!("link add br{number} type bridge\nlink set br{number} up\n");
        for host in together {
            let (port, there) = (port(host), host.namespace.path());
            commands += &format!(
                "link add {port} type veth peer name {DEVICE} netns {}
                 link set {port} master br{number} up\n",
                there.display()
            );
        }
    }
    switch.ip(&commands, &hosts.folder().join("ip"));
    for host in &hosts.hosts {
        hosts.ip(host.number, &host.settle());
    }
}

fn port(host: &Host) -> String {
    format!("port{}", host.number)
}

impl Hosts {
    /// Gives a host's device, which is there, its addresses.
    pub(super) fn settle(&self, host: usize) {
        self.ip(host, &self.host(host).settle());
    }

    /// ip(8) on a host.
    pub fn ip(&self, host: usize, commands: &str) {
        let namespace = &self.host(host).namespace;
        namespace.ip(commands, &self.folder().join("ip"));
    }

    /// Takes a host's own device down.
    pub fn device_down(&self, host: usize) {
        self.ip(host, &format!("link set {DEVICE} down\n"));
    }

    /// Brings it up again; the kernel has forgotten its IPv6 address.
    pub fn device_up(&self, host: usize) {
        let address6 = self.host(host).address6();
        self.ip(
            host,
            &format!("link set {DEVICE} up\naddr replace {address6}/64 dev {DEVICE} nodad\n"),
        );
    }

    /// A host has to ask anew for the hardware address of another.
    pub fn forget(&self, host: usize, other: usize) {
        let address = self.host(other).address();
        self.ip(host, &format!("neigh del {address} dev {DEVICE}\n"));
    }

    /// Pulls a host's cable out of the bridge: its own device stays up, and what it sends is lost.
    pub fn unplug(&self, host: usize) {
        self.on_switch(&format!("link set {} nomaster\n", port(self.host(host))));
    }

    /// Plugs it in again.
    pub fn plug(&self, host: usize) {
        self.on_switch(&format!("link set {} master br0\n", port(self.host(host))));
    }

    pub(super) fn on_switch(&self, commands: &str) {
        let switch = self.switch.as_ref().expect("hosts on a bridge");
        switch.ip(commands, &self.folder().join("ip"));
    }
}
