"""Pretends to be the other end of somebody else's connection: forger.py RUN_DIR HOW

The connection is that of `forger.py client`, which says on stdout when it has it. HOW is where the
forger's window leads:
  home        to a network namespace of its own, in which it has made a connection with the same addresses;
  neighbour   to the client's, in which it is another user than the client, or, as a control, the same.
It prints "claimed" if the server claims the connection from it, else "refused".
"""
import array, os, select, socket, struct, sys, time

SERVER, CLIENT = ("10.77.0.1", 7000), ("10.77.0.2", 40007)
MASK = (1 << 64) - 1
SLOTS, WINDOW, SLOT, HEADER = 16384, 16, 128, 4096


def mix(words):
    state = 0x9E3779B97F4A7C15
    for word in words:
        m = state ^ word
        m = (m ^ m >> 30) * 0xBF58476D1CE4E5B9 & MASK
        m = (m ^ m >> 27) * 0x94D049BB133111EB & MASK
        state = (m ^ m >> 31) + 0x9E3779B97F4A7C15 & MASK
    return state


def number(ip):
    return struct.unpack(">I", socket.inet_aton(ip))[0]


def offer(cookie, mailbox):
    key = [0, 4 << 32 | CLIENT[1] << 16 | SERVER[1], 0, number(CLIENT[0]), 0, number(SERVER[0])]
    head = 1 << 32 | 4 | 2
    words = [head, *key, cookie, mailbox[0] << 32 | os.getpid(), mailbox[1], 0, 0, 0, 0, 0]
    slot = struct.pack("=16Q", *words, mix(words))
    path = f"{RUN_DIR}/offers.{os.getuid()}"
    table = os.open(path, os.O_RDWR | os.O_CREAT, 0o644)
    os.ftruncate(table, HEADER + SLOTS * SLOT)
    os.pwrite(table, b"ulsock-o\x01\0\0\0\0\x40\0\0", 0)
    os.pwrite(table, slot, HEADER + mix(key) % (SLOTS - WINDOW + 1) * SLOT)


def diag():
    return socket.socket(socket.AF_NETLINK, socket.SOCK_DGRAM, 4)


def true_cookie():
    """That of the client's socket: everybody in its namespace may ask."""
    ports = struct.pack(">HH", CLIENT[1], SERVER[1])
    ends = socket.inet_aton(CLIENT[0]).ljust(16, b"\0") + socket.inet_aton(SERVER[0]).ljust(16, b"\0")
    body = struct.pack("=BBBBI", socket.AF_INET, socket.IPPROTO_TCP, 0, 0, 0xFFFFFFFF)
    body += ports + ends + struct.pack("=IQ", 0, MASK)
    window = diag()
    window.sendto(struct.pack("=IHHII", 16 + len(body), 20, 1, 1, 0) + body, (0, 0))
    return struct.unpack_from("=Q", window.recv(4096), 16 + 44)[0]


def own_connection():
    for command in ["link set lo up", f"addr add {SERVER[0]}/32 dev lo", f"addr add {CLIENT[0]}/32 dev lo"]:
        assert os.system(f"ip {command}") == 0
    listener = socket.create_server(SERVER)
    fake = socket.create_connection(SERVER, source_address=CLIENT)
    kept = (listener, fake, listener.accept()[0])
    return struct.unpack("=Q", fake.getsockopt(socket.SOL_SOCKET, 57, 8))[0], kept


def forge(how):
    # Before anybody can answer it, the offer leads nowhere.
    cookie, _kept = own_connection() if how == "home" else (true_cookie(), None)
    mailbox = (os.getpid(), 0x1234)
    name = f"{RUN_DIR}/mail.{mailbox[0]}.{mailbox[1]:016x}"
    box = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    box.bind(name)
    os.chmod(name, 0o666)
    box.listen(8)
    offer(cookie, mailbox)
    print("offered", flush=True)
    channel, end, returned = None, time.time() + 3, []
    while time.time() < end:
        for ready in select.select([channel or box], [], [], 0.1)[0]:
            if channel is None:
                channel = box.accept()[0]
                continue
            message, fds, _, _ = channel.recvmsg(64, 256)
            kind = struct.unpack_from("<H", message)[0] if message else 0
            if kind == 8:
                _, _, pid, random, _ = struct.unpack("<HQIQB", message)
                call = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
                call.connect(f"{RUN_DIR}/mail.{pid}.{random:016x}")
                answer = struct.pack("<HQIQB", 8, cookie, *mailbox, 1)
                window = diag()
                rights = array.array("i", [window.fileno()])
                call.sendmsg([answer], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, rights)])
                returned.append(call)
                print("shown", flush=True)
            if kind == 3:
                return print("claimed", flush=True)
            if not message:
                return print("refused", flush=True)
    print("refused", flush=True)


def client():
    """Echo, for as long as stdin is open."""
    connection = socket.create_connection(SERVER, source_address=CLIENT)
    rounds = 0
    while not select.select([sys.stdin], [], [], 0)[0]:
        sent = os.urandom(1000)
        connection.sendall(sent)
        got = b""
        while len(got) < len(sent):
            part = connection.recv(len(sent) - len(got))
            assert part, "the connection has ended"
            got += part
        assert got == sent, "other bytes came back"
        rounds += 1
        if rounds == 20:
            print("connected", flush=True)
        time.sleep(0.002)


if sys.argv[1] == "client":
    client()
else:
    RUN_DIR = sys.argv[1]
    forge(sys.argv[2])
