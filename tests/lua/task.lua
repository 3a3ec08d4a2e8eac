-- Tasks: arguments, results, errors, stop, queues, time limits.
local mr = require "moonring"
local tap = require "tap"

function give_back(...) return ... end
function fail() error "on purpose" end
function fail_control() error("EPIPE: gone", 0) end
function until_stopped() while mr.running() do mr.sleep(10) end return "x" end
function misbehave()
    local a, b = mr.pipe {}
    return a, b
end
function spin(seconds)
    local stop = mr.now() + seconds
    while mr.now() < stop do end -- luacheck: ignore 542
end
jit.off(spin)

function count(queue, want)
    local burst, got = mr.burst(64), 0
    while got < want and mr.running() do
        got = got + queue:recv(burst, 0.1)
    end
    return got
end

function own_pool(tx)
    local pool = assert(mr.pool { packets = 64, fill = ("x"):rep(60) })
    local burst = mr.burst(10)
    burst:alloc(pool)
    tx:send(burst)
    burst:alloc(pool)
end

tap.test("arguments and results go by value", function()
    local task = assert(mr.task { run = "give_back",
        args = { 1, nil, "x", { a = { true } } } })
    assert(task:wait(10))
    tap.eq(task:state(), "done")
    local a, b, c, d = task:result()
    tap.eq(a, 1)
    tap.eq(b, nil)
    tap.eq(c, "x")
    tap.eq(d.a[1], true)
end)

tap.test("an error comes back with its traceback", function()
    local task = assert(mr.task { run = "fail" })
    assert(task:wait(10))
    tap.eq(task:state(), "failed")
    local value, text = task:result()
    tap.eq(value, nil)
    tap.match(text, "task%.lua:%d+: on purpose\nstack traceback:")
    tap.match(text, "in function 'fn'")
end)

tap.test("a control call's error comes back as it is", function()
    local task = assert(mr.task { run = "fail_control" })
    assert(task:wait(10))
    tap.eq(select(2, task:result()), "EPIPE: gone")
end)

tap.test("a function that is not there fails the task", function()
    local task = assert(mr.task { run = "nowhere" })
    assert(task:wait(10))
    tap.match(select(2, task:result()), "no global function 'nowhere'")
end)

tap.test("stop ends one task, even in its sleep, and no other", function()
    local one = assert(mr.task { run = "until_stopped" })
    local two = assert(mr.task { run = "until_stopped" })
    mr.sleep(0.05)
    local start = mr.now()
    one:stop()
    assert(one:wait(10))
    tap.ok(mr.now() - start < 5, "it did not sleep on")
    tap.eq(one:result(), "x")
    tap.eq(two:state(), "running")
    tap.fails("EBUSY", "until_stopped", two:result(0.01))
    two:stop()
    tap.eq(two:result(10), "x")
end)

tap.test("a task is given a queue, which main cannot use meanwhile",
    function()
        local a, b = assert(mr.pipe {})
        local pool = assert(mr.pool { fill = ("x"):rep(60) })
        local task = assert(mr.task { run = "count", args = { b:rx(), 100 } })
        local burst = mr.burst(50)
        burst:alloc(pool)
        a:tx():send(burst)
        while b:rx():stats().packets == 0 do mr.sleep(0.001) end
        tap.raises(function() b:rx():recv(burst, 0) end, "EBUSY")
        tap.fails("EBUSY", "task count", b:close())
        burst:alloc(pool)
        a:tx():send(burst)
        assert(task:wait(10))
        tap.eq(task:result(), 100)
        tap.eq(b:rx():try_recv(burst), 0)
        assert(a:close())
        assert(b:close())
        tap.eq(pool:available(), pool:size())
        assert(pool:free())
    end)

tap.test("a task's pool outlives it while packets are under way", function()
    local a, b = assert(mr.pipe {})
    local task = assert(mr.task { run = "own_pool", args = { a:tx() } })
    assert(task:wait(10))
    tap.eq(task:state(), "done")
    local burst = mr.burst(64)
    tap.eq(b:rx():recv(burst, 1), 10)
    tap.eq(burst[9]:len(), 60)
    burst:free()
    assert(a:close())
    assert(b:close())
end)

tap.test("only main opens ports and starts tasks", function()
    local task = assert(mr.task { run = "misbehave" })
    assert(task:wait(10))
    tap.match(select(2, task:result()),
        "task%.lua:%d+: mr.pipe: a task cannot open ports")
end)

tap.test("a task that does not end is told with its line", function()
    local task = assert(mr.task { run = "spin", args = { 1 } })
    local line = debug.getinfo(spin, "S").linedefined
    local ok, text, name = task:wait(0.2)
    tap.fails("EBUSY", "task spin does not end: it is at .*task%.lua:%d+", ok,
        text, name)
    local at = tonumber(text:match ":(%d+)$")
    tap.ok(at >= line and at <= line + 3, "line " .. at .. " in spin")
    assert(task:wait(10))
    tap.eq(task:state(), "done")
end)

tap.test("a core that is not ours is refused", function()
    tap.fails("EINVAL", "core 1000", mr.task { run = "spin", core = 1000 })
end)

tap.test("misuse of mr.task raises at the caller's line", function()
    tap.raises(function() mr.task {} end, "option 'run' is missing")
    tap.raises(function() mr.task { run = "spin", args = 5 } end,
        "'args' must be a list")
    tap.raises(function() mr.task { run = "spin", args = { print } } end,
        "pass a function")
end)

tap.test("wait tells why it ended", function()
    tap.eq(mr.wait { seconds = 0.05 }, "tasks")
    local task = assert(mr.task { run = "until_stopped" })
    tap.eq(mr.wait { seconds = 0.05 }, "time")
    assert(mr.task { run = "fail" })
    tap.fails("EFAILED", "task fail failed: .*on purpose", mr.wait())
    assert(task:wait(10))
end)

main = tap.main
