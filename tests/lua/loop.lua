-- Waiting in main and the process's stop.
local mr = require "moonring"
local loop = require "moonring.loop"
local host = require "moonring.host"
local tap = require "tap"

tap.test("sleep takes its time and tells whether to go on", function()
    local start = mr.now()
    tap.eq(mr.sleep(0.05), true)
    tap.ok(mr.now() - start >= 0.049, "0.05 s")
end)

tap.test("wait_for ends with its condition or its limit", function()
    local calls = 0
    tap.eq(loop.wait_for(function() calls = calls + 1 return calls == 3 end, 5),
        true)
    tap.eq(calls, 3)
    tap.eq(loop.wait_for(function() return false end, 0.01), false)
end)

tap.test("wait sees a peer that goes", function()
    local dir = assert(host.tempdir())
    local guest = assert(mr.vhost { path = dir .. "/a.sock" })
    local driver = assert(mr.virtio { path = dir .. "/a.sock" })
    assert(guest:wait_up(10))
    local start = mr.now()
    local closed
    local up = driver.up
    function driver.up(self)
        if not closed and mr.now() - start > 0.1 then
            closed = true
            assert(guest:close())
        end
        return up(self)
    end
    tap.eq(mr.wait { peer = driver, seconds = 10 }, "peer")
    assert(driver:close())
    os.remove(dir)
end)

tap.test("stop makes running false; waiting ends at once", function()
    tap.eq(mr.running(), true)
    mr.stop()
    tap.eq(mr.running(), false)
    tap.eq(mr.sleep(10), false)
    tap.eq(mr.wait(), "stop")
end)

main = tap.main
