-- Values between Lua states.
local mr = require "moonring"
local ffi = require "ffi"
local pack = require "moonring.pack"
local tap = require "tap"

local function same(a, b)
    if type(a) ~= "table" or type(b) ~= "table" then return a == b end
    for key, v in pairs(a) do
        if not same(v, b[key]) then return false end
    end
    for key in pairs(b) do
        if a[key] == nil then return false end
    end
    return true
end

tap.test("plain values come back as they were", function()
    local values = { 0, -1.5, 1e300, "", "a\0b", true, false, {},
        { 1, 2, { x = "y", [true] = { 4 } } }, math.huge }
    for _, v in ipairs(values) do
        tap.ok(same(pack.unpack(pack.pack(v)), v), tostring(v))
    end
    local nan = pack.unpack(pack.pack(0 / 0))
    tap.ok(nan ~= nan, "not a number")
end)

tap.test("several values, nil among them, keep their places", function()
    local text = pack.pack(1, nil, "x", nil)
    tap.eq(select("#", pack.unpack(text)), 4)
    tap.eq((select(3, pack.unpack(text))), "x")
    tap.eq(select("#", pack.unpack "" ), 0)
end)

tap.test("64-bit integers stay exact", function()
    tap.eq(pack.unpack(pack.pack(0xfedcba9876543210ULL)),
        0xfedcba9876543210ULL)
    tap.eq(pack.unpack(pack.pack(-5LL)), -5LL)
end)

tap.test("ports, queues and pools travel as handles on the same object",
    function()
        local a, b = assert(mr.pipe {})
        local pool = assert(mr.pool { packets = 64 })
        local port, list = pack.unpack(pack.pack(a, { a:rx(), pool }))
        tap.ok(port == a and list[1] == a:rx() and list[2] == pool,
            "what this state owns comes back as itself")
        assert(a:close())
        tap.raises(function() pack.pack(a) end, "is closed")
        assert(b:close())
        assert(pool:free())
    end)

tap.test("what cannot travel raises and tells what it is", function()
    tap.raises(function() pack.pack(print) end, "pass a function")
    tap.raises(function() pack.pack(setmetatable({}, {})) end, "metatable")
    tap.raises(function() pack.pack(ffi.new "int[2]") end, "int %[2%]")
    local loop = {}
    loop.loop = loop
    tap.raises(function() pack.pack(loop) end, "contain itself")
end)

tap.test("a cut or foreign string is an error, not a crash", function()
    local text = pack.pack({ 1, "abc", { x = 2 } })
    for n = 1, #text - 1 do
        tap.raises(function() pack.unpack(text:sub(1, n)) end, "cut off",
            true)
    end
    tap.raises(function() pack.unpack "?" end, "no such tag", true)
end)

main = tap.main
