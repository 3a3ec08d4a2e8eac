-- mr.poll: which queue packets came from, how a set ends, misuse.
local mr = require "moonring"
local tap = require "tap"

local udp = mr.stack("eth", "ip4", "udp")

-- n pipes; packets sent into a[i] come out of b[i].
local function pipes(n)
    local a, b, rx = {}, {}, {}
    for i = 1, n do
        a[i], b[i] = assert(mr.pipe {})
        rx[i] = b[i]:rx()
    end
    return a, b, rx
end

local function close(...)
    for _, list in ipairs { ... } do
        for _, port in ipairs(list) do assert(port:close()) end
    end
end

tap.test("packets come with the index of their queue", function()
    local a, b, rx = pipes(20)
    local pool = assert(mr.pool { packets = 256, fill = udp:fill {} })
    local poll, burst = assert(mr.poll(rx)), mr.burst(8)
    for round = 1, 200 do
        local i = (round * 7) % 20 + 1
        burst:alloc(pool, round % 8 + 1)
        a[i]:tx():send(burst)
        local from, n = poll:recv(burst, 10)
        tap.eq(from, i, "queue")
        tap.eq(n, round % 8 + 1, "packets")
        tap.eq(#burst, n)
    end
    burst:free()
    tap.eq(select(2, poll:try_recv(burst)), 0)
    close(a, b)
    assert(pool:free())
end)

tap.test("an empty set gives nil after the time-out", function()
    local a, b, rx = pipes(3)
    local poll, burst = assert(mr.poll(rx)), mr.burst()
    local start = mr.now()
    local i, n = poll:recv(burst, 0.01)
    tap.eq(i, nil)
    tap.eq(n, 0)
    tap.ok(mr.now() - start >= 0.01, "the time went by")
    tap.eq(poll:try_recv(burst), nil)
    close(a, b)
end)

tap.test("busy queues take turns", function()
    local port = assert(mr.null { queues = 4, frame = 60 })
    local rx = {}
    for i = 1, 4 do rx[i] = port:rx(i - 1) end
    local poll, burst = assert(mr.poll(rx)), mr.burst(16)
    for turn = 0, 99 do
        local i, n = poll:recv(burst, 1)
        tap.eq(i, turn % 4 + 1)
        tap.eq(n, 16)
    end
    burst:free()
    assert(port:close())
end)

tap.test("a set ends with its ports, its claims, or when freed", function()
    local a, b, rx = pipes(2)
    local burst = mr.burst()
    local poll = assert(mr.poll(rx))
    assert(b[2]:close())
    tap.raises(function() poll:try_recv(burst) end, "poll .* is closed")
    poll = assert(mr.poll { rx[1] })
    rx[1]:release()
    tap.raises(function() poll:recv(burst, 0) end, "poll .* is closed")
    poll = assert(mr.poll { rx[1] })
    poll:free()
    poll:free()
    tap.raises(function() poll:recv(burst, 0) end, "poll .* is closed")
    close(a, { b[1] })
    tap.raises(function() mr.poll { rx[1] } end, "queue .* is closed")
end)

tap.test("queues that a task polls are its own until it ends", function()
    local port = assert(mr.null { frame = 60 })
    local task = assert(mr.task { run = "hold", args = { port } })
    while port:rx():stats().packets == 0 and task:state() == "running" do
        mr.sleep(0.001)
    end
    tap.raises(function() mr.poll { port:rx() } end, "in use by another task")
    task:stop()
    assert(task:wait(10))
    tap.ok(task:result() > 0, "packets in the task")
    tap.ok(mr.poll { port:rx() })
    assert(port:close())
end)

function hold(port)
    local poll, burst, got = assert(mr.poll { port:rx() }), mr.burst(), 0
    while mr.running() do
        local _, n = poll:recv(burst, 0.1)
        got = got + n
    end
    return got
end

tap.test("misuse raises where it is", function()
    local port = assert(mr.null {})
    local poll = assert(mr.poll { port:rx() })
    tap.raises(function() mr.poll() end, "wants a list of rx queues")
    tap.raises(function() mr.poll {} end, "wants a list of rx queues")
    tap.raises(function() mr.poll { port } end, "the 1. of it is a table")
    tap.raises(function() mr.poll { port:rx(), 7 } end,
        "the 2. of it is a number")
    tap.fails("EINVAL", "tx 0 cannot be polled", mr.poll { port:tx() })
    tap.raises(function() poll:recv {} end, "wants a burst")
    tap.raises(function() poll:try_recv(nil) end, "wants a burst")
    tap.raises(function() poll:recv(mr.burst(), -1) end, "seconds")
    assert(port:close())
end)

main = tap.main
