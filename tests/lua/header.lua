-- Header views: every field of every protocol, byte order, neighbours.
local ffi = require "ffi"
local header = require "moonring.header"
local protocols = require "moonring.protocol"
local addr = require "moonring.addr"
local tap = require "tap"

local limit = { u8 = 2 ^ 8 - 1, u16 = 2 ^ 16 - 1, u32 = 2 ^ 32 - 1,
    ip4 = 2 ^ 32 - 1, mac = 2 ^ 48 - 1 }

local function view_of(name)
    local info = header.by_name[name]
    local bytes = ffi.new("uint8_t[?]", info.size)
    return ffi.cast(info.pointer, bytes), bytes, info.size
end

tap.test("headers have the sizes of their standards", function()
    local sizes = { eth = 14, vlan = 4, arp = 28, ip4 = 20, icmp4 = 8,
        ip6 = 40, icmp6 = 8, udp = 8, tcp = 20 }
    for name, size in pairs(sizes) do
        tap.eq(header.by_name[name].size, size, name)
    end
    for _, protocol in ipairs(protocols) do
        tap.ok(sizes[protocol.name], "a size here for " .. protocol.name)
    end
end)

local function all_zero(bytes, size)
    for i = 0, size - 1 do
        if bytes[i] ~= 0 then return false end
    end
    return true
end

tap.test("every field keeps its value and touches no other", function()
    for _, protocol in ipairs(protocols) do
        for _, field in ipairs(protocol.fields) do
            local h, bytes, size = view_of(protocol.name)
            local name, kind = field[1], field[2]
            local get, set = h[name], h["set_" .. name]
            if kind == "ip6" then
                local v = addr.ip6 "1:2:3:4:5:6:7:8"
                set(h, v)
                tap.ok(get(h) == v, protocol.name .. "." .. name)
                set(h, addr.ip6 "::")
            else
                for _, v in ipairs { limit[kind], 1,
                    math.floor(limit[kind] / 3) } do
                    set(h, v)
                    tap.eq(get(h), v, protocol.name .. "." .. name)
                end
                set(h, 0)
            end
            tap.ok(all_zero(bytes, size), protocol.name .. "." .. name
                .. " alone was written")
        end
    end
end)

tap.test("every part of a field keeps its value and its neighbours",
    function()
        for _, protocol in ipairs(protocols) do
            for _, field in ipairs(protocol.fields) do
                for _, part in ipairs(field[4] or {}) do
                    local h = view_of(protocol.name)
                    h["set_" .. field[1]](h, limit[field[2]])
                    h["set_" .. part[1]](h, 0)
                    tap.eq(h[part[1]](h), 0)
                    tap.eq(h[field[1]](h), limit[field[2]]
                        - (2 ^ part[3] - 1) * 2 ^ part[2],
                        protocol.name .. "." .. part[1])
                    h["set_" .. part[1]](h, 2 ^ part[3] - 1)
                    tap.eq(h[field[1]](h), limit[field[2]])
                end
            end
        end
    end)

tap.test("fields are big-endian at their standard places", function()
    local ip, bytes = view_of "ip4"
    ip:set_dst(0x01020304)
    ip:set_len(0x0506)
    ip:set_version(4)
    ip:set_ihl(5)
    ip:set_mf(1)
    tap.eq(bytes[16], 1)
    tap.eq(bytes[19], 4)
    tap.eq(bytes[2], 5)
    tap.eq(bytes[0], 0x45)
    tap.eq(bytes[6], 0x20)
    local eth, raw = view_of "eth"
    eth:set_src(0x0a0b0c0d0e0f)
    tap.eq(raw[6], 0x0a)
    tap.eq(raw[11], 0x0f)
end)

tap.test("decode follows the next-protocol fields, tags included", function()
    local mr = require "moonring"
    local text = header.decode(mr.stack("eth", "vlan", "ip6", "tcp"):fill {
        vlan_vid = 12, tcp_dst = 80, payload = "xyz" })
    tap.match(text, "eth .*type=33024\nvlan .*vid=12 type=34525\nip6 ")
    tap.match(text, "\ntcp .*dst=80")
    tap.match(text, "3 after the headers")
    tap.match(header.decode "short", "5 bytes in all")
end)

main = tap.main
