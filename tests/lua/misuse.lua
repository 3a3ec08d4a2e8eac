-- Misuse raises at the caller's line, and what is in use stays: nothing that a
-- script does with the public calls ends the process.
local mr = require "moonring"
local ffi = require "ffi"
local tap = require "tap"

local udp = mr.stack("eth", "ip4", "udp")

-- Values that no call of ours wants, none of which is nil.
local junk = { false, true, 0 / 0, 1 / 0, -1, 2 ^ 53, 1e300, "", "x",
    ("y"):rep(300), {}, { 1 }, print, io.stdout, 1LL, ffi.new "int[2]",
    ffi.cast("void *", 0), newproxy(), coroutine.create(print),
    setmetatable({}, { __index = function() error "no" end,
        __tostring = function() error "no" end }) }

-- Any outcome but the end of the process is right.
local function survives(fn, self)
    pcall(fn, nil)
    pcall(fn, self, nil)
    for _, value in ipairs(junk) do
        pcall(fn, value)
        pcall(fn, self, value)
        pcall(fn, self, value, value)
    end
end

tap.test("methods of bursts and packets do not take nil for one", function()
    local pool = assert(mr.pool { packets = 64, fill = udp:fill {} })
    local burst = mr.burst(4)
    burst:alloc(pool)
    for _, name in ipairs { "alloc", "free", "checksum", "reflect" } do
        tap.raises(function() burst[name](nil, 1, 1) end, "wants a burst")
    end
    for _, name in ipairs { "append", "prepend", "trim", "adj", "sum",
        "bytes" } do
        tap.raises(function() burst[0][name](nil, 1, 1) end, "wants a packet")
    end
    tap.raises(function() burst:push(nil) end, "wants a packet")
    tap.raises(function() burst:alloc { ptr = 1 } end, "wants a pool")
    tap.eq(burst[0]:write(0 / 0, "x"), false)
    burst:free()
    assert(pool:free())
end)

tap.test("junk in place of any argument does no harm", function()
    local a = assert(mr.pipe {})
    local pool = assert(mr.pool { packets = 64, fill = udp:fill {} })
    local burst = mr.burst(4)
    -- Not those whose use it is to wait or to stop.
    for _, name in ipairs { "burst", "pool", "stack", "rate", "random",
        "open", "task", "json", "stats", "ip4", "ip6", "mac", "vhost",
        "virtio", "null", "pcap", "pipe" } do
        survives(mr[name])
    end
    for _, name in ipairs { "fill", "size", "available", "buffer" } do
        survives(pool[name], pool)
    end
    for _, name in ipairs { "rx", "tx", "info", "stats", "dump", "up" } do
        survives(a[name], a)
    end
    for _, name in ipairs { "try_recv", "try_send" } do
        survives(a:rx()[name], a:rx())
    end
    pool:fill(udp:fill {})
    for _, name in ipairs { "alloc", "checksum", "reflect" } do
        burst:alloc(pool)
        survives(burst[name], burst)
    end
    burst:alloc(pool)
    for _, name in ipairs { "append", "prepend", "trim", "adj", "sum",
        "bytes", "write", "dump", "udp4" } do
        survives(burst[0][name], burst[0])
    end
    burst:free()
end)

tap.test("a timeout or a count that is not a number raises", function()
    local port = assert(mr.null {})
    local burst = mr.burst(4)
    tap.raises(function() port:rx():recv(burst, 0 / 0) end, "seconds")
    tap.raises(function() port:wait_up(0 / 0) end, "seconds")
    tap.raises(function() port:wait_up "x" end, "seconds")
    tap.raises(function() mr.sleep() end, "seconds")
    tap.raises(function() mr.sleep(0 / 0) end, "seconds")
    tap.raises(function() mr.rate("max"):wait(0 / 0) end, "packets")
    tap.raises(function() mr.rate("1kpps"):wait(1 / 0) end, "packets")
    assert(port:close())
end)

tap.test("a port's pool is closed with the port", function()
    local port = assert(mr.virtio { path = os.tmpname(), packets = 64 })
    local pool = port:pool()
    tap.ok(pool == port:pool(), "one handle")
    tap.ok(pool:available() > 0)
    assert(port:close())
    tap.raises(function() pool:available() end, "is closed")
    tap.raises(function() mr.burst(4):alloc(pool) end, "is closed")
end)

tap.test("a pool stays while a port or a task has it", function()
    local pool = assert(mr.pool { packets = 256, fill = udp:fill {} })
    local port = assert(mr.null { pool = pool })
    tap.fails("EBUSY", "in use by port null", pool:free())
    tap.eq(port:rx():recv(mr.burst(4)), 4)
    assert(port:close())
    local task = assert(mr.task { run = "take", args = { { pool } } })
    tap.fails("EBUSY", "in use by task take", pool:free())
    task:stop()
    tap.eq(task:result(10), 256)
    collectgarbage()
    assert(pool:free())
end)

tap.test("a port stays while another port or a task has its pool", function()
    local owner = assert(mr.null { frame = 60 })
    local user = assert(mr.null { pool = owner:pool() })
    assert(owner:close()) -- the frames' pool is the script's
    tap.eq(user:rx():recv(mr.burst(4)), 4)
    assert(user:close())
    owner = assert(mr.virtio { path = os.tmpname(), packets = 64 })
    user = assert(mr.null { pool = owner:pool() })
    tap.fails("EBUSY", "in use by port null", owner:close())
    assert(user:close())
    local task = assert(mr.task { run = "take", args = { owner:pool() } })
    tap.fails("EBUSY", "in use by task take", owner:close())
    task:stop()
    assert(task:wait(10))
    assert(owner:close())
end)

function take(pool)
    if type(pool) == "table" and not pool.is_pool then pool = pool[1] end
    while mr.running() do mr.sleep(0.01) end
    return pool:size()
end

tap.test("what a task returns can be used", function()
    local port = assert(mr.null {})
    local task = assert(mr.task { run = "give", args = { port } })
    local same, queue, pool = task:result(10)
    tap.ok(same == port, "a port of ours comes back as itself")
    tap.ok(queue == port:rx(), "so does a queue")
    tap.eq(pool:size(), 64)
    local burst = mr.burst(4)
    tap.eq(burst:alloc(pool), 4)
    burst:free()
    assert(port:close())
    tap.raises(function() same:kind() end, "is closed")
    tap.raises(function() queue:try_recv(burst) end, "is closed")
end)

function give(port)
    return port, port:rx(), mr.pool { packets = 64 }
end

tap.test("a task that did not start uses nothing", function()
    local port = assert(mr.null {})
    tap.fails("EINVAL", "core", mr.task { run = "take", core = 2 ^ 31 - 1,
        args = { port } })
    assert(port:close())
end)

tap.test("errors without a text are told as well", function()
    for _, name in ipairs { "raise_nil", "raise_table", "raise_mute" } do
        local task = assert(mr.task { run = name })
        assert(task:wait(10))
        tap.eq(task:state(), "failed")
        tap.match(select(2, task:result()), "stack traceback:")
    end
end)

function raise_nil() error() end
function raise_table() error {} end
function raise_mute()
    error(setmetatable({}, { __tostring = function() error "no" end }))
end

main = tap.main
