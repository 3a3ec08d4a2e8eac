-- The PVP loop: packets circle between our device side and our driver side.
--
--   moonring bench pvp [--short] [--json FILE] [--seconds S] [--frame BYTES]
--                      [--ring N] [--burst N] [--cores HOST,GUEST]
--                      [--layout split|packed]
--
--   $ moonring bench pvp --short
--
-- One process, two workers, a real vhost-user socket between them. The host
-- worker has the vhost port: it sends numbered frames to the guest worker,
-- which has the virtio port, swaps the MAC addresses and sends them back; what
-- the host receives it sends again. So a fixed number of frames, one ring
-- full, circles and every frame crosses a ring twice. A rate is frames received
-- by the host per second; cycles per packet are those of the busier worker in
-- rounds that moved frames.
--
-- A cell's number counts only if the rings run in the mode that was asked for,
-- no frame is lost when everything has come to rest, none came out of order or
-- changed, and no counter tells of a drop or a fault. Otherwise the cell is
-- marked invalid, with the reason, and the exit status is 1.
local ffi = require "ffi"
local mr = require "moonring"
local host_api = require "moonring.host"
local stats = require "moonring.stats"
local traffic = require "moonring.traffic"

-- Where a frame carries its number: after Ethernet, in network-neutral bytes.
local NUMBER_AT = 14
local MAGIC = 0x4d52
local MAGIC_AT = 18
-- Seconds that a frame may take from leaving the host to coming back.
local PATIENCE = 10

local function parse_cores(text)
    local a, b = text:match "^(%d+),(%d+)$"
    if a then return { tonumber(a), tonumber(b) } end
    return nil, ("'%s' is not two CPUs such as 1,2"):format(text)
end

function configure(cli)
    cli:flag "--short":description "A third of a second a cell."
    cli:option "--json":argname "<file>"
        :description "Write an array with one object a cell."
    cli:option "--seconds":convert(traffic.number):argname "<s>"
        :description "Time measured in a cell (3; with --short 0.3)."
    cli:option "--frame":convert(traffic.number):default "64"
        :argname "<bytes>":description "Frame without check sequence, 60..1514."
    cli:option "--ring":convert(traffic.number):default "256"
        :argname "<n>":description "Entries of each ring."
    cli:option "--burst":convert(traffic.number):default "64"
        :argname "<n>":description "Packets a call, 1..256."
    cli:option "--cores":convert(parse_cores):argname "<host,guest>"
        :description "CPUs of the workers; by default the last two allowed."
    cli:option "--layout":choices { "split", "packed" }
        :description "Only this ring layout."
end

local function range_error(args)
    local ranges = { { "frame", 60, 1514 }, { "ring", 4, 32768 },
        { "burst", 1, 256 } }
    for _, range in ipairs(ranges) do
        local name, low, high = range[1], range[2], range[3]
        local v = args[name]
        if v % 1 ~= 0 or v < low or v > high then
            return ("--%s %g: it must be a whole number from %d to %d")
                :format(name, v, low, high)
        end
    end
    local ring = args.ring
    while ring % 2 == 0 do ring = ring / 2 end
    if ring ~= 1 and args.layout ~= "packed" then
        return ("--ring %d: split rings have a power of two of entries; "
            .. "add --layout packed"):format(args.ring)
    end
end

-- The matrix, one row a cell.
local function cells(layout)
    local out = {}
    for _, one in ipairs { "split", "packed" } do
        for mergeable = 0, 1 do
            for in_order = 0, 1 do
                if not layout or layout == one then
                    out[#out + 1] = { layout = one,
                        mergeable = mergeable == 1,
                        in_order = in_order == 1 }
                end
            end
        end
    end
    return out
end

