-- mr.vhost { zero_copy = true }: the same packets, with their bytes left where
-- the guest put them. The guest is a driver of ours.
local mr = require "moonring"
local tap = require "tap"
local host = require "moonring.host"

local udp = mr.stack("eth", "ip4", "udp")
local RING = 256

local function pair(options)
    local dir = assert(host.tempdir())
    local path = dir .. "/a.sock"
    local guest = assert(mr.vhost { path = path, zero_copy = true })
    options.path, options.queue_size = path, RING
    local driver = assert(mr.virtio(options))
    assert(guest:wait_up(10))
    assert(driver:wait_up(10))
    return guest, driver, function()
        assert(driver:close())
        assert(guest:close())
        os.remove(dir)
    end, dir
end

local function frame(len, i) return udp:fill { len = len, udp_src = i } end

-- Numbered frames into the driver. -> sent
local function send(driver, pool, len, from, n)
    local burst = mr.burst(n)
    assert(pool:fill(frame(len, 0)))
    burst:alloc(pool)
    for i, pkt in burst:packets() do pkt:udp4().udp:set_src(from + i) end
    burst:checksum "l4"
    return driver:tx():send(burst, 0)
end

local function check(burst, len, from)
    for i, pkt in burst:packets() do
        tap.eq(pkt:bytes(), frame(len, from + i), "frame " .. from + i)
    end
end

tap.test("long frames are lent, short ones copied, all are right", function()
    for _, packed in ipairs { false, true } do
        local guest, driver, close = pair { packed = packed }
        local pool = assert(mr.pool {})
        local burst = mr.burst(64)
        tap.eq(guest:info().in_order, false)
        for round = 0, 99 do
            local len = round % 2 == 0 and 1514 or 100
            tap.eq(send(driver, pool, len, round, 32), 32)
            tap.eq(guest:rx():recv(burst, 2), 32)
            check(burst, len, round)
            burst:free()
        end
        tap.eq(guest:rx():stats().packets, 3200)
        tap.eq(guest:rx():stats().lent, 1600)
        close()
        assert(pool:free())
    end
end)

tap.test("packets that are kept leave half of the ring", function()
    local guest, driver, close = pair {}
    local pool = assert(mr.pool {})
    local kept = {}
    for i = 1, 8 do
        kept[i] = mr.burst(32)
        tap.eq(send(driver, pool, 1100, 32 * i, 32), 32)
        tap.eq(guest:rx():recv(kept[i], 2), 32)
    end
    tap.eq(guest:rx():stats().lent, RING / 2)
    local burst = mr.burst(64)
    for round = 1, 50 do
        tap.eq(send(driver, pool, 1100, round, 32), 32)
        tap.eq(guest:rx():recv(burst, 2), 32)
        check(burst, 1100, round)
    end
    for i = 1, 8 do
        check(kept[i], 1100, 32 * i)
        kept[i]:free()
    end
    tap.eq(guest:rx():stats().lent, RING / 2)
    tap.eq(send(driver, pool, 1100, 0, 32), 32)
    tap.eq(guest:rx():recv(burst, 2), 32)
    tap.eq(guest:rx():stats().lent, RING / 2 + 32)
    burst:free()
    close()
    assert(pool:free())
end)

tap.test("another task may free them", function()
    local guest, driver, close = pair { packed = true }
    local pool = assert(mr.pool {})
    local a, b = assert(mr.pipe {})
    local task = assert(mr.task { run = "swallow", args = { b } })
    local burst = mr.burst(32)
    for round = 1, 300 do
        tap.eq(send(driver, pool, 1514, round, 32), 32)
        tap.eq(guest:rx():recv(burst, 2), 32)
        tap.eq(a:tx():send(burst, 10), 32)
    end
    while b:rx():stats().packets < 300 * 32 do mr.sleep(0.001) end
    task:stop()
    assert(task:wait(10))
    tap.eq(task:result(), 300 * 32 * 1514)
    tap.ok(guest:rx():stats().lent > 300, "packets were lent")
    assert(a:close())
    assert(b:close())
    close()
    assert(pool:free())
end)

function swallow(port)
    local rx, burst, bytes = port:rx(), mr.burst(32), 0
    while mr.running() do
        if rx:recv(burst, 0.1) > 0 then
            for _, pkt in burst:packets() do bytes = bytes + #pkt:bytes() end
        end
    end
    burst:free()
    return bytes
end

tap.test("a guest may go while its packets are out", function()
    local guest, driver, _, dir = pair {}
    local pool = assert(mr.pool {})
    local burst = mr.burst(32)
    tap.eq(send(driver, pool, 1514, 7, 32), 32)
    tap.eq(guest:rx():recv(burst, 2), 32)
    assert(driver:close())
    while guest:up() do mr.sleep(0.01) end
    check(burst, 1514, 7)
    burst:free()
    assert(guest:close())
    assert(pool:free())
    os.remove(dir)
end)

tap.test("zero_copy and in_order exclude each other", function()
    tap.fails("EINVAL", "in_order", mr.vhost { path = "/tmp/never",
        zero_copy = true, in_order = true })
end)

main = tap.main
