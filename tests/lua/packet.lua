-- Packets: bytes, room at both ends, views.
local mr = require "moonring"
local tap = require "tap"

local pool, burst

local function fresh(bytes)
    pool = pool or assert(mr.pool { packets = 64, size = 256 })
    assert(pool:fill(bytes))
    burst = burst or mr.burst(1)
    tap.eq(burst:alloc(pool), 1)
    return burst[0]
end

tap.test("a packet holds the pool's bytes", function()
    local pkt = fresh "abcdef"
    tap.eq(pkt:len(), 6)
    tap.eq(pkt:bytes(), "abcdef")
    tap.eq(pkt:bytes(2), "cdef")
    tap.eq(pkt:bytes(1, 3), "bcd")
    tap.eq(pkt:bytes(4, 10), "ef")
    tap.eq(pkt:bytes(9), "")
    tap.eq(pkt:data()[0], 97)
end)

tap.test("append, prepend, trim and adj move the ends", function()
    local pkt = fresh "abcdef"
    pkt:append(2)[0] = 120
    tap.eq(pkt:len(), 8)
    tap.eq(pkt:bytes(6, 1), "x")
    pkt:prepend(4)[3] = 121
    tap.eq(pkt:bytes(3, 3), "yab")
    tap.eq(pkt:adj(4), true)
    tap.eq(pkt:trim(2), true)
    tap.eq(pkt:bytes(), "abcdef")
end)

tap.test("without room there is nil or an error, and nothing moves", function()
    local pkt = fresh "abcdef"
    tap.eq(pkt:append(1000), nil)
    tap.eq(pkt:prepend(1000), nil)
    tap.fails("EINVAL", ".", pkt:trim(7))
    tap.fails("EINVAL", ".", pkt:adj(7))
    tap.eq(pkt:bytes(), "abcdef")
end)

tap.test("write stays inside the packet", function()
    local pkt = fresh "abcdef"
    tap.eq(pkt:write(4, "XY"), true)
    tap.eq(pkt:write(5, "XY"), false)
    tap.eq(pkt:write(-1, "X"), false)
    tap.eq(pkt:bytes(), "abcdXY")
end)

tap.test("sum is the ones'-complement sum in network order", function()
    local pkt = fresh "\1\2\3\4"
    local sum = pkt:sum(0, 4)
    tap.ok(sum == 0x0406 or sum == 0x0604, "0102 + 0304")
end)

tap.test("views read and write the packet; a short packet has none",
    function()
        local pkt = fresh(mr.stack("eth", "ip4", "udp"):fill {})
        pkt:udp4().ip4:set_src(mr.ip4 "9.8.7.6")
        tap.eq(pkt:ip4().ip4:src(), mr.ip4 "9.8.7.6")
        tap.eq(pkt:bytes(26, 4), "\9\8\7\6")
        tap.match(pkt:dump(), "src=9.8.7.6")
        tap.eq(fresh(("x"):rep(41)):udp4(), nil)
        tap.ok(fresh(("x"):rep(42)):udp4(), "a view of 42 bytes")
    end)

tap.test("all packets are home in the end", function()
    burst:free()
    assert(pool:free())
end)

main = tap.main
