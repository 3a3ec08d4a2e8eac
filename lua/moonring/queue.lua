-- Queues: one direction of a port. One thread at a time uses a queue; the
-- first packet call claims it for the calling script or task, which keeps it
-- until release() or its end.
local ffi = require "moonring.ffi"
local err = require "moonring.error"
local handle = require "moonring.handle"
local stats = require "moonring.stats"

local C = ffi.C
local M = {}

local Queue = handle.class "queue"
local FOREVER = 0xffffffffffffffffULL

-- Queues that this state has claimed.
local claimed = {}

local function claim(self)
    local rc = C.mr_queue_claim(self:pointer())
    if rc < 0 then
        local _, text = err.control(rc)
        err.raise("%s", text)
    end
    claimed[self] = true
    self.claimed = true
end

-- Microseconds of a timeout in seconds; nil = `default`.
local function microseconds(seconds, default)
    if not seconds then return default end
    if type(seconds) ~= "number" or seconds < 0 or seconds ~= seconds then
        err.raise("a timeout is a number of seconds, 0 or more")
    end
    return seconds * 1e6
end

-- What every packet call needs: a queue of ours and a burst. -> C queue
local function ready(self, burst, call)
    if not self.claimed then claim(self) end
    if not ffi.istype("struct mr_burst", burst) then
        err.raise("queue:%s wants a burst (mr.burst), not a %s", call,
            type(burst))
    end
    return self.ptr
end

-- Handle for queue `index` of a port, made by port.lua.
function M.new(port, ptr, direction, index)
    return setmetatable({
        ptr = ptr, port = port, direction = direction, index = index,
        label = ("%s %s %d"):format(port.label, direction, index),
        claimed = false,
    }, Queue)
end

function Queue:freeze()
    self:pointer()
    return { port = self.port:freeze(), direction = self.direction,
        index = self.index }
end

-- Waits for packets: until one came, `timeout` seconds went by (nil = no
-- limit) or we are to stop. The burst's old packets are freed, the new ones
-- are the caller's. Returns their number.
function Queue:recv(burst, timeout)
    return C.mr_queue_recv(ready(self, burst, "recv"), burst,
        microseconds(timeout, FOREVER))
end

-- As recv, but takes only what is there.
function Queue:try_recv(burst)
    return C.mr_queue_try_recv(ready(self, burst, "try_recv"), burst)
end

-- Sends the whole burst, which is empty afterwards. Waits for room up to
-- `timeout` seconds without progress (nil = 1), then drops and counts the
-- rest. Returns the number sent.
function Queue:send(burst, timeout)
    return C.mr_queue_send(ready(self, burst, "send"), burst,
        microseconds(timeout, 1000000))
end

-- Sends what there is room for; the rest stays in the burst, the caller's.
-- Returns the number sent.
function Queue:try_send(burst)
    return C.mr_queue_try_send(ready(self, burst, "try_send"), burst)
end

-- Whether the queue's peer is ready.
function Queue:up()
    return C.mr_queue_up(self:pointer()) == 1
end

-- The fault that stopped the ring as { name, rules, text }, or nil.
function Queue:fault()
    local fault = C.mr_queue_fault(self:pointer())
    return fault ~= C.MR_FAULT_NONE and stats.fault(fault) or nil
end

-- { port, dir, queue, packets, ..., faults = { NAME = n } }: see stats.lua.
function Queue:stats()
    return stats.row(self)
end

-- The ring's state as text.
function Queue:dump()
    local ptr = self:pointer()
    local size = 4096
    local out = ffi.new("char[?]", size)
    local want = C.mr_queue_dump(ptr, out, size)
    if want >= size then
        size = want + 1
        out = ffi.new("char[?]", size)
        want = C.mr_queue_dump(ptr, out, size)
    end
    return ffi.string(out, math.min(want, size - 1))
end

function Queue:name() return self.label end

-- Lets another task use the queue. Does nothing when it is not claimed.
function Queue:release()
    if not self.claimed then return end
    C.mr_queue_release(self:pointer())
    claimed[self] = nil
    self.claimed = false
end

-- Gives back every queue that this state has claimed.
function M.release_all()
    local list = {}
    for queue in pairs(claimed) do list[#list + 1] = queue end
    for _, queue in ipairs(list) do queue:release() end
end

return M
