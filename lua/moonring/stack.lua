-- Stacks of headers: mr.stack("eth", "ip4", "udp") is a struct of views with
-- one member a header, castable onto packets, and a builder of frames.
--
--   stack:view(p)  -> view with members eth, ip4, udp; nil: packet too short
--   stack:fill { len = 60, ip4_dst = "10.0.0.9", payload = "..." } -> bytes
--
-- fill sets types, lengths and checksums unless they are given. `len` counts
-- from the Ethernet header to the end, without frame check sequence.
local ffi = require "moonring.ffi"
local err = require "moonring.error"
local header = require "moonring.header"

local M = {}

local Stack = {}
Stack.__index = Stack

local FRAME_MAX = ffi.C.MR_FRAME_MAX

-- Stacks that packets have as methods: p:udp4().ip4:src().
M.shipped = {
    eth = { "eth" }, vlan = { "eth", "vlan" }, arp = { "eth", "arp" },
    ip4 = { "eth", "ip4" }, ip6 = { "eth", "ip6" },
    icmp4 = { "eth", "ip4", "icmp4" }, icmp6 = { "eth", "ip6", "icmp6" },
    udp4 = { "eth", "ip4", "udp" }, udp6 = { "eth", "ip6", "udp" },
    tcp4 = { "eth", "ip4", "tcp" }, tcp6 = { "eth", "ip6", "tcp" },
}

local cache = {}

-- Member names: a protocol that comes twice is numbered from the second on.
local function member_names(names)
    local seen, out = {}, {}
    for i, name in ipairs(names) do
        seen[name] = (seen[name] or 0) + 1
        out[i] = seen[name] == 1 and name or name .. seen[name]
    end
    return out
end

