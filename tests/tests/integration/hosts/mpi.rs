//! OpenMPI's TCP transport between two hosts with two ranks each. Where others have ssh, mpirun is given a
//! script that enters the other host.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;

use tests::compile::compile;
use tests::ends::kernel_only;
use tests::hosts::{Hosts, Nic};

const TCP_ALONE: &str = "--mca pml ob1 --mca btl tcp,self --mca btl_tcp_if_include eth0 \
                         --mca oob_tcp_if_include eth0";

#[test]
fn four_ranks() {
    let hosts = Hosts::two();
    let ranks = compile("mpicc", "ranks.c", "", hosts.folder(), "ranks");
    let [first, second] = [0, 1].map(|host| hosts.host(host).address());
    let mpirun = hosts.program(0, "mpirun").args(TCP_ALONE);
    let mpirun = mpirun.args("--mca plm_rsh_agent").arg(agent(&hosts));
    let output = mpirun
        .args(&format!("-np 4 --host {first}:2,{second}:2 --map-by node"))
        .arg(ranks)
        .arg("300")
        .env("OMPI_ALLOW_RUN_AS_ROOT", "1")
        .env("OMPI_ALLOW_RUN_AS_ROOT_CONFIRM", "1")
        .directory(hosts.folder())
        .run();
    assert!(
        output.contains("4 ranks, all bytes in their places"),
        "{output}"
    );
    // Each rank with both of the other host.
    hosts.check_linked(Nic::Most, 4);
}

/// `agent HOST COMMAND...`: the command on the second host, with that host's own settings.
fn agent(hosts: &Hosts) -> PathBuf {
    let there = hosts.host(1);
    let settings = match kernel_only() {
        true => String::new(),
        false => there
            .variables()
            .map(|(name, value)| format!("export {name}='{}'\n", value.display()))
            .concat(),
    };
    let script = format!(
        "#!/bin/sh\nshift\n{settings}exec nsenter --net={} sh -c \"$*\"\n",
        there.namespace().path().display()
    );
    let path = hosts.folder().join("agent");
    fs::write(&path, script).expect("agent");
    fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).expect("chmod");
    path
}
