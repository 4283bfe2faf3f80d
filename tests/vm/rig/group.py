"""Machines that share a region, with a server (doorbells) or without one (plain)."""

from .machine import Machine
from .server import Server

LARGE = 64 << 20
# Who is joined by an ordinary network interface as well, and its address.
CABLE = {"first": "10.7.0.1", "second": "10.7.0.2"}
# Two slots, so that a third machine must take the place of another.
SMALL = 2 << 20
# Sixteen slots with more than 4 GiB each; only what is touched takes memory.
VAST = 128 << 30

# Emulated processors stand still for seconds when the host is busy; the other is for a short test.
LOAD = "insmod /lib/modules/*/updates/dkms/ulnic.ko dead_ms=4000 quarantine_ms=6000"


class Group:
    def __init__(self, folder, kernel, image, has_doorbells=True, size=LARGE):
        self.folder = folder
        self.kernel = kernel
        self.image = image
        self.machines = []
        self.size = size
        self.server = None
        folder.mkdir(parents=True)
        if has_doorbells:
            self.server = Server(folder / "server.sock", size)

    def device(self):
        if self.server:
            return ["-chardev", f"socket,path={self.folder}/server.sock,id=iv",
                    "-device", "ivshmem-doorbell,vectors=1,chardev=iv"]
        return ["-object", f"memory-backend-file,id=iv,size={self.size},share=on,"
                           f"mem-path={self.folder}/region",
                "-device", "ivshmem-plain,memdev=iv"]

    def interface(self, name):
        """The ordinary one, for those that have one."""
        if name not in CABLE:
            return []
        (other,) = CABLE.keys() - {name}
        # QEMU leaves it behind when it is killed.
        (self.folder / f"{name}.cable").unlink(missing_ok=True)
        return ["-netdev", f"dgram,id=cable,local.type=unix,local.path={self.folder}/{name}.cable,"
                           f"remote.type=unix,remote.path={self.folder}/{other}.cable",
                "-device", f"e1000,netdev=cable,mac=52:54:00:00:00:0{CABLE[name][-1]}"]

    def start(self, *names):
        """Machines that start at the same time; the server numbers them in this order."""
        new = [Machine(name, self.folder, self.kernel, self.image,
                       self.device() + self.interface(name))
               for name in names]
        for machine in new:
            self.machines.append(machine)
            machine.start()
        for machine in new:
            machine.await_up()
        return new

    @staticmethod
    def slots(*machines):
        """As the attribute `peers` lists them."""
        return " ".join(sorted((machine.slot for machine in machines), key=int))

    @staticmethod
    def connect(*machines):
        """Brings the ordinary interfaces up, once."""
        for machine in machines:
            machine.run("[ -d /sys/module/e1000 ] || insmod /e1000.ko; ip link set eth0 up; "
                        f"ip address replace {CABLE[machine.name]}/24 dev eth0")
            machine.address = CABLE[machine.name]

    def load(self, *machines, command=LOAD):
        """Loads the module; these machines then know of each other."""
        for machine in machines:
            machine.begin(command)
        for machine in machines:
            machine.finish(60)
            machine.slot = machine.value("slot")
        loaded = [machine for machine in self.machines if machine.slot]
        for machine in loaded:
            machine.await_value("peers", self.slots(*loaded))

    def unload(self, *machines):
        """Of all machines, unless some are named."""
        for machine in machines or self.machines:
            machine.run("killall -9 vmtest ulsock 2>/dev/null; sleep 0.2; "
                        "if [ -d /sys/module/ulnic ]; then rmmod ulnic; fi")
            machine.slot = None

    def remove(self, machine):
        machine.kill()
        self.machines.remove(machine)

    def check_logs(self):
        for machine in self.machines:
            machine.check_log()

    def stop(self):
        for machine in self.machines:
            machine.kill()
        if self.server:
            self.server.stop()
