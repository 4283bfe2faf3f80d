"""A virtual machine: started, given commands, looked after, killed."""

import re
import signal
import socket
import subprocess
import time

from .shell import Failed

BOOT_SECONDS = 60
TROUBLE = re.compile(r"WARNING:|BUG:|Oops|Call Trace|general protection|Kernel panic|"
                     r"soft lockup|rcu_.*stall|hung_task|blocked for more than|segfault")
APPEND = ("console=ttyS0 loglevel=6 panic=-1 oops=panic panic_on_warn=1 no_timer_check "
          "mitigations=off softlockup_panic=1")


class Machine:
    """`device`: what QEMU is to have besides; `kernel` and `image`: what it starts."""

    def __init__(self, name, folder, kernel, image, device, memory=384):
        self.name = name
        self.log = folder / f"{name}.log"
        self.commands = folder / f"{name}.sock"
        self.arguments = [
            "qemu-system-x86_64", "-accel", "tcg,thread=multi", "-machine", "q35", "-cpu", "max",
            # Two processors: with one, the emulation need not keep atomic instructions atomic
            # towards other processes.
            "-smp", "2", "-m", str(memory), "-nodefaults", "-display", "none", "-no-reboot",
            "-serial", f"file:{self.log}", "-serial", f"unix:{self.commands},server=on,wait=off",
            "-kernel", str(kernel.vmlinux), "-initrd", str(image),
            "-append", APPEND, *device]
        self.process = None
        self.slot = None
        self.address = None

    def start(self):
        self.log.write_bytes(b"")
        self.commands.unlink(missing_ok=True)
        self.process = subprocess.Popen(self.arguments, stdin=subprocess.DEVNULL,
                                        stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
        end = time.monotonic() + BOOT_SECONDS
        self.line = socket.socket(socket.AF_UNIX)
        while True:
            try:
                self.line.connect(str(self.commands))
                break
            except OSError as error:
                if self.process.poll() is not None or time.monotonic() > end:
                    raise Failed(f"{self.name}: qemu: {self.complaint()}") from error
                time.sleep(0.05)
        self.received = b""

    def complaint(self):
        self.process.kill()
        return self.process.communicate()[1].decode(errors="replace")

    def await_up(self):
        self.read_until(rb"@up\r?\n", BOOT_SECONDS)

    def read_until(self, pattern, seconds):
        """What came before the pattern, and the match."""
        end = time.monotonic() + seconds
        while not (found := re.search(pattern, self.received)):
            self.line.settimeout(max(end - time.monotonic(), 0.001))
            try:
                more = self.line.recv(65536)
            except TimeoutError as error:
                raise Failed(f"{self.name}: not done after {seconds} s, so far:\n"
                             f"{self.received.decode(errors='replace')}") from error
            except ConnectionResetError:
                more = b""
            if not more:
                raise Failed(f"{self.name}: the machine has ended {self.complaint()}\n"
                             f"{self.end_of_log()}")
            self.received += more
        before, self.received = self.received[:found.start()], self.received[found.end():]
        return before.decode(errors="replace").replace("\r", ""), found

    def begin(self, command):
        """Starts a command whose end `finish` awaits."""
        self.line.sendall(command.encode() + b"\n")

    def finish(self, seconds):
        output, found = self.read_until(rb"@status (\d+)\r?\n", seconds)
        if found[1] != b"0":
            raise Failed(f"{self.name}: status {found[1].decode()}:\n{output}\n{self.end_of_log()}")
        return output

    def so_far(self):
        """What a command has printed that may not have ended."""
        try:
            return self.finish(1)
        except Failed as failed:
            return str(failed)

    def run(self, command, seconds=30):
        """The output of a command that must succeed."""
        self.begin(command)
        return self.finish(seconds)

    def value(self, name):
        """An attribute of the device."""
        return self.run(f"cat /sys/class/ulnic/ulnic0/{name}").strip()

    def await_value(self, name, wanted, seconds=15):
        end = time.monotonic() + seconds
        while (value := self.value(name)) != wanted:
            if time.monotonic() > end:
                raise Failed(f"{self.name}: {name} is {value}, not {wanted}, after {seconds} s\n"
                             f"{self.end_of_log()}")
            time.sleep(0.1)

    def background(self, command, sign):
        """Starts a command and waits until it has said `sign`."""
        name = command.split()[1]
        self.run(f"{command} >/tmp/{name} 2>&1 & echo $! >/tmp/{name}.pid")
        self.run(f"until grep -q '{sign}' /tmp/{name}; do sleep 0.1; "
                 f"[ -d /proc/$(cat /tmp/{name}.pid) ] || {{ cat /tmp/{name}; exit 1; }}; done")

    def await_end(self, command, seconds=60):
        """A command of the background says that all was well, and has ended."""
        name = command.split()[1]
        self.run(f"while [ -d /proc/$(cat /tmp/{name}.pid) ]; do sleep 0.1; done; "
                 f"grep -q '{name}: ok' /tmp/{name} || {{ cat /tmp/{name}; exit 1; }}", seconds)

    def freeze(self):
        """All its processors stand still."""
        self.process.send_signal(signal.SIGSTOP)

    def thaw(self):
        self.process.send_signal(signal.SIGCONT)

    def end_of_log(self):
        return self.log.read_text(errors="replace")[-3000:]

    def check_log(self):
        """The kernel has complained about nothing."""
        for line in self.log.read_text(errors="replace").splitlines():
            if TROUBLE.search(line):
                raise Failed(f"{self.name}: the kernel's log has: {line}\n{self.end_of_log()}")

    def kill(self):
        """As the power going off: the guest has no part in it."""
        if self.process:
            self.process.kill()
            self.process.wait()
            self.process.stderr.close()
            self.line.close()
            self.process = None
