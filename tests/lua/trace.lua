-- The packet loop of a script compiles and stays compiled: no trace is given
-- up in it. (LuaJIT runs a loop some fifty times slower when it is not.)
local mr = require "moonring"
local tap = require "tap"
local trial = require "moonring.trial"

local function compiled(name, fn)
    tap.test(name .. " compiles without a trace given up", function()
        local seen = trial.traces(fn)
        tap.ok(seen.made > 0, "that a trace was made")
        tap.eq(table.concat(seen.aborts, "\n"), "")
    end)
end

local udp = mr.stack("eth", "ip4", "udp")
local a, b, pool, burst

local function open()
    a, b = assert(mr.pipe {})
    pool = assert(mr.pool { fill = udp:fill {} })
    burst = mr.burst(32)
end

local function round(each)
    local tx, rx = a:tx(), b:rx()
    for _ = 1, 2000 do
        burst:alloc(pool)
        each(burst)
        tx:send(burst)
        rx:recv(burst, 0.1)
    end
end

tap.test("the ports for what follows open", open)

compiled("alloc, set an address, checksum, send, recv", function()
    local base = mr.ip4 "10.0.0.0"
    round(function(packets)
        for i = 0, #packets - 1 do
            packets[i]:udp4().ip4:set_src(base + mr.random(254))
        end
        packets:checksum()
    end)
end)

compiled("the iterator over packets, with views and lengths", function()
    local sum = 0
    round(function(packets)
        for i, pkt in packets:packets() do
            local view = pkt:udp4()
            sum = sum + pkt:len() + i + view.udp:dst() + view.ip4:src()
            view.eth:set_dst(view.eth:src())
        end
    end)
    tap.ok(sum > 0, "a sum")
end)

compiled("a loop over a poll set", function()
    local poll = mr.poll { b:rx() }
    local got = 0
    round(function(packets)
        a:tx():send(packets)
        local i, n = poll:recv(packets, 0.1)
        if i then got = got + n end
    end)
    tap.eq(got, 2000 * 32)
    poll:free()
end)

compiled("a paced loop", function()
    local pace = mr.rate "50Mpps"
    for _ = 1, 2000 do pace:wait(32) end
end)

tap.test("the ports close and the pool is whole", function()
    burst:free()
    assert(a:close())
    assert(b:close())
    tap.eq(pool:available(), pool:size())
    assert(pool:free())
end)

main = tap.main
