"""What is shown of unmodified programs under ulsock in two machines, whose connections go by the shared memory. The
cases share one pair of hosts; the last ones leave other machines behind than they found."""

from . import hosts
from .hosts import by_link, start_server
from .shell import Failed
from .transfer import Transfer


def redis(group, options):
    """redis-server, redis-cli and redis-benchmark."""
    first, second = hosts.up(group)
    start_server(first, "redis-server --bind 0.0.0.0 --protected-mode no --save ''", 6379)
    said, share = by_link(second, f"redis-cli -h {first.address} -r 300 incr n")
    if said.split()[-1] != "300":
        raise Failed(f"redis counts {said.split()[-1]}, not 300")
    said, many = by_link(second, f"redis-benchmark -h {first.address} -n 500 -c 4 -t set -d 100 -q")
    if "requests per second" not in said:
        raise Failed(said)
    first.run("kill $(cat /tmp/server.pid)")
    return f"{share}; benchmark: {many}"


def iperf3(group, options):
    """A stream at a rate, to which nobody answers."""
    first, second = hosts.up(group)
    start_server(first, "iperf3 -s -1", 5201)
    said, share = by_link(second, f"iperf3 -c {first.address} -l 1K -b 4M -t 4 -f m")
    if "receiver" not in said:
        raise Failed(said)
    return share


def netpipe(group, options):
    """NPtcp, which checks what it receives."""
    first, second = hosts.up(group)
    common = "-i -u 4096 -n 10 -P 5002 -o /tmp/np"
    start_server(first, f"NPtcp {common}", 5002)
    said, share = by_link(second, f"NPtcp -h {first.address} {common}")
    if "Integrity check passed" not in said or "failed" in said:
        raise Failed(said)
    return share


def transfers(group, options):
    """Byte-exact, by the link."""
    first, second = hosts.up(group)
    total = 0
    for style, connections, count in (("stream", 2, 500_000), ("echo", 3, 20_000)):
        transfer = Transfer(first, second, connections, f"style={style}")
        transfer.moves(count)
        total += transfer.finish()
    return f"{total / 1e6:.1f} MB"


def orphaned(group, options):
    """A machine is killed in the middle of a transfer: the other's program hears kernel TCP's verdict, its memory comes
    back, and a machine in the place of the dead one gets its links."""
    first, second = hosts.up(group)
    first.background("vmtest hold 262144", "ready")
    transfer = Transfer(first, second, 2, "style=echo timeout_ms=2000 keep_alive=1")
    transfer.moves(1_000)
    group.remove(second)
    # The dead one cannot say that it has this memory mapped no more.
    first.run("kill $(cat /tmp/hold.pid)")
    first.await_value("memory_quarantined", "262144")
    ends = {end["end"] for end in transfer.result(first)}
    if not ends <= {"TimedOut", "HostUnreachable"}:
        raise Failed(f"it ended with {ends}")
    first.await_value("peers", first.slot)
    hosts.await_parted(first)
    first.await_value("memory_quarantined", "0")
    again, = group.start("second")
    hosts.join(group, first, again)
    transfer = Transfer(first, again, 2, "style=echo")
    transfer.moves(10_000)
    transfer.finish()
    return ", ".join(sorted(ends))


def scribbled(group, options):
    """A third machine writes rubbish over the memory that a transfer goes by: no byte is wrong, and when it has ended
    there are links again."""
    first, second = hosts.up(group)
    third, = group.start("third")
    transfer = Transfer(first, second, 2, "style=echo")
    transfer.moves(1_000)
    # Half as long as where nothing but the kernels is at stake.
    seconds = options.scribble // 2
    output = third.run(f"vmtest scribble {options.seed} {seconds}", seconds + 60)
    group.check_logs()
    transfer.moves(10_000)
    total = transfer.finish()
    transfer = Transfer(first, second, 2, "style=echo")
    transfer.moves(10_000)
    total += transfer.finish()
    return f"{output}, {total / 1e6:.1f} MB"


CASES = [redis, iperf3, netpipe, transfers, orphaned, scribbled]
