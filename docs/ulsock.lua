-- Wireshark's view of ulsock's link protocol, as link.md describes it ("Packets"; [W1] and so on are its rules).
--
--     tshark -X lua_script:docs/ulsock.lua -r capture.pcap
--     cp docs/ulsock.lua ~/.local/lib/wireshark/plugins/
--
-- The CRC of most packets covers the incarnations of both engines, which are told only when a link begins:
-- it can be verified if that is in the capture. Works with Lua 5.2 to 5.4.

local ulsock = Proto("ulsock", "ulsock link protocol")

local VERSION = 1
local HEADER = 32
local ACK_FIXED, ACK_RANGE, ACK_MARKS = 8, 4, 8
local MOST_RANGES, PATHS = 32, 8
local FLAG_ACK, FLAG_ASK, FLAG_MARKS, FLAG_PATH = 0x80, 0x40, 0x20, 0x07

local kinds = {
    [0] = "HELLO", "WELCOME", "CONFIRM", "ACK", "DATA", "CREDIT",
    "OPEN", "ACCEPT", "CLOSE", "RESET", "PING", "BYE",
}
local reasons = { [1] = "unexpected", [2] = "disagreement", [3] = "frozen" }
local BAD, GOOD, UNVERIFIED = 0, 1, 2
local statuses = { [BAD] = "Bad", [GOOD] = "Good", [UNVERIFIED] = "Unverified" }

local f = {
    version = ProtoField.uint8("ulsock.version", "Version", base.DEC, nil, 0xf0),
    kind = ProtoField.uint8("ulsock.kind", "Kind", base.DEC, kinds, 0x0f),
    flags = ProtoField.uint8("ulsock.flags", "Flags", base.HEX),
    has_ack = ProtoField.bool("ulsock.flags.ack", "Acknowledgement block follows", 8, nil, FLAG_ACK),
    ask = ProtoField.bool("ulsock.flags.ask", "Acknowledge at once", 8, nil, FLAG_ASK),
    has_marks = ProtoField.bool("ulsock.flags.marks", "Block has ECN counts", 8, nil, FLAG_MARKS),
    path = ProtoField.uint8("ulsock.path", "Path", base.DEC, nil, FLAG_PATH),
    length = ProtoField.uint16("ulsock.length", "Length of the body"),
    tag = ProtoField.uint32("ulsock.tag", "Tag of the receiver", base.HEX),
    number = ProtoField.uint32("ulsock.number", "Packet number, low 32 bits"),
    crc = ProtoField.uint32("ulsock.crc", "CRC32C", base.HEX),
    crc_status = ProtoField.uint8("ulsock.crc.status", "CRC status", base.DEC, statuses),
    token = ProtoField.uint64("ulsock.token", "Token of the receiver", base.HEX),
    offset = ProtoField.uint32("ulsock.offset", "Offset, low 32 bits"),
    credit = ProtoField.uint32("ulsock.credit", "Credit, low 32 bits"),
    ack = ProtoField.bytes("ulsock.ack", "Acknowledgement"),
    ack_path = ProtoField.uint8("ulsock.ack.path", "Path"),
    ack_count = ProtoField.uint8("ulsock.ack.count", "Ranges"),
    ack_delay = ProtoField.double("ulsock.ack.delay", "Delay in us"),
    ack_largest = ProtoField.uint32("ulsock.ack.largest", "Largest number received, low 32 bits"),
    ack_range = ProtoField.string("ulsock.ack.range", "Range"),
    ack_first = ProtoField.uint32("ulsock.ack.range.first", "First"),
    ack_last = ProtoField.uint32("ulsock.ack.range.last", "Last"),
    ack_ect = ProtoField.uint32("ulsock.ack.ect0", "Packets with ECT(0)"),
    ack_ce = ProtoField.uint32("ulsock.ack.ce", "Packets with CE"),
    incarnation = ProtoField.uint64("ulsock.incarnation", "Incarnation of the sender", base.HEX),
    own_tag = ProtoField.uint32("ulsock.own_tag", "Tag of the sender", base.HEX),
    peer = ProtoField.uint64("ulsock.peer_incarnation", "Incarnation of the receiver", base.HEX),
    challenge = ProtoField.uint64("ulsock.challenge", "Challenge", base.HEX),
    name = ProtoField.uint64("ulsock.open.name", "Name of the connection", base.HEX),
    own_token = ProtoField.uint64("ulsock.open.token", "Token of the sender", base.HEX),
    send_from = ProtoField.uint64("ulsock.open.send_from", "Offset to send from"),
    receive_from = ProtoField.uint64("ulsock.open.receive_from", "Offset to receive from"),
    open_credit = ProtoField.uint64("ulsock.open.credit", "Credit"),
    reason = ProtoField.uint16("ulsock.reason", "Reason", base.DEC, reasons),
    data = ProtoField.bytes("ulsock.data", "Bytes of the stream"),
    padding = ProtoField.bytes("ulsock.padding", "Padding"),
}
ulsock.fields = f

