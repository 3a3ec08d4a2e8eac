-- Bursts and pools: ownership, bounds, collection.
local mr = require "moonring"
local tap = require "tap"

tap.test("a burst is indexed from 0 and knows its length", function()
    local pool = assert(mr.pool { packets = 64, fill = ("x"):rep(60) })
    local burst = mr.burst(8)
    tap.eq(#burst, 0)
    tap.eq(burst:alloc(pool), 8)
    tap.eq(#burst, 8)
    tap.eq(pool:available(), 56)
    local seen = 0
    for i, pkt in burst:packets() do
        tap.eq(i, seen)
        tap.ok(pkt == burst[i], "the same packet")
        seen = seen + 1
    end
    tap.eq(seen, 8)
    tap.raises(function() return burst[8] end, "holds 8 packets")
    tap.raises(function() return burst[-1] end, "holds 8 packets")
    burst:free()
    tap.eq(#burst, 0)
    tap.raises(function() return burst[0] end, "holds 0 packets")
    assert(pool:free())
end)

tap.test("alloc gives all or none", function()
    local pool = assert(mr.pool { packets = 16, cache = 0 })
    local burst, other = mr.burst(16), mr.burst(16)
    tap.eq(burst:alloc(pool, 10), 10)
    tap.eq(other:alloc(pool, 7), 0)
    tap.eq(#other, 0)
    burst:free()
    tap.eq(pool:available(), 16)
    assert(pool:free())
end)

tap.test("push and pop move packets between bursts", function()
    local pool = assert(mr.pool { packets = 16 })
    local a, b = mr.burst(2), mr.burst(1)
    a:alloc(pool)
    local last = a[1]
    tap.eq(b:push(a:pop()), true)
    tap.ok(b[0] == last, "the packet")
    tap.eq(#a, 1)
    local pkt = a:pop()
    tap.eq(b:push(pkt), false)
    tap.eq(a:push(pkt), true)
    a:free()
    tap.eq(a:pop(), nil)
    b:free()
    tap.eq(pool:available(), 16)
    assert(pool:free())
end)

tap.test("packets of a collected burst go home", function()
    local pool = assert(mr.pool { packets = 64 })
    do
        local burst = mr.burst(32)
        burst:alloc(pool)
        burst = nil -- luacheck: ignore
    end
    collectgarbage()
    collectgarbage()
    tap.eq(pool:available(), 64)
    assert(pool:free())
end)

tap.test("a pool with packets out is kept: EBUSY", function()
    local pool = assert(mr.pool { packets = 64 })
    local burst = mr.burst(3)
    burst:alloc(pool)
    tap.fails("EBUSY", "3", pool:free())
    burst:free()
    tap.eq(pool:free(), true)
    tap.raises(function() pool:available() end, "is closed")
    tap.raises(function() burst:alloc(pool) end, "is closed")
end)

tap.test("checksum and reflect work on the whole burst", function()
    local bytes = mr.stack("eth", "ip4", "udp"):fill {}
    local pool = assert(mr.pool { packets = 64, fill = bytes })
    local burst = mr.burst(4)
    burst:alloc(pool)
    burst[2]:udp4().ip4:set_ttl(9)
    burst:checksum "ip4"
    burst[2]:udp4().ip4:set_ttl(64)
    tap.eq(burst:checksum "ip4" > 0, true)
    tap.ok(burst[2]:bytes() == bytes, "the checksum is right again")
    tap.raises(function() burst:checksum "udp" end, "'ip4', 'l4'")
    burst:reflect(mr.mac "02:00:00:00:00:77", 0)
    tap.eq(burst[0]:eth().eth:dst(), mr.mac "02:00:00:00:00:01")
    burst:free()
    assert(pool:free())
end)

tap.test("capacities outside 1..256 and templates of no use raise", function()
    for _, cap in ipairs { 0, 257, 1.5, "x" } do
        tap.raises(function() mr.burst(cap) end, "from 1 to 256")
    end
    local pool = assert(mr.pool { packets = 16 })
    tap.raises(function() pool:fill(5) end, "wants a string")
    tap.fails("EINVAL", ".", pool:fill(("x"):rep(5000)))
    assert(pool:free())
end)

main = tap.main