-- CPUs for host and guest: the last two, which leaves the first for control.
local function choose_cores()
    local cpus = host_api.cpus()
    return { cpus[#cpus], cpus[math.max(#cpus - 1, 1)] }
end

---------------------------------------------------------------- host worker

local function number_of(pkt)
    return ffi.cast("uint32_t *", pkt:data() + NUMBER_AT)
end

local function magic_of(pkt)
    return ffi.cast("uint16_t *", pkt:data() + MAGIC_AT)
end

-- Sends frames 0 .. count - 1. -> whether all went
local function inject(tx, pool, burst, count)
    local sent = 0
    while sent < count do
        local n = burst:alloc(pool, math.min(burst.cap, count - sent))
        if n == 0 then return false end
        for i = 0, n - 1 do
            number_of(burst[i])[0] = sent + i
            magic_of(burst[i])[0] = MAGIC
        end
        if tx:send(burst, PATIENCE) ~= n then return false end
        sent = sent + n
    end
    return true
end

-- Whether the burst holds the frames next, next + 1, ... (modulo count).
-- Looks at all of them, or at the first and the last.
local function in_sequence(burst, n, next, count, frame, all)
    for i = 0, n - 1, all and 1 or math.max(n - 1, 1) do
        local pkt = burst[i]
        if number_of(pkt)[0] ~= (next + i) % count
            or magic_of(pkt)[0] ~= MAGIC or pkt.pkt_len ~= frame then
            return false
        end
    end
    return true
end

-- Lets frames circle until `deadline`, numbers of all frames looked at or not.
-- state: next = number expected, wrong = bursts out of sequence.
-- -> frames received, ticks spent in rounds that moved some
local function circle(rx, tx, burst, state, deadline, all)
    local got, busy = 0, 0ULL
    local start = mr.tsc()
    while start < deadline do
        local n = rx:recv(burst, 0.01)
        if n > 0 then
            if not in_sequence(burst, n, state.next, state.count, state.frame,
                all) then
                state.wrong = state.wrong + 1
            end
            state.next = (state.next + n) % state.count
            got = got + n
            tx:send(burst, PATIENCE)
            local now = mr.tsc()
            busy = busy + (now - start)
            start = now
        else
            if not mr.running() then break end
            start = mr.tsc()
        end
    end
    return got, busy
end

-- Takes frames out until all are back. -> how many
local function drain(rx, burst, state)
    local back = 0
    while back < state.count do
        local n = rx:recv(burst, PATIENCE)
        if n == 0 then break end
        if not in_sequence(burst, n, state.next, state.count, state.frame,
            true) then
            state.wrong = state.wrong + 1
        end
        state.next = (state.next + n) % state.count
        back = back + n
    end
    burst:free()
    return back
end

function host(port, pool, plan)
    local rx, tx = port:rx(), port:tx()
    local burst = mr.burst(plan.burst)
    local state = { next = 0, count = plan.count, wrong = 0,
        frame = plan.frame }
    local hz = mr.tsc_hz()
    local out = { got = 0, busy = 0, ticks = 1, hz = hz, lost = plan.count }
    if inject(tx, pool, burst, plan.count) then
        -- Every frame of a first round is looked at; compiles the loop, too.
        circle(rx, tx, burst, state, mr.tsc() + plan.warm * hz, true)
        local start = mr.tsc()
        local got, busy = circle(rx, tx, burst, state,
            start + plan.seconds * hz, false)
        out.ticks = tonumber(mr.tsc() - start)
        out.got, out.busy = got, tonumber(busy)
        out.lost = plan.count - drain(rx, burst, state)
    end
    out.wrong = state.wrong
    return out
end

--------------------------------------------------------------- guest worker

local function swap_macs(burst, n)
    for i = 0, n - 1 do
        local words = ffi.cast("uint16_t *", burst[i]:data())
        local a, b, c = words[0], words[1], words[2]
        words[0], words[1], words[2] = words[3], words[4], words[5]
        words[3], words[4], words[5] = a, b, c
    end
end

function guest(port, plan)
    local rx, tx = port:rx(), port:tx()
    local burst = mr.burst(plan.burst)
    local got, busy = 0, 0ULL
    local start = mr.tsc()
    while mr.running() do
        local n = rx:recv(burst, 0.01)
        if n > 0 then
            swap_macs(burst, n)
            tx:send(burst, PATIENCE)
            got = got + n
            local now = mr.tsc()
            busy = busy + (now - start)
            start = now
        else
            start = mr.tsc()
        end
    end
    return { got = got, busy = tonumber(busy) }
end

----------------------------------------------------------------- one cell

local asked = { "mergeable", "in_order" }

-- What the rings run in, and how it differs from what was asked.
local function check_mode(port, cell, plan)
    local info = assert(port:info())
    local mode = { layout = info.packed and "packed" or "split",
        mergeable = info.mergeable, in_order = info.in_order,
        event_idx = info.event_idx, indirect = info.indirect,
        version_1 = info.version_1, ring = info.size,
        features = ("0x%x"):format(tonumber(info.features)) }
    local wrong = {}
    for _, name in ipairs(asked) do
        if mode[name] ~= cell[name] then
            wrong[#wrong + 1] = ("%s is %s"):format(name, tostring(mode[name]))
        end
    end
    if mode.layout ~= cell.layout then
        wrong[#wrong + 1] = "layout is " .. mode.layout
    end
    if mode.ring ~= plan.ring then
        wrong[#wrong + 1] = "ring is " .. mode.ring
    end
    return mode, wrong[1] and "negotiated otherwise: "
        .. table.concat(wrong, ", ")
end

-- Any drop or fault on the ports, as text.
local function check_counters(...)
    local out = {}
    for _, row in ipairs(mr.stats(...)) do
        local where = ("%s %s"):format(row.port, row.dir)
        if row.dropped > 0 then
            out[#out + 1] = ("%s dropped %d"):format(where, row.dropped)
        end
        for name, n in pairs(row.faults) do
            out[#out + 1] = ("%s fault %s x%d"):format(where, name, n)
        end
    end
    return out[1] and table.concat(out, ", ")
end

local function open_ports(path, cell, plan)
    local flags = { path = path, packed = cell.layout == "packed",
        mrg_rxbuf = cell.mergeable, in_order = cell.in_order }
    local vhost = assert(mr.vhost(flags))
    flags.queue_size = plan.ring
    local virtio = assert(mr.virtio(flags))
    assert(virtio:wait_up(10))
    assert(vhost:wait_up(10))
    return vhost, virtio
end

-- Runs the two workers. -> results of host and guest, or raises
local function run_workers(vhost, virtio, pool, plan)
    local second = assert(mr.task { run = "guest", core = plan.cores[2],
        args = { virtio, plan } })
    local first = assert(mr.task { run = "host", core = plan.cores[1],
        args = { vhost, pool, plan } })
    assert(first:wait(plan.seconds + plan.warm + 3 * PATIENCE + 10))
    second:stop()
    assert(second:wait(10))
    return assert(first:result()), assert(second:result())
end

local function judge(cell, result, dropped, mode_problem)
    local why = {}
    if mode_problem then why[#why + 1] = mode_problem end
    if result.lost ~= 0 then
        why[#why + 1] = ("%d of the frames lost"):format(result.lost)
    end
    if result.wrong > 0 then
        why[#why + 1] = ("%d bursts out of sequence or changed")
            :format(result.wrong)
    end
    if dropped then why[#why + 1] = dropped end
    if result.got == 0 then why[#why + 1] = "no frame came back" end
    cell.valid = #why == 0
    cell.why = why[1] and table.concat(why, "; ")
end

local function run_cell(cell, plan, dir)
    local vhost, virtio = open_ports(dir .. "/pvp.sock", cell, plan)
    local pool = assert(mr.pool { packets = 2 * plan.count + 1024,
        fill = mr.stack("eth"):fill { len = plan.frame, eth_type = 0x88b5 } })
    local problem
    cell.negotiated, problem = check_mode(virtio, cell, plan)
    local result, other = run_workers(vhost, virtio, pool, plan)
    judge(cell, result, check_counters(vhost, virtio), problem)
    cell.lost = result.lost
    cell.frame, cell.ring, cell.burst = plan.frame, plan.ring, plan.burst
    cell.seconds = result.ticks / result.hz
    cell.mpps = result.got / cell.seconds / 1e6
    -- Each worker's own rounds over its own frames; the guest's include the
    -- first round, which is as long for both.
    cell.cycles_per_packet = math.max(
        result.got > 0 and result.busy / result.got or 0,
        other.got > 0 and other.busy / other.got or 0)
    assert(virtio:close())
    assert(vhost:close())
    pool:free()
    return cell
end

------------------------------------------------------------------- report

local function on(flag) return flag and "on" or "off" end

local function cell_name(cell)
    return ("%s, mergeable %s, in-order %s"):format(cell.layout,
        on(cell.mergeable), on(cell.in_order))
end

local function progress(text)
    if host_api.terminal(2) then
        io.stderr:write("\r\27[K", text)
    elseif text ~= "" then
        io.stderr:write(text, "\n")
    end
    io.stderr:flush()
end

local function print_table(done)
    local lines = { { "layout", "mergeable", "in-order", "Mpps",
        "cycles/packet", "lost", "" } }
    for _, cell in ipairs(done) do
        lines[#lines + 1] = { cell.layout, on(cell.mergeable),
            on(cell.in_order),
            cell.valid and ("%.3f"):format(cell.mpps) or "invalid",
            cell.valid and ("%.0f"):format(cell.cycles_per_packet) or "-",
            tostring(cell.lost), cell.why or "" }
    end
    print(stats.align(lines))
end

local function write_json(path, done)
    local file, text = io.open(path, "w")
    if not file then return nil, "--json " .. text end
    local out = {}
    for i, cell in ipairs(done) do out[i] = "  " .. mr.json(cell) end
    file:write("[\n", table.concat(out, ",\n"), "\n]\n")
    file:close()
    return true
end

local function advice(plan)
    if plan.cores[1] == plan.cores[2] then
        return "Both workers shared one core; with two it is a different "
            .. "number. 'moonring doctor' tells what else costs."
    end
    return "Try next: moonring bench pvp --ring 1024 --frame 1514, or "
        .. "'moonring doctor' for what this machine could do better."
end

local function make_plan(args)
    return {
        seconds = args.seconds or (args.short and 0.3 or 3),
        warm = args.short and 0.1 or 0.5,
        frame = args.frame, ring = args.ring, burst = args.burst,
        count = args.ring, cores = args.cores or choose_cores(),
    }
end

local function run_all(list, plan, dir)
    local all_valid = true
    for i, cell in ipairs(list) do
        progress(("%d/%d  %s"):format(i, #list, cell_name(cell)))
        run_cell(cell, plan, dir)
        all_valid = all_valid and cell.valid
        if not mr.running() then break end
    end
    progress ""
    return all_valid
end

function main(args)
    local wrong = range_error(args)
    if wrong then return nil, wrong, 2 end
    local plan = make_plan(args)
    local dir = assert(host_api.tempdir())
    local list = cells(args.layout)
    local ran, valid = pcall(run_all, list, plan, dir)
    os.remove(dir .. "/pvp.sock")
    os.remove(dir)
    if not ran then error(valid, 0) end
    if not mr.running() then return nil, "stopped before the end" end
    print(("%d-byte frames, ring %d, bursts of %d, %g s a cell, CPUs %d and %d")
        :format(plan.frame, plan.ring, plan.burst, plan.seconds,
            plan.cores[1], plan.cores[2]))
    print_table(list)
    print(advice(plan))
    if args.json then
        local ok, text = write_json(args.json, list)
        if not ok then return nil, text end
    end
    if not valid then
        return nil, "some cells are invalid: their numbers are not to be "
            .. "trusted, see the reasons above"
    end
end