local malformed = ProtoExpert.new("ulsock.malformed", "Malformed", expert.group.MALFORMED, expert.severity.ERROR)
local bad_crc = ProtoExpert.new("ulsock.crc.bad", "CRC does not fit", expert.group.CHECKSUM, expert.severity.ERROR)
ulsock.experts = { malformed, bad_crc }

-- Where the bytes of the addresses lie.
local ends = {
    { Field.new("ip.src"), Field.new("ip.dst") },
    { Field.new("ipv6.src"), Field.new("ipv6.dst") },
}

-- CRC32C (Castagnoli), reflected. Results of `bit` may be negative: only the last step takes them modulo 2^32.
local bit = bit or bit32 or require("bit32")
local bxor, band, rshift = bit.bxor, bit.band, bit.rshift
local crc_table = {}
for byte = 0, 255 do
    local crc = byte
    for _ = 1, 8 do
        crc = band(crc, 1) == 1 and bxor(rshift(crc, 1), 0x82f63b78) or rshift(crc, 1)
    end
    crc_table[byte] = crc
end

local function crc32c(bytes)
    local crc = 0xffffffff
    for at = 1, #bytes do
        crc = bxor(rshift(crc, 8), crc_table[band(bxor(crc, bytes:byte(at)), 0xff)])
    end
    return bxor(crc, 0xffffffff) % 0x100000000
end

-- Incarnations of sender and receiver, by both addresses and the tag; and for each frame those that it had when
-- it came by, since a tag may serve a later link too.
local links, frames

function ulsock.init()
    links, frames = {}, {}
end

