-- Solo: both ends of a virtqueue served in turn by one thread. A fixed number
-- of frames circles: driver rx, driver tx, device rx, device tx; or, where the
-- device side splices, driver rx, driver tx, splice. What the benches of one
-- core share: the loop that is measured, and the way in and out of it.
--
-- A plan says what is done: frame (bytes), burst (packets a call), count
-- (frames that circle), ring (entries), splice (true = device to device without
-- a packet), options (further options of both ports), device (of the device's).
local ffi = require "moonring.ffi"
local mr = require "moonring"
local queues = require "moonring.queue"
local trial = require "moonring.trial"

local C = ffi.C
local M = {}

-- Where a frame carries its number: after Ethernet.
local NUMBER_AT = 14
local CHUNK_BURSTS = 512
-- Turns without a packet after which what is missing is lost.
local IDLE_TURNS = 1000

local STEPS = { "driver_rx", "driver_tx", "device_rx", "device_tx" }
M.STEPS, M.CHUNK_BURSTS = STEPS, CHUNK_BURSTS

------------------------------------------------------------ the measured loop

-- One chunk: so many bursts through all steps. q: the four queues; a, b: the
-- bursts in the driver's and in the device's hands, of which try_recv would
-- free what could not be sent. -> packets that the device received, ticks
local function chunk_total(q, a, b, bursts)
    local driver_rx, driver_tx = q.driver_rx, q.driver_tx
    local device_rx, device_tx = q.device_rx, q.device_tx
    local moved = 0
    local start = C.mr_tsc()
    for _ = 1, bursts do
        if a.n == 0 then C.mr_queue_try_recv(driver_rx, a) end
        C.mr_queue_try_send(driver_tx, a)
        if b.n == 0 then
            moved = moved + C.mr_queue_try_recv(device_rx, b)
        end
        C.mr_queue_try_send(device_tx, b)
    end
    return moved, tonumber(C.mr_tsc() - start)
end

-- The same with each step timed. ticks: uint64_t[4], to which each step's are
-- added. -> packets that the device received
local function chunk_steps(q, a, b, bursts, ticks)
    local driver_rx, driver_tx = q.driver_rx, q.driver_tx
    local device_rx, device_tx = q.device_rx, q.device_tx
    local moved = 0
    for _ = 1, bursts do
        local t0 = C.mr_tsc()
        if a.n == 0 then C.mr_queue_try_recv(driver_rx, a) end
        local t1 = C.mr_tsc()
        C.mr_queue_try_send(driver_tx, a)
        local t2 = C.mr_tsc()
        if b.n == 0 then
            moved = moved + C.mr_queue_try_recv(device_rx, b)
        end
        local t3 = C.mr_tsc()
        C.mr_queue_try_send(device_tx, b)
        local t4 = C.mr_tsc()
        ticks[0] = ticks[0] + (t1 - t0)
        ticks[1] = ticks[1] + (t2 - t1)
        ticks[2] = ticks[2] + (t3 - t2)
        ticks[3] = ticks[3] + (t4 - t3)
    end
    return moved
end

-- A chunk in which the device side splices. -> packets that it moved, ticks
local function chunk_splice(q, a, bursts)
    local driver_rx, driver_tx = q.driver_rx, q.driver_tx
    local device_rx, device_tx = q.device_rx, q.device_tx
    local moved = 0
    local start = C.mr_tsc()
    for _ = 1, bursts do
        if a.n == 0 then C.mr_queue_try_recv(driver_rx, a) end
        C.mr_queue_try_send(driver_tx, a)
        local n = C.mr_queue_splice(device_rx, device_tx, a.cap, nil, 0)
        if n > 0 then moved = moved + n end
    end
    return moved, tonumber(C.mr_tsc() - start)
end

local function round_spliced(state, chunks)
    local totals = {}
    for i = 1, chunks do
        local moved, all = chunk_splice(state.q, state.a, CHUNK_BURSTS)
        if moved == 0 then return nil end
        totals[i] = all / moved
    end
    return totals, { total = trial.quantile(totals, 0) }
end

-- So many chunks of either kind -> totals of all, ticks a packet, and the best
-- as { total =, STEP = ... }, the steps where they took least together; a
-- splice has none | nil when a chunk moved nothing
function M.round(state, chunks)
    if state.splice then return round_spliced(state, chunks) end
    local q, a, b, ticks = state.q, state.a, state.b, ffi.new "uint64_t[4]"
    local totals, steps, least = {}, {}, math.huge
    for i = 1, chunks do
        local moved, all = chunk_total(q, a, b, CHUNK_BURSTS)
        ffi.fill(ticks, ffi.sizeof(ticks))
        local again = chunk_steps(q, a, b, CHUNK_BURSTS, ticks)
        if moved == 0 or again == 0 then return nil end
        totals[i] = all / moved
        local sum = tonumber(ticks[0] + ticks[1] + ticks[2] + ticks[3]) / again
        if sum < least then
            least = sum
            for k, name in ipairs(STEPS) do
                steps[name] = tonumber(ticks[k - 1]) / again
            end
        end
    end
    steps.total = trial.quantile(totals, 0)
    return totals, steps
end

-- Why the loop of a round was not compiled, as text, or nil. seen: of
-- trial.traces.
function M.given_up(seen)
    return seen.by[chunk_total] or seen.by[chunk_steps]
        or seen.by[chunk_splice]
end

-- What a burst costs when there is nothing to move: the loop, four calls, and
-- for the steps the clock. q: queues of a null port. -> ticks a burst in the
-- loop of totals, in that of steps
function M.idle(q, plan)
    local a, b = mr.burst(plan.burst), mr.burst(plan.burst)
    local ticks = ffi.new "uint64_t[4]"
    local total, steps = math.huge, math.huge
    for _ = 1, 20 do
        local _, all = chunk_total(q, a, b, CHUNK_BURSTS)
        local start = C.mr_tsc()
        chunk_steps(q, a, b, CHUNK_BURSTS, ticks)
        steps = math.min(steps, tonumber(C.mr_tsc() - start))
        total = math.min(total, all)
    end
    return total / CHUNK_BURSTS, steps / CHUNK_BURSTS
end

------------------------------------------------------- frames in and out

local function number_of(pkt)
    return ffi.cast("uint32_t *", pkt:data() + NUMBER_AT)
end

-- Puts frames 0 .. count - 1 into the driver's tx ring, a burst at most each
-- turn, the device taking them out behind. -> whether all went
function M.inject(state, pool, plan)
    local a, sent = state.a, 0
    while sent < plan.count do
        local n = a:alloc(pool, math.min(plan.burst, plan.count - sent))
        if n == 0 then return false end
        for i = 0, n - 1 do
            local more = plan.frame - a[i].pkt_len
            if more > 0 then a[i]:append(more) end
            number_of(a[i])[0] = sent + i
        end
        if C.mr_queue_try_send(state.q.driver_tx, a) ~= n then return false end
        sent = sent + n
    end
    return true
end

-- Takes the frames of a burst out. seen: back = how many were, next = number
-- expected (nil = any), wrong = bursts with another or a changed one.
local function take(burst, seen, plan)
    local good = true
    for i = 0, burst.n - 1 do
        local pkt = burst[i]
        local number = number_of(pkt)[0]
        good = good and (not seen.next or number == seen.next)
            and pkt.pkt_len == plan.frame
        seen.next = (number + 1) % plan.count
        seen.back = seen.back + 1
    end
    if not good then seen.wrong = seen.wrong + 1 end
    burst:free()
end

-- Takes all frames out at the driver's end.
function M.drain(state, plan)
    local q, a, b = state.q, state.a, state.b
    local seen = { back = 0, wrong = 0 }
    local idle = 0
    local out = mr.burst(plan.burst)
    while idle < IDLE_TURNS and (seen.back < plan.count or a.n > 0) do
        idle = idle + 1
        if a.n > 0 then C.mr_queue_try_send(q.driver_tx, a) end
        if b.n == 0 then C.mr_queue_try_recv(q.device_rx, b) end
        C.mr_queue_try_send(q.device_tx, b)
        if C.mr_queue_try_recv(q.driver_rx, out) > 0 then
            take(out, seen, plan)
            idle = 0
        end
    end
    return seen
end

-------------------------------------------------------------------- ends

-- The queues of two ports, claimed by this thread.
function M.queues(driver, device)
    return { driver_rx = queues.ours(driver:rx()),
        driver_tx = queues.ours(driver:tx()),
        device_rx = queues.ours(device:rx()),
        device_tx = queues.ours(device:tx()) }
end

-- What the loop works on, for the thread that runs it: queues (q), and the
-- bursts in the driver's (a) and the device's (b) hands.
function M.state(driver, device, plan)
    return { a = mr.burst(plan.burst), b = mr.burst(plan.burst),
        q = M.queues(driver, device), splice = plan.splice }
end

-- Opens both ends on the socket `path` and waits until they are up. cell: what
-- is asked of the rings (layout, mergeable, in_order). -> device, driver;
-- raises what goes wrong
function M.open(path, cell, plan)
    local flags = { path = path, packed = cell.layout == "packed",
        mrg_rxbuf = cell.mergeable, in_order = cell.in_order,
        keep_num_buffers = true } -- as DPDK's driver does
    for name, value in pairs(plan.options or {}) do flags[name] = value end
    local own = {}
    for _, from in ipairs { flags, plan.device or {} } do
        for name, value in pairs(from) do own[name] = value end
    end
    local device = assert(mr.vhost(own))
    flags.queue_size = plan.ring
    local driver = assert(mr.virtio(flags))
    assert(driver:wait_up(10))
    assert(device:wait_up(10))
    return device, driver
end

return M
