-- Circle: a fixed number of frames goes around between a host, which has the
-- vhost port, and a guest, which has the virtio port. The host numbers the
-- frames, sends them, and sends again whatever comes back; the guest swaps the
-- MAC addresses and sends back. So every frame crosses a ring twice a turn.
--
-- host() and guest() are the workers. A script that uses them names them as
-- functions of its own: host, guest = circle.host, circle.guest.
--
-- A plan says what is done: frame (bytes), burst (packets a call), count
-- (frames that circle), warm and seconds (time before and in a measurement).
local ffi = require "ffi"
local mr = require "moonring"
local trial = require "moonring.trial"

local M = {}

-- Where a frame carries its number: after Ethernet, in network-neutral bytes.
local NUMBER_AT = 14
local MAGIC = 0x4d52
local MAGIC_AT = 18
-- Bytes that a pool copies into every fresh packet, at most.
local FILL_MAX = 2048
-- Data bytes of a buffer that a driver posts, less the virtio header.
local ROOM = 2036

-- Seconds that a frame may take from leaving the host to coming back.
M.PATIENCE = 10

-- Frames of `frame` bytes that can be under way at once in rings of `ring`
-- entries without anybody having to wait for room: longer ones take several
-- entries, one of them for the header. A multiple of the burst.
-- -> count, packets a burst
function M.capacity(frame, ring, burst)
    local pieces = math.ceil(frame / ROOM)
    local count = pieces == 1 and ring or math.floor(ring / (pieces + 1))
    burst = math.min(burst, math.max(count, 1))
    return math.floor(count / burst) * burst, burst
end

-- The pool that the host's first frames come from -> pool | nil, text, name
function M.pool(plan)
    return mr.pool { packets = 2 * plan.count + 1024,
        size = math.max(plan.frame, FILL_MAX),
        fill = mr.stack("eth"):fill {
            len = math.min(plan.frame, FILL_MAX), eth_type = 0x88b5 } }
end

------------------------------------------------------------------- rounds

-- What a worker's rounds came to, a round being: receive, work, send. got =
-- frames, rounds = those that moved some. Where a round found frames waiting,
-- the worker was busy all the time: busy_rounds, busy_got, and busy = ticks
-- in them. In the others it waited for its peer. cpu_lost: part of the time in
-- which others had the worker's CPU, 0..1 (set at the end).
local function open_tally()
    return { got = 0, rounds = 0, busy_rounds = 0, busy_got = 0, busy = 0,
        cpu_lost = 0, begin = mr.now(), waited = trial.waited() or 0 }
end

local function close_tally(tally)
    tally.cpu_lost = ((trial.waited() or 0) - tally.waited)
        / (mr.now() - tally.begin)
    return tally
end

-- -> frames received, whether they were there at once
local function receive(rx, burst)
    local n = rx:try_recv(burst)
    if n > 0 then return n, true end
    return rx:recv(burst, 0.01), false
end

-- Adds a round of n frames that began at tick `start` -> tick of its end
local function count(tally, n, at_once, start)
    local now = mr.tsc()
    if n > 0 then
        tally.got = tally.got + n
        tally.rounds = tally.rounds + 1
        if at_once then
            tally.busy_rounds = tally.busy_rounds + 1
            tally.busy_got = tally.busy_got + n
            tally.busy = tally.busy + tonumber(now - start)
        end
    end
    return now
end

-------------------------------------------------------------------- host

local function number_of(pkt)
    return ffi.cast("uint32_t *", pkt:data() + NUMBER_AT)
end

local function magic_of(pkt)
    return ffi.cast("uint16_t *", pkt:data() + MAGIC_AT)
end

