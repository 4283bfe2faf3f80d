"""A program that asks the kernel to encrypt its connection (kTLS), under ulsock: with the kernel's module, and told that
there is none. The kernels that tests usually run on have no such module; this one has."""

import json

from . import hosts
from .shell import Failed

# In the order in which they need each other: what tells who is at the other end, the cipher, what uses it.
MODULES = ("inet_diag", "tcp_diag", "cryptd", "gf128mul", "ghash-generic", "ctr", "gcm", "tls")
PORT = 4433
LINES = 60
CERTIFICATE = ("openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -days 9 -subj /CN=one "
               "-keyout /tmp/key.pem -out /tmp/cert.pem 2>&1")
# Debian 12's programs have no option for it.
CONFIGURATION = ("openssl_conf = all", "[all]", "ssl_conf = programs", "[programs]", "system_default = each", "[each]",
                 "Options = KTLS")
# Says each line backwards.
SERVER = (f"OPENSSL_CONF=/tmp/ktls.cnf openssl s_server -accept {PORT} -cert /tmp/cert.pem -key /tmp/key.pem "
          "-rev -naccept 1 -ciphersuites TLS_AES_128_GCM_SHA256")
CLIENT = f"openssl s_client -connect 127.0.0.1:{PORT} -quiet -no_ign_eof"
PRELOADED = "LD_PRELOAD=/lib/libulsock_preload.so"


def kernel_tls(group, options):
    """openssl with kTLS: the kernel encrypts, or the connection is on rings; the lines are the same."""
    first = group.machines[0]
    first.run("for name in " + " ".join(MODULES) + "; do [ -d /sys/module/$(echo $name | tr - _) ] || "
              "insmod /$name.ko || exit 1; done")
    first.run(CERTIFICATE)
    first.run("; ".join(f"echo '{line}' >>/tmp/ktls.cnf" for line in CONFIGURATION))
    of_kernel = talk(first, "ULSOCK_KTLS=1")
    of_rings = talk(first, "")
    if of_kernel["encrypted"] == 0 or of_kernel["ring"] > 0:
        raise Failed(f"the kernel was to encrypt: {of_kernel}")
    if of_rings["encrypted"] > 0 or of_rings["ring"] == 0:
        raise Failed(f"the connection was to be on rings: {of_rings}")
    return f"kernel: {of_kernel}, rings: {of_rings}"


def talk(machine, setting):
    """One connection: how many bytes went by rings, and how many connections the kernel has encrypted meanwhile."""
    before = encrypted(machine)
    report = "ULSOCK_REPORT=/tmp/report"
    machine.run("rm -f /tmp/report")
    hosts.start(machine, f"{PRELOADED} {setting} {report} {SERVER}", PORT)
    lines = f"for i in $(seq {LINES}); do echo line$i; sleep 0.05; done; sleep 1"
    said = machine.run(f"{{ {lines}; }} | {PRELOADED} {setting} {CLIENT} 2>/dev/null", 2 * hosts.PATIENCE)
    wanted = [f"line{n}"[::-1] for n in range(1, LINES + 1)]
    if said.split() != wanted:
        raise Failed(f"{setting}: {said}\n" + machine.run("cat /tmp/server"))
    machine.run("until [ -s /tmp/report ]; do sleep 0.1; done")
    report = json.loads(machine.run("cat /tmp/report"))
    return {"encrypted": encrypted(machine) - before, "ring": report["ring_tx_bytes"]}


def encrypted(machine):
    """Connections that the kernel has encrypted since it started."""
    counted = machine.run("grep TlsTxSw /proc/net/tls_stat")
    return int(counted.split()[1])


CASES = [kernel_tls]
