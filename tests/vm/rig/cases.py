"""What is shown, case by case. The module is loaded in no machine when a case begins, and in none
when it has ended; unloading shows that nothing was left behind. Those of programs share their hosts."""

import errno
import time

from . import kernel_tls, programs
from .build import GROUP
from .group import LOAD, SMALL, VAST, Group
from .shell import Failed

UNBIND = ("echo $(basename $(readlink -f /sys/class/ulnic/ulnic0/device))"
          " >/sys/bus/pci/drivers/ulnic/unbind")


def loads(group, options):
    """The module comes and goes, while another machine looks on."""
    first, second = group.machines[:2]
    group.load(second)
    first.run(f"for i in $(seq {options.loads}); do {LOAD} && rmmod ulnic || exit 1; done",
              120)
    second.await_value("peers", second.slot)
    group.load(first)
    second.await_value("peers", group.slots(first, second))
    return f"{options.loads} times"


def installed(group, options):
    """udev finds the device, loads the module that DKMS has installed, and lets the group use it."""
    first = group.machines[0]
    first.run("/lib/systemd/systemd-udevd --daemon")
    first.run("udevadm trigger --action=add --subsystem-match=pci && udevadm settle --timeout=20")
    access = first.run("stat -c '%a %G' /dev/ulnic0").strip()
    if access != "660 ulsock":
        raise Failed(f"the device's mode and group are {access}")
    first.run(f"vmtest member {GROUP} 0")
    first.run(f"vmtest member 65534 {errno.EACCES}")
    first.run("udevadm control --exit")
    return access


def misuse(group, options):
    """Calls and mappings that must fail."""
    first = group.machines[0]
    group.load(first)
    return first.run("vmtest misuse", 60)


def isolation(group, options):
    """Processes see nothing of each other; memory with a new owner is nobody else's."""
    first, second = group.machines[:2]
    group.load(first, second)
    free = first.value("memory_free")
    first.run("vmtest isolation", 60)
    first.run("vmtest reuse", 60)
    first.await_value("memory_free", free)
    return f"{first.value('revocations')} mappings revoked"


def renewal(group, options):
    """The same between two machines, while one writes into what it had mapped all the time."""
    first, second = group.machines[:2]
    group.load(first, second)
    first.begin("vmtest renew 30")
    second.begin(f"vmtest stale {first.slot} 30 {errno.EPIPE}")
    second.finish(120)
    first.finish(60)
    return f"{second.value('revocations')} mappings revoked"


def reloading(group, options):
    """A driver starts anew while a machine that stands still maps, and writes, memory of its last life: nobody gets that
    memory before the other has given it up."""
    first, second = group.machines[:2]
    # Who stands still must not be taken for dead: nobody waits for what those have to say.
    patient = f"{LOAD} dead_ms=60000"
    group.load(first, second, command=patient)
    first.background("vmtest hold 262144", "ready")
    second.background(f"vmtest stale {first.slot} 1 {errno.ECONNRESET}", "mapped")
    second.freeze()
    group.unload(first)
    first.run(patient)
    first.background("vmtest anew", "waiting")
    time.sleep(1)
    if first.run("cat /tmp/anew") != "waiting\n":
        raise Failed("it waits no more")
    second.thaw()
    first.await_end("vmtest anew")
    second.await_end("vmtest stale")
    return f"{second.value('revocations')} mapping revoked"


def unbinding(group, options):
    """The device goes away under open files and mappings, and comes back."""
    first, second = group.machines[:2]
    group.load(second)
    for _ in range(3):
        group.load(first)
        first.background("vmtest unbound", "ready")
        first.run(UNBIND)
        first.await_end("vmtest unbound")
        group.unload(first)
        second.await_value("peers", second.slot)
    return "3 times"


def fuzzing(group, options):
    """Random calls; afterwards all memory is back."""
    first, second = group.machines[:2]
    group.load(first, second)
    free = first.value("memory_free")
    output = first.run(f"vmtest fuzz {options.seed} {options.fuzz}", 300)
    first.await_value("memory_free", free)
    first.run("vmtest misuse")
    return output


