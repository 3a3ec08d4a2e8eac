-- Header views: a C struct for each protocol of protocol.lua, cast onto packet
-- bytes. h:src() reads a field in host order, h:set_src(v) writes one,
-- h:dump() tells all. Getters and setters are generated as source, one
-- function a field, so that each compiles to a load or a store and a swap.
local ffi = require "moonring.ffi"
local bit = require "bit"
local addr = require "moonring.addr"
local protocols = require "moonring.protocol"

local M = {}

-- Bytes, C members, getter and setter body of each field type. NAME is the
-- field. 32-bit members are signed so that bit.bswap's result always fits.
local types = {
    u8 = { 1, "uint8_t NAME_be;", "return h.NAME_be", "h.NAME_be = v" },
    u16 = { 2, "uint16_t NAME_be;", "return swap16(h.NAME_be)",
        "h.NAME_be = swap16(v)" },
    u32 = { 4, "int32_t NAME_be;", "return bswap(h.NAME_be) % 0x100000000",
        "h.NAME_be = bswap(v)" },
    mac = { 6, "uint16_t NAME_hi; int32_t NAME_lo;",
        "return swap16(h.NAME_hi) * 0x100000000"
            .. " + bswap(h.NAME_lo) % 0x100000000",
        "h.NAME_hi = swap16(floor(v / 0x100000000))"
            .. " h.NAME_lo = bswap(v % 0x100000000)" },
    ip6 = { 16, "struct mr_ip6 NAME_be;",
        "local v = ip6() copy(v, h.NAME_be, 16) return v", "h.NAME_be = v" },
}
types.ip4 = types.u32

local prelude = [[
local bit, ffi = ...
local bswap, rshift, lshift = bit.bswap, bit.rshift, bit.lshift
local band, bor, bnot = bit.band, bit.bor, bit.bnot
local floor, copy, ip6 = math.floor, ffi.copy, ffi.typeof "struct mr_ip6"
local function swap16(v) return rshift(bswap(v), 16) end
local H = {}
]]

local function accessors(name, get, set)
    return ("function H.%s(h) %s end\nfunction H.set_%s(h, v) %s end\n")
        :format(name, get:gsub("NAME", name), name,
            (set:gsub("NAME", name)))
end

local function part_accessors(field, part)
    local name, low, bits = part[1], part[2], part[3]
    local mask = 2 ^ bits - 1
    local get = ("return band(rshift(h:%s(), %d), 0x%x)"):format(field, low,
        mask)
    local set = ("h:set_%s(bor(band(h:%s(), bnot(lshift(0x%x, %d))),"
        .. " lshift(band(v, 0x%x), %d)))"):format(field, field, mask, low,
        mask, low)
    return accessors(name, get, set)
end

local function source(protocol)
    local out = { prelude }
    for _, field in ipairs(protocol.fields) do
        local name, kind = field[1], types[field[2]]
        out[#out + 1] = accessors(name, kind[3], kind[4])
        for _, part in ipairs(field[4] or {}) do
            out[#out + 1] = part_accessors(name, part)
        end
    end
    out[#out + 1] = "return H\n"
    return table.concat(out)
end

local function members(protocol)
    local out = {}
    for i, field in ipairs(protocol.fields) do
        out[i] = types[field[2]][2]:gsub("NAME", field[1])
    end
    return table.concat(out, " ")
end

-- Text of a value by the type of its field.
local function show(kind, v)
    if addr[kind] then return addr[kind].text(v) end
    return ("%.0f"):format(v)
end

-- Fields and parts of a protocol in order: { name, type, default }. A field
-- that has parts is told by its parts.
function M.leaves(protocol)
    local out = {}
    for _, field in ipairs(protocol.fields) do
        if field[4] then
            for _, part in ipairs(field[4]) do
                out[#out + 1] = { part[1], field[2], part[4] or 0 }
            end
        else
            out[#out + 1] = field
        end
    end
    return out
end

local function dumper(protocol)
    local leaves = M.leaves(protocol)
    return function(h)
        local out = { protocol.name }
        for _, leaf in ipairs(leaves) do
            local name = leaf[1]
            out[#out + 1] = name .. "=" .. show(leaf[2], h[name](h))
        end
        return table.concat(out, " ")
    end
end

-- The value of a field from what a script gave: addresses also as text.
function M.value(kind, given)
    if type(given) == "string" and addr[kind] then return addr[kind](given) end
    return given
end

-- Protocol name -> { protocol = row, size = bytes, pointer = ctype of a
-- pointer to it, follows = { value of its `next` field -> protocol name } }.
M.by_name = {}

local function define(protocol)
    local name = "struct mr_header_" .. protocol.name
    ffi.cdef(("%s { %s } __attribute__((packed));"):format(name,
        members(protocol)))
    local methods = assert(loadstring(source(protocol),
        "=header " .. protocol.name))(bit, ffi)
    methods.dump = dumper(protocol)
    ffi.metatype(name, { __index = methods, __tostring = methods.dump })
    local follows = {}
    for follower, number in pairs(protocol.next or {}) do
        if type(follower) == "string" then follows[number] = follower end
    end
    M.by_name[protocol.name] = { protocol = protocol,
        size = ffi.sizeof(name), pointer = ffi.typeof("$ *",
            ffi.typeof(name)), follows = follows }
end

for _, protocol in ipairs(protocols) do define(protocol) end

-- Bytes that a header takes here, options included.
local function real_size(header, view)
    if header.protocol.name == "ip4" then return view:ihl() * 4 end
    return header.size
end

-- What the bytes say, one line a header: Ethernet first, then by the fields
-- that name the next protocol, as far as we know them.
function M.decode(bytes)
    local at, out, name = 0, {}, "eth"
    while name do
        local header = M.by_name[name]
        if at + header.size > #bytes then break end
        local view = ffi.cast(header.pointer, ffi.cast("const char *", bytes)
            + at)
        out[#out + 1] = view:dump()
        local tells = header.protocol.next
        at = at + real_size(header, view)
        if name == "ip4" and view:frag_offset() > 0 then tells = nil end
        name = tells and header.follows[view[tells[1]](view)]
    end
    out[#out + 1] = ("%d bytes in all, %d after the headers")
        :format(#bytes, math.max(#bytes - at, 0))
    return table.concat(out, "\n")
end

return M