-- Sends frames 0 .. count - 1. -> whether all went
local function inject(tx, pool, burst, plan)
    local sent = 0
    while sent < plan.count do
        local n = burst:alloc(pool, math.min(burst.cap, plan.count - sent))
        if n == 0 then return false end
        for i = 0, n - 1 do
            local more = plan.frame - burst[i].pkt_len
            if more > 0 then burst[i]:append(more) end
            number_of(burst[i])[0] = sent + i
            magic_of(burst[i])[0] = MAGIC
        end
        if tx:send(burst, M.PATIENCE) ~= n then return false end
        sent = sent + n
    end
    return true
end

-- Whether the burst holds the frames next, next + 1, ... (modulo count).
-- Looks at all of them, or at the first and the last.
local function in_sequence(burst, n, state, all)
    for i = 0, n - 1, all and 1 or math.max(n - 1, 1) do
        local pkt = burst[i]
        if number_of(pkt)[0] ~= (state.next + i) % state.count
            or magic_of(pkt)[0] ~= MAGIC or pkt.pkt_len ~= state.frame then
            return false
        end
    end
    return true
end

-- Looks at what came. state: next = number expected, wrong = bursts out of
-- sequence or changed.
local function note(burst, n, state, all)
    if not in_sequence(burst, n, state, all) then
        state.wrong = state.wrong + 1
    end
    state.next = (state.next + n) % state.count
end

-- Lets frames circle until `deadline`; looks at all frames or at some.
-- -> a tally (see below)
local function circle(rx, tx, burst, state, deadline, all)
    local tally = open_tally()
    local start = mr.tsc()
    while start < deadline and mr.running() do
        local n, at_once = receive(rx, burst)
        if n > 0 then
            note(burst, n, state, all)
            tx:send(burst, M.PATIENCE)
        end
        start = count(tally, n, at_once, start)
    end
    return close_tally(tally)
end

-- Takes frames out until all are back. -> how many
local function drain(rx, burst, state)
    local back = 0
    while back < state.count do
        local n = rx:recv(burst, M.PATIENCE)
        if n == 0 then break end
        note(burst, n, state, true)
        back = back + n
    end
    burst:free()
    return back
end

-- The host's worker -> a tally of the measurement, with lost = frames that did
-- not come back at all, wrong = bursts out of sequence or changed, ticks =
-- ticks measured, hz = ticks a second
function M.host(port, pool, plan)
    local rx, tx = port:rx(), port:tx()
    local burst = mr.burst(plan.burst)
    local state = { next = 0, count = plan.count, wrong = 0,
        frame = plan.frame }
    local hz = mr.tsc_hz()
    local out, ticks, lost = open_tally(), 1, plan.count
    if inject(tx, pool, burst, plan) then
        -- Every frame of a first round is looked at; compiles the loop, too.
        circle(rx, tx, burst, state, mr.tsc() + plan.warm * hz, true)
        local start = mr.tsc()
        out = circle(rx, tx, burst, state, start + plan.seconds * hz, false)
        ticks = tonumber(mr.tsc() - start)
        lost = plan.count - drain(rx, burst, state)
    end
    out.wrong, out.lost, out.ticks, out.hz = state.wrong, lost, ticks, hz
    return out
end

------------------------------------------------------------------- guest

-- Swaps source and destination of the first n frames.
function M.swap_macs(burst, n)
    for i = 0, n - 1 do
        local words = ffi.cast("uint16_t *", burst[i]:data())
        local a, b, c = words[0], words[1], words[2]
        words[0], words[1], words[2] = words[3], words[4], words[5]
        words[3], words[4], words[5] = a, b, c
    end
end

-- The guest's worker, until it is asked to stop -> a tally
function M.guest(port, plan)
    local rx, tx = port:rx(), port:tx()
    local burst = mr.burst(plan.burst)
    local tally = open_tally()
    local start = mr.tsc()
    while mr.running() do
        local n, at_once = receive(rx, burst)
        if n > 0 then
            M.swap_macs(burst, n)
            tx:send(burst, M.PATIENCE)
        end
        start = count(tally, n, at_once, start)
    end
    return close_tally(tally)
end

return M