def doorbells(group, options):
    """Messages that each wake a sleeper: between two machines, then two and one."""
    first, second, third = group.machines
    group.load(first, second, third)
    output = talk(first, [second], options.messages // 2)
    return output + talk(second, [first, third], 2000)


def talk(server, clients, count):
    server.begin(f"vmtest serve {len(clients)}")
    for client in clients:
        client.begin(f"vmtest talk {server.slot} {count}")
    try:
        output = "".join(client.finish(400) for client in clients)
    except Failed as failed:
        raise Failed(f"{failed}\nThe server: {server.so_far()}") from failed
    server.finish(60)
    return output


def death(group, options):
    """A machine is killed: who is connected is told, memory comes back, another takes its place."""
    first, second = group.machines[:2]
    group.load(first, second)
    free = first.value("memory_free")
    second.background("vmtest hold 262144", "ready")
    first.background(f"vmtest orphan {second.slot}", "connected")
    group.remove(second)
    start = time.monotonic()
    first.await_end("vmtest orphan")
    seconds = time.monotonic() - start
    first.await_value("peers", first.slot)
    # The memory of who was connected to the dead one comes back when its time is over.
    first.await_value("memory_free", free)
    again = group.start("again")[0]
    group.load(again)
    if again.slot != second.slot:
        raise Failed(f"the new machine is in slot {again.slot}, not in {second.slot}")
    return f"noticed after {seconds:.1f} s; " + talk(again, [first], 200)


def pause(group, options):
    """A machine stands still for longer than the others wait, and goes on: it joins again."""
    first, second = group.machines[:2]
    group.load(first, second)
    second.background("vmtest hold 262144", "ready")
    first.background(f"vmtest orphan {second.slot}", "connected")
    first.background("vmtest hold 262144", "ready")
    second.background(f"vmtest orphan {first.slot}", "connected")
    second.freeze()
    first.await_end("vmtest orphan")
    second.thaw()
    second.await_end("vmtest orphan")
    for machine in (first, second):
        machine.await_value("peers", group.slots(first, second))
        machine.run("killall vmtest")
    return talk(second, [first], 200)


def forgery(group, options):
    """A machine publishes apertures that are not its own: nobody gets them."""
    first, third = group.machines[0], group.machines[2]
    group.load(first)
    third.background("vmtest forge 9", "ready")
    return first.run(f"vmtest deceived 9 {group.size}", 60)


def hostile(group, options):
    """A machine writes rubbish over everything: the others' kernels bear it, their TCP goes on, and
    they recover."""
    first, second, third = group.machines
    group.load(first, second)
    group.connect(first, second)
    seconds = options.scribble
    first.run("iperf3 -s -1 >/tmp/server 2>&1 & true")
    second.run(f"sleep 1; iperf3 -c {first.address} -t {seconds} -f m >/tmp/client 2>&1 & true")
    # Has everything connected and mapped, again and again, as far as it lasts.
    for victim in (first, second):
        victim.begin(f"end=$(($(date +%s) + {seconds})); "
                     "while [ $(date +%s) -lt $end ]; do vmtest fuzz $(date +%s) 500; "
                     "timeout 2 vmtest hold 65536; timeout 2 vmtest talk 1 10; done >/dev/null; true")
    output = third.run(f"vmtest scribble {options.seed} {seconds}", seconds + 60)
    for victim in (first, second):
        victim.finish(60)
        output += f", {victim.value('doorbells_in')} rings, {victim.value('doorbells_held')} pauses"
    group.check_logs()
    output += ", TCP" + second.run(f"sleep 3; grep '0.00-{seconds}.*receiver' /tmp/client || "
                                   "{ cat /tmp/client; exit 1; }").split("]")[1]
    for victim in (first, second):
        victim.await_value("peers", group.slots(first, second))
        # What was closed meanwhile waits for machines that never were.
        victim.await_value("memory_quarantined", "0")
    return output + "; " + talk(first, [second], 200)


def plain(group, options):
    """Without a server and without doorbells: slots are claimed, a timer looks."""
    first, second = group.machines
    group.load(first, second)
    if first.slot == second.slot:
        raise Failed("two machines have one slot")
    first.run("vmtest isolation", 60)
    first.run("vmtest misuse", 60)
    return talk(first, [second], 500)


def conformance(group, options):
    """What holds for every port (netstack/tests/phy) holds for the one over the shared memory."""
    first = group.machines[0]
    group.load(first)
    output = first.run("phy --ignored --test-threads=1 ivshmem::", 300)
    return output[output.index("test result"):].split(";")[0]


def vast(group, options):
    """A region whose partitions are larger than an aperture can be: whoever says that one is, is not believed."""
    first, third = group.machines
    group.load(first)
    first.run("vmtest misuse", 60)
    third.background("vmtest forge 9", "ready")
    return first.run(f"vmtest deceived 9 {group.size}", 60)


# The suite of ports first: it takes all the memory there is again and again, and waits for none that a machine which
# never was may have mapped.
WITH_DOORBELLS = [conformance, loads, installed, misuse, isolation, renewal, reloading, unbinding, fuzzing, doorbells,
                  forgery, hostile]
OF_TWO = [pause, death]
WITHOUT_DOORBELLS = [plain]
IN_VAST_REGION = [vast]
# The first one needs no link.
OF_PROGRAMS = kernel_tls.CASES + programs.CASES
NAMES = [case.__name__
         for case in WITH_DOORBELLS + OF_TWO + WITHOUT_DOORBELLS + IN_VAST_REGION + OF_PROGRAMS]


def run_case(case, group, options, unloads):
    start = time.monotonic()
    said = case(group, options)
    if unloads:
        group.unload()
    group.check_logs()
    said = " ".join(said.split())
    print(f"{case.__name__:12} ok {time.monotonic() - start:6.1f} s  {said}", flush=True)


def run_group(cases, options, group, names, unloads=True):
    wanted = [case for case in cases if not options.case or case.__name__ in options.case]
    step = "starting"
    try:
        if wanted:
            group.start(*names)
        for case in wanted:
            step = case.__name__
            run_case(case, group, options, unloads or case is wanted[-1])
    except Failed as failed:
        raise Failed(f"{step}: {failed}") from failed
    finally:
        group.stop()


def run(options, kernel, image, folder):
    run_group(WITH_DOORBELLS, options, Group(folder / "three", kernel, image),
              ("first", "second", "third"))
    run_group(OF_TWO, options, Group(folder / "two", kernel, image, size=SMALL),
              ("first", "second"))
    run_group(WITHOUT_DOORBELLS, options, Group(folder / "plain", kernel, image, has_doorbells=False),
              ("first", "second"))
    run_group(IN_VAST_REGION, options, Group(folder / "vast", kernel, image, size=VAST),
              ("first", "third"))
    run_group(OF_PROGRAMS, options, Group(folder / "hosts", kernel, image), ("first", "second"),
              unloads=False)
