-- Ports and queues, on kinds that need no peer, and on a socket pair.
local mr = require "moonring"
local host = require "moonring.host"
local tap = require "tap"

local udp = mr.stack("eth", "ip4", "udp")

tap.test("a pipe carries packets both ways, unchanged", function()
    local a, b = assert(mr.pipe { name = "p", size = 64 })
    local pool = assert(mr.pool { packets = 256, fill = udp:fill {} })
    local burst, got = mr.burst(16), mr.burst(32)
    for _, pair in ipairs { { a, b }, { b, a } } do
        burst:alloc(pool)
        tap.eq(pair[1]:tx():send(burst), 16)
        tap.eq(#burst, 0)
        tap.eq(pair[2]:rx():recv(got, 1), 16)
        tap.eq(got[15]:bytes(), udp:fill {})
    end
    got:free()
    assert(a:close())
    assert(b:close())
    assert(pool:free())
end)

tap.test("try_send keeps what had no room, send drops and counts it",
    function()
        local a, b = assert(mr.pipe { size = 16 })
        local pool = assert(mr.pool { packets = 256, fill = udp:fill {} })
        local burst = mr.burst(64)
        burst:alloc(pool)
        local sent = a:tx():try_send(burst)
        tap.ok(sent > 0 and sent <= 16, "part of it was sent")
        tap.eq(#burst, 64 - sent)
        tap.eq(a:tx():send(burst, 0.01), 0)
        tap.eq(#burst, 0)
        tap.eq(a:tx():stats().full, 64 - sent)
        tap.eq(a:tx():stats().dropped, 64 - sent)
        tap.eq(a:tx():stats().packets, sent)
        assert(a:close())
        assert(b:close())
        assert(pool:free())
    end)

tap.test("recv without packets comes back after its timeout", function()
    local port = assert(mr.null {})
    local start = mr.now()
    tap.eq(port:rx():recv(mr.burst(4), 0.05), 0)
    local took = mr.now() - start
    tap.ok(took >= 0.045 and took < 5, "about 0.05 s, not " .. took)
    tap.eq(port:rx():try_recv(mr.burst(4)), 0)
    assert(port:close())
end)

tap.test("a null port swallows, and receives frames of the asked size",
    function()
        local port = assert(mr.null { frame = 100 })
        local burst = mr.burst(32)
        tap.eq(port:rx():recv(burst), 32)
        tap.eq(burst[31]:len(), 100)
        tap.eq(port:tx():send(burst), 32)
        tap.eq(port:tx():stats().bytes, 3200)
        tap.raises(function() mr.null { frame = 10 } end, "42..2048")
        assert(port:close())
    end)

tap.test("a pcap port gives back what was written", function()
    local path = os.tmpname()
    local out = assert(mr.pcap { write = path })
    local pool = assert(mr.pool { packets = 64,
        fill = udp:fill { payload = "captured" } })
    local burst = mr.burst(5)
    burst:alloc(pool)
    tap.eq(out:tx():send(burst), 5)
    assert(out:close())
    local back = assert(mr.open("pcap:" .. path))
    local got = mr.burst(32)
    tap.eq(back:rx():recv(got, 1), 5)
    tap.eq(got[4]:bytes(), udp:fill { payload = "captured" })
    got:free()
    assert(back:close())
    os.remove(path)
    assert(pool:free())
end)

tap.test("what cannot be opened is told with object and cause", function()
    tap.fails("ENOENT", "/no/such/file", mr.pcap { read = "/no/such/file" })
    tap.fails("EINVAL", ".", mr.pipe { size = 3 })
    local value, text = mr.vhost { path = "/no/such/folder/a.sock" }
    tap.eq(value, nil)
    tap.match(text, "^E[A-Z]+: .*/no/such/folder/a%.sock")
end)

local function pair(options)
    local dir = assert(host.tempdir())
    local path = dir .. "/a.sock"
    local guest = assert(mr.vhost { path = path })
    options.path = path
    local driver = assert(mr.virtio(options))
    assert(guest:wait_up(10))
    assert(driver:wait_up(10))
    return guest, driver, function()
        assert(driver:close())
        assert(guest:close())
        tap.eq(host.may(path), nil, "the socket file")
        os.remove(dir)
    end
end

tap.test("both ends of a socket agree on the mode and carry packets",
    function()
        for _, packed in ipairs { false, true } do
            local guest, driver, close = pair { packed = packed,
                mrg_rxbuf = true, in_order = packed }
            for _, info in ipairs { guest:info(), driver:info() } do
                tap.eq(info.packed, packed)
                tap.eq(info.mergeable, true)
                tap.eq(info.in_order, packed)
                tap.eq(info.size, 256)
                tap.eq(info.connected, true)
            end
            local pool = assert(mr.pool { fill = udp:fill { len = 200 } })
            local burst = mr.burst(32)
            for _, way in ipairs { { guest, driver }, { driver, guest } } do
                burst:alloc(pool)
                tap.eq(way[1]:tx():send(burst), 32)
                tap.eq(way[2]:rx():recv(burst, 2), 32)
                tap.eq(burst[31]:bytes(), udp:fill { len = 200 })
            end
            burst:free()
            tap.ok(#guest:rx():dump() > 0, "a dump")
            close()
            assert(pool:free())
        end
    end)

tap.test("a port that waits for a peer in vain says so", function()
    local dir = assert(host.tempdir())
    local port = assert(mr.vhost { path = dir .. "/a.sock", name = "lonely" })
    tap.eq(port:up(), false)
    tap.fails("ETIMEDOUT", "lonely.*0.05 seconds", port:wait_up(0.05))
    assert(port:close())
    os.remove(dir)
end)

tap.test("a live socket is refused: EADDRINUSE", function()
    local dir = assert(host.tempdir())
    local port = assert(mr.vhost { path = dir .. "/a.sock" })
    tap.fails("EADDRINUSE", "a%.sock", mr.vhost { path = dir .. "/a.sock" })
    assert(port:close())
    os.remove(dir)
end)

tap.test("a closed port and its queues raise, closing again is allowed",
    function()
        local a, b = assert(mr.pipe { name = "gone" })
        local rx = a:rx()
        rx:try_recv(mr.burst(1))
        assert(a:close())
        tap.raises(function() a:up() end, "port gone%S* is closed")
        tap.raises(function() rx:stats() end, "is closed")
        tap.raises(function() rx:recv(mr.burst(1), 0) end, "is closed")
        tap.eq(a:close(), true)
        assert(b:close())
    end)

tap.test("misuse of queues raises at the caller's line", function()
    local port = assert(mr.null { queues = 2 })
    tap.eq(port:queues(), 2)
    tap.ok(port:rx(1), "queue 1")
    tap.raises(function() port:rx(2) end, "no rx queue 2; it has 2")
    tap.raises(function() port:tx(-1) end, "no tx queue")
    tap.raises(function() port:tx "x" end, "no tx queue x")
    tap.raises(function() port:rx():recv({}) end, "wants a burst")
    tap.raises(function() port:rx():recv(mr.burst(1), -1) end, "timeout")
    assert(port:close())
end)

tap.test("a port names itself and its kind", function()
    local port = assert(mr.null { name = "hole" })
    tap.eq(port:name(), "hole")
    tap.eq(port:kind(), "null")
    tap.eq(tostring(port), "port hole")
    tap.eq(port:rx():name(), "hole rx 0")
    assert(port:close())
end)

main = tap.main
