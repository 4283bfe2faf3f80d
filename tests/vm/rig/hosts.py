"""Machines as hosts: each runs nicd on the shared memory, and unmodified programs under ulsock."""

import json
import time

from .shell import Failed

FOLDER = "/run/nicd"
# Two processors are few, and kernel TCP may be faster: what is to be shown is the link.
PRELOADED = "LD_PRELOAD=/lib/libulsock_preload.so ULSOCK_NIC=daemon ULSOCK_REPORT=/tmp/report"
# Emulated processors are slow, and the host may be busy.
PATIENCE = 60


def key(machine):
    return machine.run(f"mkdir -p {FOLDER}; ulsock nicd key --key {FOLDER}/key").split()[-1]


def introduce(*machines):
    """All have one peers file."""
    lines = [f"{machine.address} keys={key(machine)}" for machine in machines]
    for machine in machines:
        machine.run("; ".join([f"rm -f {FOLDER}/peers",
                               *(f"echo {line} >>{FOLDER}/peers" for line in lines)]))


def start_nicd(machine):
    machine.run(f"ulsock nicd --port ivshmem --peers {FOLDER}/peers --key {FOLDER}/key "
                f">{FOLDER}/log 2>&1 & echo $! >{FOLDER}/pid")


def status(machine):
    """What nicd says of the other host."""
    return json.loads(machine.run("ulsock nicd status --json"))["peers"][0]


def await_status(machine, what, holds):
    end = time.monotonic() + PATIENCE
    while not holds(peer := status(machine)):
        if time.monotonic() > end:
            raise Failed(f"{machine.name}: {what}: {peer}\n" + machine.run(f"cat {FOLDER}/log"))
        time.sleep(0.2)


def await_link(machine):
    """nicd has got up, and said that the link is, though it may rest by now."""
    machine.run(f"until grep -q 'link up' {FOLDER}/log; do sleep 0.1; "
                f"[ -d /proc/$(cat {FOLDER}/pid) ] || {{ cat {FOLDER}/log; exit 1; }}; done", PATIENCE)


def await_parted(machine):
    """Nobody keeps anything of a machine that is gone."""
    machine.run("while grep -qv ' connected 0 closed 0 reset 0 ' /sys/kernel/debug/ulnic/ulnic0/endpoints; "
                "do sleep 0.1; done", PATIENCE)


def up(group):
    """The first two machines, as hosts that know each other; unless they are so already."""
    machines = group.machines[:2]
    if any(machine.slot is None for machine in machines):
        group.load(*machines)
        group.connect(*machines)
        introduce(*machines)
        for machine in machines:
            start_nicd(machine)
        for machine in machines:
            await_link(machine)
    return machines


def join(group, host, new):
    """A machine that has just started, with a key of its own, joins a host."""
    group.load(new)
    group.connect(new)
    introduce(host, new)
    host.run(f"kill -HUP $(cat {FOLDER}/pid)")
    start_nicd(new)
    await_link(new)


def start_server(machine, command, port):
    """A server under ulsock, which listens."""
    start(machine, f"{PRELOADED} {command}", port)


def start(machine, command, port):
    """A server that listens."""
    machine.run(f"{command} >/tmp/server 2>&1 & echo $! >/tmp/server.pid; "
                f"until grep -q ':{port:04X} [0-9A-F:]* 0A ' /proc/net/tcp /proc/net/tcp6; do sleep 0.1; "
                "[ -d /proc/$(cat /tmp/server.pid) ] || { cat /tmp/server; exit 1; }; done")


def by_link(machine, command, share=0.5):
    """Runs a program under ulsock: what it says. At least that share of its bytes must have gone by the link."""
    said = machine.run(f"rm -f /tmp/report; {PRELOADED} {command} 2>&1", 2 * PATIENCE)
    report = json.loads(machine.run("cat /tmp/report"))
    link, kernel = (report[f"{carrier}_tx_bytes"] + report[f"{carrier}_rx_bytes"]
                    for carrier in ("ring", "kernel"))
    if report["nic"] < 1 or link < share * (link + kernel):
        raise Failed(f"{machine.name}: not by the link: {report}\n{said}\n" + machine.run(f"cat {FOLDER}/log"))
    return said, f"{100 * link // (link + kernel)} % of {(link + kernel) / 1000:.0f} kB by the link"
