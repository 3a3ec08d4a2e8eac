-- Addresses. MAC and IPv4 addresses are plain numbers in host order (48 and
-- 32 bits), so they compare, add and index tables; IPv6 addresses are a small
-- struct.
--
--   mr.ip4 "10.0.0.1"            -> number    mr.ip4.text(n)
--   mr.mac "02:00:00:00:00:01"   -> number    mr.mac.text(n)
--   mr.ip6 "fe80::1"             -> cdata     tostring(a)
local ffi = require "moonring.ffi"
local bit = require "bit"
local err = require "moonring.error"

local M = {}

-- A callable table: parse(text) raises, parse.try(text) returns nil.
local function kind(what, try, text)
    return setmetatable({ try = try, text = text }, {
        __call = function(_, given)
            local v = type(given) == "string" and try(given)
            return v or err.raise("%s is not %s", type(given) == "string"
                and "'" .. given .. "'" or "a " .. type(given), what)
        end,
    })
end

local function try_ip4(text)
    local a, b, c, d = text:match "^(%d+)%.(%d+)%.(%d+)%.(%d+)$"
    if not a then return nil end
    a, b, c, d = tonumber(a), tonumber(b), tonumber(c), tonumber(d)
    if math.max(a, b, c, d) > 255 then return nil end
    return ((a * 256 + b) * 256 + c) * 256 + d
end

local function text_ip4(v)
    return ("%d.%d.%d.%d"):format(math.floor(v / 2 ^ 24) % 256,
        math.floor(v / 2 ^ 16) % 256, math.floor(v / 2 ^ 8) % 256, v % 256)
end

M.ip4 = kind("an IPv4 address such as 10.0.0.1", try_ip4, text_ip4)

local function try_mac(text)
    if not text:match("^%x%x" .. (":%x%x"):rep(5) .. "$") then return nil end
    return tonumber((text:gsub(":", "")), 16)
end

local function text_mac(v)
    local digits = ("%04x%08x"):format(math.floor(v / 2 ^ 32), v % 2 ^ 32)
    return (digits:gsub("(%x%x)", "%1:", 5))
end

M.mac = kind("a MAC address such as 02:00:00:00:00:01", try_mac, text_mac)

-- Writes a MAC address into an array of 6 bytes, which it returns.
function M.mac_bytes(mac, bytes)
    for i = 0, 5 do
        bytes[i] = math.floor(mac / 2 ^ (40 - 8 * i)) % 256
    end
    return bytes
end

ffi.cdef "struct mr_ip6 { uint8_t b[16]; };"

-- 16-bit groups of one side of "::", or nil.
local function groups(text)
    local out = {}
    if text == "" then return out end
    for part in (text .. ":"):gmatch "(.-):" do
        if not part:match "^%x%x?%x?%x?$" then return nil end
        out[#out + 1] = tonumber(part, 16)
    end
    return out
end

-- "::ffff:10.0.0.1": the last four bytes as two groups.
local function without_ip4(text)
    local head, tail = text:match "^(.*:)(%d+%.%d+%.%d+%.%d+)$"
    local v = tail and try_ip4(tail)
    if not v then return text end
    return ("%s%x:%x"):format(head, math.floor(v / 65536), v % 65536)
end

local function try_ip6(text)
    text = without_ip4(text)
    local left, right = text:match "^(.-)::(.*)$"
    local head = groups(left or text)
    local tail = groups(right or "")
    if not head or not tail then return nil end
    local missing = 8 - #head - #tail
    if left and missing < 1 or not left and missing ~= 0 then return nil end
    for _ = 1, missing do head[#head + 1] = 0 end
    for _, group in ipairs(tail) do head[#head + 1] = group end
    local out = ffi.new "struct mr_ip6"
    for i, group in ipairs(head) do
        out.b[2 * i - 2] = bit.rshift(group, 8)
        out.b[2 * i - 1] = bit.band(group, 255)
    end
    return out
end

-- First and length of the longest run of two or more zero groups.
local function zero_run(list)
    local best, length, start = nil, 1, nil
    for i = 1, 9 do
        if list[i] == 0 then
            start = start or i
            if i - start + 1 > length then
                best, length = start, i - start + 1
            end
        else
            start = nil
        end
    end
    return best, length
end

local function hex(list, from, to)
    local out = {}
    for i = from, to do out[#out + 1] = ("%x"):format(list[i]) end
    return table.concat(out, ":")
end

-- The one canonical text (RFC 5952).
local function text_ip6(v)
    local list = {}
    for i = 1, 8 do list[i] = v.b[2 * i - 2] * 256 + v.b[2 * i - 1] end
    local start, length = zero_run(list)
    if not start then return hex(list, 1, 8) end
    return hex(list, 1, start - 1) .. "::" .. hex(list, start + length, 8)
end

M.ip6 = kind("an IPv6 address such as fe80::1", try_ip6, text_ip6)

local function equal_ip6(a, b)
    if not ffi.istype("struct mr_ip6", a)
        or not ffi.istype("struct mr_ip6", b) then
        return false
    end
    for i = 0, 15 do
        if a.b[i] ~= b.b[i] then return false end
    end
    return true
end

ffi.metatype("struct mr_ip6", { __tostring = text_ip6, __eq = equal_ip6 })

return M
