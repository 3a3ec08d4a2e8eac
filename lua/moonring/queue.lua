-- Queues: one direction of a port. One thread at a time uses a queue; the
-- first packet call claims it for the calling script or task, which keeps it
-- until release() or its end.
local ffi = require "moonring.ffi"
local addr = require "moonring.addr"
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

-- Microseconds of a timeout in seconds; nil = `default` (no limit).
function M.microseconds(seconds, default)
    if not seconds then return default or FOREVER end
    if type(seconds) ~= "number" or seconds < 0 or seconds ~= seconds then
        err.raise("a timeout is a number of seconds, 0 or more")
    end
    return seconds * 1e6
end

-- The C queue of a queue that is ours from now on.
local function ours(self)
    if not self.claimed then claim(self) end
    return self.ptr
end
M.ours = ours

function M.is(value)
    return getmetatable(value) == Queue
end

-- What every packet call needs: a queue of ours and a burst. -> C queue
local function ready(self, burst, call)
    local ptr = ours(self)
    if not ffi.istype("struct mr_burst", burst) then
        err.raise("queue:%s wants a burst (mr.burst), not a %s", call,
            type(burst))
    end
    return ptr
end

-- Handle for queue `index` of a port, made by port.lua.
function M.new(port, ptr, direction, index)
    return setmetatable({
        ptr = ptr, port = port, direction = direction, index = index,
        label = ("%s %s %d"):format(port.label, direction, index),
        claimed = false,
        polls = {}, -- sets that it is in (poll.lua)
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
        M.microseconds(timeout))
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
        M.microseconds(timeout, 1000000))
end

-- Sends what there is room for; the rest stays in the burst, the caller's.
-- Returns the number sent.
function Queue:try_send(burst)
    return C.mr_queue_try_send(ready(self, burst, "try_send"), burst)
end

-- Moves up to `n` packets (nil = 64) from this rx queue straight into the tx
-- queue `to`: one copy from guest to guest, or back into the same one, with no
-- packet in between. Both must be queues of vhost ports. turn: nil = the bytes
-- stay as they are; a MAC address (number) = that of who sends them back, with
-- addresses swapped as burst:reflect does where it has no answer. Waits for
-- room up to `timeout` seconds without progress (nil = 0).
-- Returns the number moved, 0 when there is none; nil when the next packet is
-- to be received and sent instead: it may want an answer, there is no room for
-- it, or these queues cannot be spliced.
local turn_bytes = ffi.new "uint8_t[6]"
local turn_mac

function Queue:splice(to, n, turn, timeout)
    if not M.is(to) then
        err.raise("queue:splice wants a tx queue, not a %s", type(to))
    end
    if turn and type(turn) ~= "number" then
        err.raise("queue:splice wants a MAC address (mr.mac) to turn with, "
            .. "not a %s", type(turn))
    end
    if turn and turn ~= turn_mac then
        addr.mac_bytes(turn, turn_bytes)
        turn_mac = turn
    end
    local moved = C.mr_queue_splice(ours(self), ours(to), n or 64,
        turn and turn_bytes or nil, M.microseconds(timeout, 0))
    if moved >= 0 then return moved end
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

-- Lets another task use the queue; poll sets that it is in end. Does nothing
-- when it is not claimed.
function Queue:release()
    if not self.claimed then return end
    for poll in pairs(self.polls) do poll:free() end
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
