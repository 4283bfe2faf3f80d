"""A transfer between two machines with every byte checked (tests/src/bin/carry.rs)."""

import json
import time

from . import hosts
from .hosts import PATIENCE, PRELOADED
from .shell import Failed

PORT = 7000


class Transfer:
    """From `client` to `server` and back, until it is told to end. All its connections go by the link."""

    def __init__(self, server, client, connections, options):
        self.server, self.client = server, client
        common = f"port={PORT} conns={connections} log=/tmp/carried {options}"
        hosts.start_server(server, f"carry listen host=0.0.0.0 {common}", PORT)
        # It ends when its standard input does.
        client.run("rm -f /tmp/hold; mkfifo /tmp/hold; sleep 1000 >/tmp/hold & echo $! >/tmp/hold.pid; "
                   f"{PRELOADED} carry connect host={server.address} {common} "
                   "</tmp/hold >/tmp/server 2>&1 & echo $! >/tmp/server.pid")
        for machine in (server, client):
            hosts.await_status(machine, "not by the link", lambda peer: peer["served"] == connections)

    @staticmethod
    def received(machine):
        digits = machine.run("hexdump -v -e '8/1 \"%02x\"' /tmp/carried").strip()
        return int.from_bytes(bytes.fromhex(digits), "little")

    def moves(self, count):
        """Both ends receive so many bytes more."""
        for machine in (self.server, self.client):
            end, wanted = time.monotonic() + PATIENCE, self.received(machine) + count
            while (now := self.received(machine)) < wanted:
                if time.monotonic() > end:
                    raise Failed(f"{machine.name}: {now} bytes received, not {wanted}\n"
                                 + machine.run("cat /tmp/server"))
                time.sleep(0.2)

    @staticmethod
    def result(machine):
        """What an end says of its connections, once it has ended."""
        text = machine.run("while [ -d /proc/$(cat /tmp/server.pid) ]; do sleep 0.1; done; cat /tmp/server",
                           PATIENCE)
        try:
            return json.loads(text)
        except ValueError as error:
            raise Failed(f"{machine.name}: {text}") from error

    def finish(self):
        """Ends it: every byte that was sent has come. How many did."""
        self.client.run("kill $(cat /tmp/hold.pid)")
        here, there = self.result(self.client), self.result(self.server)
        for mine, theirs in zip(here, there, strict=True):
            exact = mine["sent"] == theirs["received"] and mine["received"] == theirs["sent"]
            if not exact or (mine["end"], theirs["end"]) != ("end", "end"):
                raise Failed(f"client {mine}, server {theirs}")
        return sum(end["received"] for end in here + there)