local function check_names(names)
    if #names == 0 then err.raise("mr.stack wants names of headers") end
    for _, name in ipairs(names) do
        if not header.by_name[name] then
            local known = {}
            for key in pairs(header.by_name) do known[#known + 1] = key end
            table.sort(known)
            err.raise("mr.stack: no header '%s'; known are %s",
                tostring(name), table.concat(known, ", "))
        end
    end
end

local function define(id, names, members)
    local fields = {}
    for i, name in ipairs(names) do
        fields[i] = ("struct mr_header_%s %s;"):format(name, members[i])
    end
    local ctype = "struct mr_stack_" .. id
    ffi.cdef(("%s { %s } __attribute__((packed));"):format(ctype,
        table.concat(fields, " ")))
    ffi.metatype(ctype, {
        __tostring = function(view)
            local out = {}
            for i, member in ipairs(members) do
                out[i] = view[member]:dump()
            end
            return table.concat(out, "\n")
        end,
    })
    return ffi.typeof(ctype)
end

-- The stack of these headers; the same names give the same stack.
function M.stack(...)
    local names = { ... }
    check_names(names)
    local id = table.concat(names, "_")
    if cache[id] then return cache[id] end
    local members = member_names(names)
    local ctype = define(id, names, members)
    local stack = setmetatable({ names = names, members = members,
        size = ffi.sizeof(ctype), ctype = ctype,
        pointer = ffi.typeof("$ *", ctype) }, Stack)
    cache[id] = stack
    return stack
end

function Stack:view(pkt)
    if pkt.data_len < self.size then return nil end
    return ffi.cast(self.pointer, pkt.buf_addr + pkt.data_off)
end

-- Ones'-complement sum of bytes [at, at + len), not inverted.
local function sum(bytes, at, len, start)
    local total = start or 0
    for i = 0, len - 2, 2 do
        total = total + bytes[at + i] * 256 + bytes[at + i + 1]
    end
    if len % 2 == 1 then total = total + bytes[at + len - 1] * 256 end
    while total > 0xffff do
        total = total % 0x10000 + math.floor(total / 0x10000)
    end
    return total
end

-- All fields of the stack in order: { "<member>_<field>", leaf, member }.
local function fields_of(self)
    local out = {}
    for i, name in ipairs(self.names) do
        local protocol = header.by_name[name].protocol
        for _, leaf in ipairs(header.leaves(protocol)) do
            out[#out + 1] = { self.members[i] .. "_" .. leaf[1], leaf,
                self.members[i] }
        end
    end
    return out
end

local function check_given(self, fields, given)
    local known = { len = true, payload = true }
    local names = { "len", "payload" }
    for _, field in ipairs(fields) do
        known[field[1]] = true
        names[#names + 1] = field[1]
    end
    for key in pairs(given) do
        if not known[key] then
            err.raise("fill: unknown field '%s' of %s; known are %s",
                tostring(key), table.concat(self.names, "/"),
                table.concat(names, ", "))
        end
    end
end

local function frame_length(self, given)
    local payload = given.payload or ""
    local len = given.len or self.size + #payload
    if type(len) ~= "number" or len % 1 ~= 0
        or len < self.size + #payload or len > FRAME_MAX then
        err.raise("fill: len must be a whole number from %d (headers and "
            .. "payload) to %d", self.size + #payload, FRAME_MAX)
    end
    return len
end

local function set_fields(fields, given, view)
    for _, field in ipairs(fields) do
        local name, kind = field[2][1], field[2][2]
        local v = given[field[1]]
        if v == nil then v = field[2][3] end
        v = header.value(kind, v)
        if type(v) ~= (kind == "ip6" and "cdata" or "number") then
            err.raise("fill: %s wants %s, not %s", field[1],
                kind == "ip6" and "an address" or "a number", type(v))
        end
        local h = view[field[3]]
        h["set_" .. name](h, v)
    end
end

-- Sets types and lengths that the caller left out.
local function set_derived(self, given, view, len)
    local at = 0
    for i, name in ipairs(self.names) do
        local h, member = view[self.members[i]], self.members[i]
        local protocol = header.by_name[name].protocol
        local tells, follower = protocol.next, self.names[i + 1]
        if tells and follower and not given[member .. "_" .. tells[1]]
            and tells[follower] then
            h["set_" .. tells[1]](h, tells[follower])
        end
        local after = protocol.length_after and header.by_name[name].size or 0
        if protocol.length and not given[member .. "_" .. protocol.length] then
            h["set_" .. protocol.length](h, len - at - after)
        end
        at = at + header.by_name[name].size
    end
end

-- Sum of the pseudo header of the IP header that ends at byte `at`.
local function pseudo_sum(bytes, at, ip, number, len)
    local address = ip == "ip4" and 8 or 32
    return sum(bytes, at - address, address, number + len)
end

local function set_checksums(self, given, view, bytes, len)
    local at, ip = 0, nil
    for i, name in ipairs(self.names) do
        local info = header.by_name[name]
        local protocol, member = info.protocol, self.members[i]
        local h = view[member]
        if protocol.checksum and not given[member .. "_checksum"] then
            local total
            if protocol.checksum == "header" then
                total = sum(bytes, at, info.size)
            elseif protocol.pseudo == false then
                total = sum(bytes, at, len - at)
            elseif ip then
                total = sum(bytes, at, len - at, pseudo_sum(bytes, at, ip,
                    protocol.number, len - at))
            end
            total = total and 0xffff - total
            if total == 0 and name == "udp" then total = 0xffff end
            if total then h:set_checksum(total) end
        end
        at = at + info.size
        ip = (name == "ip4" or name == "ip6") and name or nil
    end
end

function Stack:fill(given)
    given = given or {}
    if type(given) ~= "table" then
        err.raise("fill wants a table of fields, not a %s", type(given))
    end
    local fields = fields_of(self)
    check_given(self, fields, given)
    local len = frame_length(self, given)
    local bytes = ffi.new("uint8_t[?]", len)
    local view = ffi.cast(self.pointer, bytes)
    local payload = given.payload or ""
    ffi.copy(bytes + self.size, payload, #payload)
    set_fields(fields, given, view)
    set_derived(self, given, view, len)
    -- Inner checksums are covered by no outer one of ours: order is free.
    set_checksums(self, given, view, bytes, len)
    return ffi.string(bytes, len)
end

return M
