-- Packets: methods of `struct mr_pkt`. A packet belongs to whoever holds the
-- burst that it is in; pointers from data() are good only that long.
local ffi = require "moonring.ffi"
local err = require "moonring.error"
local header = require "moonring.header"
local stacks = require "moonring.stack"

local C = ffi.C
local Packet = {}

-- nil would be a pointer to nowhere.
local function check(self)
    if not ffi.istype("struct mr_pkt", self) then
        err.raise("a method of packets wants a packet, not a %s; call it with "
            .. "':'", type(self))
    end
end

-- First byte of the first segment, as uint8_t *.
function Packet:data()
    return self.buf_addr + self.data_off
end

-- Bytes in all segments.
function Packet:len()
    return self.pkt_len
end

-- Bytes [offset, offset + len) as a string; by default all from offset 0.
function Packet:bytes(offset, len)
    check(self)
    offset = offset or 0
    len = len or math.max(self.pkt_len - offset, 0)
    local out = ffi.new("uint8_t[?]", len)
    return ffi.string(out, C.mr_pkt_read(self, offset, out, len))
end

-- Makes room for `len` bytes at the end / in front; -> pointer to the first of
-- them, or nil when the segment has no room.
function Packet:append(len)
    check(self)
    local at = C.mr_pkt_append(self, len)
    return at ~= nil and at or nil
end

function Packet:prepend(len)
    check(self)
    local at = C.mr_pkt_prepend(self, len)
    return at ~= nil and at or nil
end

-- Takes `len` bytes off the end / the front. -> true | nil, text, name
function Packet:trim(len)
    check(self)
    local rc = C.mr_pkt_trim(self, len)
    if rc < 0 then return err.control(rc) end
    return true
end

function Packet:adj(len)
    check(self)
    local rc = C.mr_pkt_adj(self, len)
    if rc < 0 then return err.control(rc) end
    return true
end

-- Overwrites the bytes of the first segment from `offset` on. The packet does
-- not grow: false when they do not fit.
function Packet:write(offset, bytes)
    local fits = offset >= 0 and offset + #bytes <= self.data_len
    if not fits then return false end -- also when the offset is no number
    ffi.copy(self.buf_addr + self.data_off + offset, bytes, #bytes)
    return true
end

-- Sum of bytes for checksums: ones'-complement, not inverted, network order.
function Packet:sum(offset, len)
    check(self)
    return C.mr_pkt_sum(self, offset, len)
end

-- What the headers say, as text.
function Packet:dump()
    return header.decode(self:bytes())
end

-- p:eth(), p:ip4(), p:udp4(), ...: the packet seen as that stack of headers,
-- whatever it holds; nil when it is shorter.
for name, names in pairs(stacks.shipped) do
    local stack = stacks.stack(unpack(names))
    Packet[name] = assert(loadstring([[
        local cast, pointer, size = ...
        return function(pkt)
            if pkt.data_len < size then return nil end
            return cast(pointer, pkt.buf_addr + pkt.data_off)
        end]], "=packet view " .. name))(ffi.cast, stack.pointer, stack.size)
end

ffi.metatype("struct mr_pkt", { __index = Packet })

return Packet
