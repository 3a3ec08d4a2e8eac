-- Poll sets: many rx queues that one script or task serves in turn. Queues that
-- yield packets get one burst a round, idle ones are looked at less often, at
-- least every 100 microseconds.
local ffi = require "moonring.ffi"
local addr = require "moonring.addr"
local err = require "moonring.error"
local handle = require "moonring.handle"
local queues = require "moonring.queue"

local C = ffi.C
local M = {}

local Poll = handle.class "poll"

-- C array of a list of queues, which are ours from now on.
local function claim(list, what)
    if type(list) ~= "table" or #list == 0 then
        err.raise("mr.poll wants a list of %s queues", what)
    end
    local array = ffi.new("struct mr_queue *[?]", #list)
    for i, queue in ipairs(list) do
        if not queues.is(queue) then
            err.raise("mr.poll wants a list of %s queues; the %d. of it is a "
                .. "%s", what, i, type(queue))
        end
        array[i - 1] = queues.ours(queue)
    end
    return array
end

-- What the options say: C array of the tx queues, their list, bytes of turn.
local function targets(list, options)
    local to, turn = options.to, options.turn
    if not to then return nil, {} end
    local array = claim(to, "tx")
    if #to ~= #list then
        err.raise("mr.poll wants a tx queue in 'to' for each rx queue")
    end
    if turn and type(turn) ~= "number" then
        err.raise("mr.poll wants a MAC address (mr.mac) as 'turn', not a %s",
            type(turn))
    end
    return array, to, turn and addr.mac_bytes(turn, ffi.new "uint8_t[6]")
end

-- mr.poll({ queue, ... }, options): a set of rx queues, claimed like by a first
-- packet call. It ends by poll:free(), or when one of its queues is released or
-- its port closes. -> poll | nil, text, name
--
-- With the option `to`, a list of as many tx queues, the set moves packets of
-- its i-th queue straight into to[i] wherever queue:splice can, and recv is
-- left with what must be received and sent. Option `turn`: as queue:splice.
function M.new(list, options)
    local array = claim(list, "rx")
    local to, tx, turn = targets(list, options or {})
    local out = ffi.new "struct mr_poll *[1]"
    local rc = C.mr_poll_create(array, #list, out)
    if rc < 0 then return err.control(rc) end
    local poll = setmetatable({ ptr = out[0], queues = { unpack(list) },
        label = ("of %d queues"):format(#list) }, Poll)
    for i, queue in ipairs(tx) do
        rc = C.mr_poll_splice(out[0], i - 1, to[i - 1], turn)
        if rc < 0 then break end
        poll.queues[#list + i] = queue
    end
    for _, queue in ipairs(poll.queues) do queue.polls[poll] = true end
    if rc == 0 then return poll end
    poll:free()
    return err.control(rc)
end

local function ready(self, burst, call)
    if not ffi.istype("struct mr_burst", burst) then
        err.raise("poll:%s wants a burst (mr.burst), not a %s", call,
            type(burst))
    end
    return self.ptr or self:pointer()
end

-- Index in the list (from 1) and packets of what C returned.
local function found(i, burst)
    if i < 0 then return nil, 0 end
    return i + 1, burst.n
end

-- Waits for packets: until some came, `timeout` seconds went by (nil = no
-- limit) or we are to stop. The burst's old packets are freed, the new ones
-- are the caller's. -> index of their queue in the list, their number | nil, 0
function Poll:recv(burst, timeout)
    return found(C.mr_poll_recv(ready(self, burst, "recv"), burst,
        queues.microseconds(timeout)), burst)
end

-- As recv, but takes only what is there: nil after a round that found nothing,
-- in which an idle queue may have had no turn.
function Poll:try_recv(burst)
    return found(C.mr_poll_try_recv(ready(self, burst, "try_recv"), burst),
        burst)
end

-- Ends the set; its queues stay claimed. Doing it twice is allowed.
function Poll:free()
    if not self.ptr then return end
    C.mr_poll_free(self.ptr)
    self.ptr = nil
    for _, queue in ipairs(self.queues) do queue.polls[self] = nil end
end

return M
