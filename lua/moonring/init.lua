-- Moonring for scripts: local mr = require "moonring".
--
--   ports    mr.vhost mr.virtio mr.null mr.pcap mr.pipe mr.eth  mr.open(spec)
--   packets  mr.burst mr.pool mr.stack mr.poll
--   values   mr.ip4 mr.ip6 mr.mac mr.rate mr.random mr.seed
--   running  mr.task mr.wait mr.running mr.sleep mr.stop
--   numbers  mr.now mr.tsc mr.tsc_hz mr.stats mr.json mr.version
--   scripts  mr.check (for argparse)
local ffi = require "moonring.ffi"
local addr = require "moonring.addr"
local burst = require "moonring.burst"
local err = require "moonring.error"
local json = require "moonring.json"
local loop = require "moonring.loop"
local option = require "moonring.option"
local poll = require "moonring.poll"
local pool = require "moonring.pool"
local port = require "moonring.port"
local rate = require "moonring.rate"
local spec = require "moonring.spec"
local stack = require "moonring.stack"
local stats = require "moonring.stats"
local task = require "moonring.task"

local C = ffi.C

local mr = {
    version = ffi.string(C.mr_version()),
    burst = burst.new,
    pool = pool.open,
    poll = poll.new,
    stack = stack.stack,
    ip4 = addr.ip4, ip6 = addr.ip6, mac = addr.mac,
    rate = rate.new,
    random = math.random, seed = math.randomseed,
    open = spec.open,
    task = task.start,
    running = loop.running, sleep = loop.sleep, now = loop.now,
    stop = loop.stop,
    json = json.encode,
    -- For argparse: cli:argument("port"):convert(mr.check.port)
    check = { port = spec.check, rate = rate.check },
}

for name, open in pairs(port.openers) do mr[name] = open end

-- Time stamp counter and its ticks a second.
function mr.tsc() return C.mr_tsc() end
function mr.tsc_hz() return tonumber(C.mr_tsc_hz()) end

-- Counters of all ports of the script, or of those given: a list of rows, one
-- a queue. tostring() of it is a table for people, :json() one object a line.
local Rows = { __tostring = stats.text }
Rows.__index = { json = stats.json }

function mr.stats(...)
    local rows = select("#", ...) == 0 and port.stats_all() or {}
    for _, one in ipairs { ... } do
        for _, row in ipairs(one:stats()) do rows[#rows + 1] = row end
    end
    return setmetatable(rows, Rows)
end

local wait_options = {
    { "seconds", "number", "how long to wait at most" },
    { "peer", "any", "a port: wait until its peer is gone" },
}

-- Serves sockets until there is nothing to wait for. -> why it ended:
-- "stop" (signal or mr.stop), "tasks" (all ended), "time", "peer"
-- | nil, text, name when a task failed; the others are asked to stop.
function mr.wait(given)
    local values = option.check("mr.wait", wait_options, given)
    if not loop.is_control() then
        err.raise("mr.wait is for main; a task loops on mr.running()")
    end
    local tasks, was_up, why, failed = task.live, false, "time", nil
    local function over()
        local live = false
        for _, one in ipairs(tasks) do
            local state = one:state()
            if state == "failed" and not one.seen then
                failed = failed or one
            end
            live = live or state == "running"
        end
        if failed or #tasks > 0 and not live then
            why = "tasks"
            return true
        end
        local up = values.peer and values.peer:up()
        if was_up and not up then
            why = "peer"
            return true
        end
        was_up = was_up or up
    end
    if not loop.wait_for(over, values.seconds) and C.mr_running() == 0 then
        return "stop"
    end
    if not failed then return why end
    local _, text = failed:result()
    for _, one in ipairs(tasks) do one:stop() end
    return err.new("EFAILED", "task %s failed: %s", failed.label, text)
end

return mr