local function addresses()
    for _, pair in ipairs(ends) do
        -- The innermost, if there is a tunnel.
        local source, destination = { pair[1]() }, { pair[2]() }
        if #source > 0 then
            return source[#source].range:bytes():raw(), destination[#destination].range:bytes():raw()
        end
    end
    return nil
end

local function port(number)
    return string.char(math.floor(number / 256), number % 256)
end

-- [W2] What the CRC must be, if all is known that it covers.
local function expected_crc(tvb, pinfo, incarnations)
    local source, destination = addresses()
    if not source or not incarnations or tvb:captured_len() < tvb:reported_len() then
        return nil
    end
    local before = source .. port(pinfo.src_port) .. destination .. port(pinfo.dst_port) .. incarnations
    return crc32c(before .. tvb:raw(0, 12) .. "\0\0\0\0" .. tvb:raw(16))
end

-- Incarnations as the CRC has them; `nil` if they are not known.
local function incarnations_of(tvb, pinfo, kind)
    if kind == 0 or kind == 1 then
        return ""
    end
    if kind == 2 and tvb:captured_len() >= HEADER + 20 then
        return tvb:raw(HEADER, 8) .. tvb:raw(HEADER + 12, 8)
    end
    if not pinfo.visited then
        local source, destination = addresses()
        frames[pinfo.number] = source and links[source .. destination .. tvb:raw(4, 4)]
    end
    return frames[pinfo.number]
end

-- WELCOME and CONFIRM name both incarnations, and between them both tags.
local function learn(tvb, kind)
    local source, destination = addresses()
    if (kind == 1 or kind == 2) and source and tvb:captured_len() >= HEADER + 20 then
        local me, tag, you = tvb:raw(HEADER, 8), tvb:raw(HEADER + 8, 4), tvb:raw(HEADER + 12, 8)
        links[source .. destination .. tvb:raw(4, 4)] = me .. you
        links[destination .. source .. tag] = you .. me
    end
end

local function verify(tvb, pinfo, tree, kind)
    local item = tree:add(f.crc, tvb(12, 4))
    local expected = expected_crc(tvb, pinfo, incarnations_of(tvb, pinfo, kind))
    local status = UNVERIFIED
    if expected then
        status = expected == tvb(12, 4):uint() and GOOD or BAD
    end
    if status == GOOD and not pinfo.visited then
        learn(tvb, kind)
    elseif status == BAD then
        item:add_proto_expert_info(bad_crc, string.format("CRC does not fit: 0x%08x is wanted", expected))
    end
    item:append_text(" [" .. statuses[status]:lower() .. "]")
    tree:add(f.crc_status, tvb(12, 4), status):set_generated()
end

-- The ranges, from the largest number down.
local function add_ranges(tvb, tree, at, count)
    local last = tvb(at + 4, 4):uint()
    local text = {}
    for index = 0, count - 1 do
        local range = tvb(at + ACK_FIXED + index * ACK_RANGE, ACK_RANGE)
        local first = (last - range(0, 2):uint()) % 0x100000000
        text[#text + 1] = first == last and tostring(last) or (first .. "-" .. last)
        local item = tree:add(f.ack_range, range, text[#text])
        item:add(f.ack_first, range, first)
        item:add(f.ack_last, range, last)
        last = (first - range(2, 2):uint() - 2) % 0x100000000
    end
    return table.concat(text, ",")
end

-- The acknowledgement block: what it says, and where it ends; or what is wrong with it.
local function add_ack(tvb, tree, has_marks)
    local at = HEADER
    if tvb:len() < at + ACK_FIXED then
        return nil, nil, "the acknowledgement block is cut"
    end
    local count = tvb(at + 1, 1):uint()
    local marks = at + ACK_FIXED + count * ACK_RANGE
    local after = marks + (has_marks and ACK_MARKS or 0)
    if count < 1 or count > MOST_RANGES or after > tvb:len() then
        return nil, nil, "the acknowledgement block is cut, or has too many ranges or none"
    end
    local block = tree:add(f.ack, tvb(at, after - at))
    block:add(f.ack_path, tvb(at, 1))
    block:add(f.ack_count, tvb(at + 1, 1))
    block:add(f.ack_delay, tvb(at + 2, 2), tvb(at + 2, 2):uint() / 4)
    block:add(f.ack_largest, tvb(at + 4, 4))
    local text = add_ranges(tvb, block, at, count)
    if has_marks then
        block:add(f.ack_ect, tvb(marks, 4))
        block:add(f.ack_ce, tvb(marks + 4, 4))
    end
    local wrong
    if tvb(at, 1):uint() >= PATHS or tvb(marks - 2, 2):uint() ~= 0 then
        wrong = "the acknowledgement block names a path that is none, or goes on after its last range"
    end
    return string.format("ack %d:%s", tvb(at, 1):uint(), text), after, wrong
end

local function add_hello(body, tree)
    tree:add(f.incarnation, body(0, 8))
    tree:add(f.own_tag, body(8, 4))
    tree:add(f.padding, body(12))
end

local function add_welcome(body, tree)
    tree:add(f.incarnation, body(0, 8))
    tree:add(f.own_tag, body(8, 4))
    tree:add(f.peer, body(12, 8))
    tree:add(f.challenge, body(20, 8))
end

local function add_open(body, tree)
    for index, field in ipairs({ f.name, f.own_token, f.send_from, f.receive_from, f.open_credit }) do
        tree:add(field, body(8 * (index - 1), 8))
    end
end

-- For each kind: how long its body is (`nil`: any), what it shows, and which of the later fields it has.
local bodies = {
    [0] = { 64, add_hello },
    [1] = { 28, add_welcome },
    [2] = { 28, add_welcome },
    [3] = { 0 },
    [4] = { nil, function(body, tree) tree:add(f.data, body) end, offsets = true, token = true, number = true },
    [5] = { 0, offsets = true, token = true, number = true },
    [6] = { 40, add_open, number = true },
    [7] = { 40, add_open, token = true, number = true },
    [8] = { 0, offsets = true, token = true, number = true },
    [9] = { 2, function(body, tree) tree:add(f.reason, body) end, offsets = true, token = true, number = true },
    [10] = { nil, function(body, tree) tree:add(f.padding, body) end, number = true },
    [11] = { 0, number = true },
}

local function is_zero(tvb, at, length)
    return tvb:raw(at, length) == string.rep("\0", length)
end

-- [W1] What is wrong with the header, if something is.
local function fault(tvb, kind, flags, length)
    local body = bodies[kind]
    if band(flags, 0x18) ~= 0 or band(flags, FLAG_ACK + FLAG_MARKS) == FLAG_MARKS then
        return "flags that there are not"
    elseif body[1] and body[1] ~= length or kind == 4 and length == 0 then
        return "a body of a length that its kind does not have"
    elseif not body.number and (not is_zero(tvb, 8, 4) or band(flags, FLAG_ASK) ~= 0)
        or not body.token and not is_zero(tvb, 16, 8)
        or not body.offsets and not is_zero(tvb, 24, 8)
        or kind == 0 and not is_zero(tvb, 4, 4) then
        return "a value in a field that its kind does not have"
    elseif kind < 3 and band(flags, FLAG_ACK) ~= 0 or kind == 3 and band(flags, FLAG_ACK) == 0 then
        return "an acknowledgement where there can be none, or none where there must be one"
    end
    return nil
end

local function add_flags(tvb, tree)
    local flags = tree:add(f.flags, tvb(1, 1))
    for _, field in ipairs({ f.has_ack, f.ask, f.has_marks, f.path }) do
        flags:add(field, tvb(1, 1))
    end
end

local function add_header(tvb, pinfo, tree, kind)
    tree:add(f.version, tvb(0, 1))
    tree:add(f.kind, tvb(0, 1))
    add_flags(tvb, tree)
    tree:add(f.length, tvb(2, 2))
    tree:add(f.tag, tvb(4, 4))
    tree:add(f.number, tvb(8, 4))
    verify(tvb, pinfo, tree, kind)
    tree:add(f.token, tvb(16, 8))
    tree:add(f.offset, tvb(24, 4))
    tree:add(f.credit, tvb(28, 4))
end

-- One line for the list of packets.
local function summary(tvb, kind, flags, length, ack)
    local text = { kinds[kind] }
    if bodies[kind].number then
        text[#text + 1] = string.format("#%d:%d", band(flags, FLAG_PATH), tvb(8, 4):uint())
    end
    if bodies[kind].token then
        text[#text + 1] = "token=" .. tvb(16, 8):bytes():tohex(true)
    end
    if bodies[kind].offsets then
        text[#text + 1] = string.format("offset=%d credit=%d", tvb(24, 4):uint(), tvb(28, 4):uint())
    end
    if kind == 9 and tvb:len() >= 2 then
        local reason = tvb(tvb:len() - 2, 2):uint()
        text[#text + 1] = "reason=" .. (reasons[reason] or reason)
    end
    text[#text + 1] = "len=" .. length
    text[#text + 1] = band(flags, FLAG_ASK) ~= 0 and "ask" or nil
    text[#text + 1] = ack
    return table.concat(text, " ")
end

local function refuse(pinfo, tree, reason)
    tree:add_proto_expert_info(malformed, "Malformed: " .. reason)
    pinfo.cols.info = "malformed: " .. reason
end

function ulsock.dissector(tvb, pinfo, root)
    pinfo.cols.protocol = "ulsock"
    local tree = root:add(ulsock, tvb())
    if tvb:len() < HEADER then
        refuse(pinfo, tree, "shorter than a header")
        return tvb:len()
    end
    local first, flags, length = tvb(0, 1):uint(), tvb(1, 1):uint(), tvb(2, 2):uint()
    local version, kind = math.floor(first / 16), first % 16
    if version ~= VERSION or not kinds[kind] then
        tree:add(f.version, tvb(0, 1))
        tree:add(f.kind, tvb(0, 1))
        refuse(pinfo, tree, "of another version, or of no known kind")
        return tvb:len()
    end
    add_header(tvb, pinfo, tree, kind)
    local wrong = fault(tvb, kind, flags, length)
    local ack, after = nil, HEADER
    if not wrong and band(flags, FLAG_ACK) ~= 0 then
        ack, after, wrong = add_ack(tvb, tree, band(flags, FLAG_MARKS) ~= 0)
    end
    if not wrong and tvb:reported_len() ~= after + length then
        wrong = "its lengths do not add up"
    end
    if wrong then
        refuse(pinfo, tree, wrong)
        return tvb:len()
    end
    if length > 0 and bodies[kind][2] and tvb:len() == after + length then
        bodies[kind][2](tvb(after, length), tree)
    end
    pinfo.cols.info = summary(tvb, kind, flags, length, ack)
    tree:append_text(": " .. kinds[kind])
    return tvb:len()
end

-- The port of the peers file, or 4690.
ulsock.prefs.ports = Pref.range("UDP ports", "4690", "Ports on which nicds listen", 65535)
local bound

local function bind()
    local ports = DissectorTable.get("udp.port")
    if bound then
        ports:remove(bound, ulsock)
    end
    bound = ulsock.prefs.ports
    ports:add(bound, ulsock)
end

ulsock.prefs_changed = bind
bind()
