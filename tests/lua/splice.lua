-- queue:splice and poll sets that splice, between two guests that are ports of
-- ours, too: sockets, sessions and rings are real ones.
local mr = require "moonring"
local tap = require "tap"
local host = require "moonring.host"

local dir = assert(host.tempdir())
local udp = mr.stack("eth", "ip4", "udp")
local arp = mr.stack("eth", "arp"):fill { len = 60, arp_tpa = "10.0.0.7" }
local MAC = mr.mac "02:4d:52:00:00:01"

-- A vhost port and its driver.
local function guest(name, options)
    local path = ("%s/%s.sock"):format(dir, name)
    local port = assert(mr.vhost { path = path, name = name })
    options.path, options.name = path, name .. "-driver"
    local driver = assert(mr.virtio(options))
    assert(port:wait_up(10))
    assert(driver:wait_up(10))
    return { port = port, driver = driver }
end

local function close(...)
    for _, g in ipairs { ... } do
        assert(g.driver:close())
        assert(g.port:close())
    end
end

local function send(driver, ...)
    local pool = assert(mr.pool { packets = 64 })
    local burst = mr.burst(1)
    for _, bytes in ipairs { ... } do
        assert(pool:fill(bytes))
        burst:alloc(pool)
        tap.eq(driver:tx():send(burst), 1)
    end
    assert(pool:free())
end

local function receive(driver)
    local burst = mr.burst(64)
    local out = {}
    while driver:rx():try_recv(burst) > 0 do
        for _, pkt in burst:packets() do out[#out + 1] = pkt:bytes() end
    end
    burst:free()
    return out
end

local function frame(i) return udp:fill { len = 60 + i, udp_src = i } end

local function turned(bytes)
    return bytes:sub(7, 12) .. bytes:sub(1, 6) .. bytes:sub(13)
end

tap.test("splice carries frames from guest to guest, any two layouts",
    function()
        for i = 0, 3 do
            local a = guest("a", { packed = i % 2 == 1 })
            local b = guest("b", { packed = i > 1, mrg_rxbuf = i % 2 == 0 })
            local rx, tx = a.port:rx(), b.port:tx()
            receive(b.driver) -- posts its buffers
            tap.eq(rx:splice(tx), 0)
            send(a.driver, frame(1), frame(2), frame(1000))
            tap.eq(rx:splice(tx, 2), 2)
            tap.eq(rx:splice(tx), 1)
            local got = receive(b.driver)
            tap.eq(#got, 3)
            tap.eq(got[1], frame(1))
            tap.eq(got[2], frame(2))
            tap.eq(got[3], frame(1000))
            tap.eq(rx:stats().packets, 3)
            tap.eq(tx:stats().bytes, 61 + 62 + 1060)
            close(a, b)
        end
    end)

tap.test("with turn, addresses are swapped and requests are left", function()
    local a = guest("a", {})
    local rx, tx = a.port:rx(), a.port:tx()
    receive(a.driver)
    send(a.driver, frame(1), arp, frame(2))
    tap.eq(rx:splice(tx, nil, MAC), 1)
    tap.eq(rx:splice(tx, nil, MAC), nil)
    local burst = mr.burst()
    tap.eq(rx:try_recv(burst), 2)
    tap.eq(burst:reflect(MAC), 1)
    tap.eq(tx:send(burst), 2)
    local got = receive(a.driver)
    tap.eq(got[1], turned(frame(1)))
    tap.eq(got[2]:sub(21, 22), "\0\2", "ARP reply")
    tap.eq(got[3], turned(frame(2)))
    close(a)
end)

tap.test("a guest that is away loses its packets as by send", function()
    local a, b = guest("a", {}), guest("b", {})
    local rx, tx = a.port:rx(), b.port:tx()
    receive(b.driver)
    assert(b.driver:close())
    while b.port:up() do mr.sleep(0.01) end
    send(a.driver, frame(1), frame(2))
    tap.eq(rx:splice(tx, nil, nil, 10), nil, "at once")
    local burst = mr.burst()
    tap.eq(rx:try_recv(burst), 2)
    tap.eq(tx:send(burst, 0), 0)
    tap.eq(tx:stats().down, 2)
    assert(b.port:close())
    close(a)
end)

tap.test("a poll set splices what it can and returns the rest", function()
    local a, b = guest("a", {}), guest("b", {})
    local poll = assert(mr.poll({ a.port:rx(), b.port:rx() },
        { to = { b.port:tx(), a.port:tx() }, turn = MAC }))
    local burst = mr.burst()
    receive(a.driver)
    receive(b.driver)
    send(a.driver, frame(1), frame(2))
    send(b.driver, frame(3), arp)
    local i, n = poll:recv(burst, 10)
    tap.eq(i, 2)
    tap.eq(n, 1)
    tap.eq(burst[0]:bytes(), arp)
    burst:free()
    tap.eq(table.concat(receive(b.driver)),
        turned(frame(1)) .. turned(frame(2)))
    tap.eq(table.concat(receive(a.driver)), turned(frame(3)))
    poll:free()
    -- A target's end is the set's end.
    poll = assert(mr.poll({ a.port:rx() }, { to = { b.port:tx() } }))
    close(b)
    tap.raises(function() poll:recv(burst, 0) end, "poll .* is closed")
    close(a)
end)

tap.test("queues that cannot be spliced are received from", function()
    local null = assert(mr.null { frame = 60 })
    local burst = mr.burst(8)
    tap.eq(null:rx():splice(null:tx()), nil)
    local poll = assert(mr.poll({ null:rx() }, { to = { null:tx() } }))
    tap.eq(select(2, poll:recv(burst, 1)), 8)
    burst:free()
    assert(null:close())
end)

tap.test("misuse raises where it is", function()
    local null = assert(mr.null {})
    local rx, tx = null:rx(), null:tx()
    tap.raises(function() rx:splice() end, "wants a tx queue, not a nil")
    tap.raises(function() rx:splice(null) end, "wants a tx queue")
    tap.raises(function() rx:splice(tx, 1, "02:00") end, "wants a MAC address")
    tap.raises(function() rx:splice(tx, 1, nil, -1) end, "seconds")
    tap.raises(function() mr.poll({ rx }, { to = {} }) end,
        "wants a list of tx queues")
    tap.raises(function() mr.poll({ rx }, { to = { 1 } }) end, "the 1. of it")
    tap.raises(function() mr.poll({ rx }, { to = { tx, tx } }) end,
        "for each rx queue")
    tap.raises(function() mr.poll({ rx }, { to = { tx }, turn = "x" }) end,
        "wants a MAC address")
    tap.fails("EINVAL", "rx 0 cannot be spliced into",
        mr.poll({ rx }, { to = { rx } }))
    assert(null:close())
end)

tap.test("nothing is left behind", function()
    tap.eq(table.concat(host.files(dir), " "), "")
    os.remove(dir)
end)

main = tap.main
