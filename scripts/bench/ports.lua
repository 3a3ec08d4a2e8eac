-- Many ports in one loop: what a packet costs when it is one port of n.
--
--   moonring bench ports [--ports 1,8,64,256] [--busy all|1] [--json FILE]
--                        [--layout split|packed] [--ring N] [--burst N]
--                        [--frame BYTES] [--chunks N] [--core N] [--short]
--
--   $ moonring bench ports --ports 64 --busy 1
--
-- One process, n vhost ports with n virtio ports at the other ends of their
-- sockets, and one worker that serves all of them through two poll sets: what
-- the vhost ends receive goes back to the guest, what the virtio ends receive
-- goes back to the host. A busy port has one burst of frames that circles; an
-- idle one has nothing. Chunks of time with all n ports alternate with chunks
-- in which the same worker serves only the first of them; the ratio of ticks a
-- frame and round trip, chunk by chunk, is what the other ports cost: 1 is
-- nothing, `target` what it may be.
--
-- A cell is valid when the rings run in the mode that was asked for, nothing
-- was dropped, every frame came back, and all busy ports had their share.
local mr = require "moonring"
local host = require "moonring.host"
local stats = require "moonring.stats"
local traffic = require "moonring.traffic"
local trial = require "moonring.trial"

-- Ticks of a chunk: short, so that the interruptions of the machine hit few of
-- them; for many busy ports longer, so that each has its turn some times.
local CHUNK = 5e5
local CHUNK_PORT = 3e4
-- Ticks before the first chunk: caches are filled, the loop is compiled.
local WARM = 2e7
-- Seconds to wait for frames that do not come.
local PATIENCE = 10

local function parse_ports(text)
    local out = {}
    for word in (text .. ","):gmatch "([^,]*)," do
        local n = tonumber(word)
        if not n or n % 1 ~= 0 or n < 1 or n > 512 then
            return nil, ("'%s' is not a number of ports, 1..512"):format(word)
        end
        out[#out + 1] = n
    end
    return out
end

function configure(cli)
    cli:option "--ports":convert(parse_ports):default "1,8,64,256"
        :argname "<n,...>":description "Numbers of ports to measure."
    cli:option "--busy":choices { "all", "1" }
        :description "How many of them have traffic; by default both."
    cli:option "--json":argname "<file>"
        :description "Write an array with one object a cell."
    cli:option "--layout":choices { "split", "packed" }
        :description "Only this ring layout."
    cli:option "--ring":convert(traffic.count):default "256"
        :argname "<n>":description "Entries of each ring."
    cli:option "--burst":convert(traffic.count):default "32"
        :argname "<n>":description "Frames of a busy port, 1..256."
    cli:option "--frame":convert(traffic.count):default "64"
        :argname "<bytes>":description "Frame without check sequence, 60..1514."
    cli:option "--chunks":convert(traffic.count):argname "<n>"
        :description "Pairs of chunks measured in a cell (100)."
    cli:option "--core":convert(traffic.count):argname "<n>"
        :description "CPU of the worker; by default the last one allowed."
    cli:flag "--short":description "A tenth of the chunks."
end

local function range_error(args)
    local ranges = { { "ring", 4, 32768 }, { "burst", 1, 256 },
        { "frame", 60, 1514 }, { "chunks", 1, 1e6 } }
    for _, range in ipairs(ranges) do
        local name, low, high = range[1], range[2], range[3]
        local v = args[name]
        if v and (v < low or v > high) then
            return ("--%s %g: it must be from %d to %d"):format(name, v, low,
                high)
        end
    end
    local ring = args.ring
    if args.burst > ring then
        return ("--burst %d is more than the ring holds (%d)")
            :format(args.burst, ring)
    end
    if bit.band(ring, ring - 1) ~= 0 and args.layout ~= "packed" then
        return ("--ring %d: split rings have a power of two of entries; "
            .. "add --layout packed"):format(ring)
    end
end

-- The matrix, one row a cell. One port has nothing beside it.
local function cells(args)
    local out = {}
    for _, layout in ipairs { "split", "packed" } do
        for _, ports in ipairs(args.ports) do
            for _, busy in ipairs { "all", "1" } do
                if (not args.layout or args.layout == layout)
                    and (not args.busy or args.busy == busy)
                    and not (ports == 1 and busy == "1" and not args.busy) then
                    out[#out + 1] = { layout = layout, ports = ports,
                        busy = busy == "all" and ports or 1,
                        ring = args.ring, burst = args.burst,
                        frame = args.frame }
                end
            end
        end
    end
    return out
end

------------------------------------------------------------------- worker

-- Both ends of the first n ports, each through one poll set.
local function side(ports, n)
    local rx, tx = {}, {}
    for i = 1, n do rx[i], tx[i] = ports[i]:rx(), ports[i]:tx() end
    return assert(mr.poll(rx)), tx
end

local function ends(vhost, virtio, n)
    local out = {}
    out.host, out.host_tx = side(vhost, n)
    out.guest, out.guest_tx = side(virtio, n)
    return out
end

-- What one end receives goes back where it came from. -> frames
local function turn(poll, tx, burst)
    local i, n = poll:try_recv(burst)
    if i then tx[i]:send(burst, PATIENCE) end
    return n
end

-- Lets frames circle for about that many ticks. -> frames that came back to
-- the host, ticks
local function circle(set, burst, ticks)
    local host_poll, guest_poll = set.host, set.guest
    local host_tx, guest_tx = set.host_tx, set.guest_tx
    local got, start = 0, mr.tsc()
    local now = start
    while now - start < ticks do
        for _ = 1, 16 do
            turn(guest_poll, guest_tx, burst)
            got = got + turn(host_poll, host_tx, burst)
        end
        now = mr.tsc()
    end
    return got, tonumber(now - start)
end

-- Ticks a frame of one chunk, once its lines are in the caches again.
local function chunk(set, burst, ticks)
    circle(set, burst, ticks / 4)
    local got, took = circle(set, burst, ticks)
    return got > 0 and took / got or math.huge
end

-- One burst into each of the first `busy` ports. -> whether all went
local function inject(set, pool, burst, busy)
    for i = 1, busy do
        if burst:alloc(pool) == 0
            or set.host_tx[i]:send(burst, PATIENCE) ~= burst.cap then
            return false
        end
    end
    return true
end

-- Takes frames out at the host until none came for a while. -> how many
local function drain(set, burst)
    local back, limit = 0, mr.now() + 0.05
    while mr.now() < limit do
        turn(set.guest, set.guest_tx, burst)
        local _, n = set.host:try_recv(burst)
        back = back + n
        if n > 0 then limit = mr.now() + 0.05 end
    end
    burst:free()
    return back
end

-- Packets that each port's host end has received.
local function received(ports, n)
    local out = {}
    for i = 1, n do out[i] = ports[i]:rx():stats().packets end
    return out
end

-- Whether some port got less than half of what another one got. The first has
-- more than its share, as it has chunks alone.
local function starved(before, after)
    local least, most = math.huge, 0
    for i, n in ipairs(after) do
        least = math.min(least, n - before[i])
        if i > 1 then most = math.max(most, n - before[i]) end
    end
    return least < most / 2
end

-- Lists of ticks a frame: of the first port alone, and of all together.
function measure(vhost, virtio, pool, plan)
    local burst = mr.burst(plan.burst)
    local many = ends(vhost, virtio, plan.ports)
    local one = ends(vhost, virtio, 1)
    local out = { one = {}, many = {}, lost = plan.busy * plan.burst }
    if not inject(many, pool, burst, plan.busy) then return out end
    local long = math.max(CHUNK, CHUNK_PORT * plan.busy)
    circle(one, burst, WARM)
    circle(many, burst, WARM + 10 * long)
    local before = received(vhost, plan.busy)
    for i = 1, plan.chunks do
        out.one[i] = chunk(one, burst, CHUNK)
        out.many[i] = chunk(many, burst, long)
        if not mr.running() then break end
    end
    out.starved = starved(before, received(vhost, plan.busy))
    out.lost = out.lost - drain(many, burst)
    return out
end

--------------------------------------------------------------------- cell

local function open_ports(cell, dir)
    local vhost, virtio = {}, {}
    local pool = assert(mr.pool { packets = 8192 + 2 * cell.ports * cell.burst,
        fill = mr.stack("eth"):fill { len = cell.frame, eth_type = 0x88b5 } })
    for i = 1, cell.ports do
        local flags = { path = ("%s/%d"):format(dir, i),
            packed = cell.layout == "packed" }
        flags.pool = pool
        vhost[i] = assert(mr.vhost(flags))
        flags.pool, flags.queue_size = nil, cell.ring
        virtio[i] = assert(mr.virtio(flags))
    end
    for i = 1, cell.ports do
        assert(virtio[i]:wait_up(PATIENCE))
        assert(vhost[i]:wait_up(PATIENCE))
    end
    return vhost, virtio, pool
end

local function close_ports(vhost, virtio, pool)
    for i = 1, #vhost do
        assert(virtio[i]:close())
        assert(vhost[i]:close())
    end
    assert(pool:free())
end

local function judge(cell, result, problem, dropped)
    local why = { problem }
    if result.lost ~= 0 then
        why[#why + 1] = ("%d of the frames lost"):format(result.lost)
    end
    if result.starved then
        why[#why + 1] = "some port had less than its share"
    end
    why[#why + 1] = dropped
    if #result.many == 0 then why[#why + 1] = "nothing was measured" end
    return trial.judge(cell, why)
end

local function run_cell(cell, plan, dir)
    local vhost, virtio, pool = open_ports(cell, dir)
    local problem
    cell.negotiated, problem = trial.mode(virtio[cell.ports], cell)
    local task = assert(mr.task { run = "measure", core = plan.core,
        args = { vhost, virtio, pool, { ports = cell.ports, busy = cell.busy,
            burst = cell.burst, chunks = plan.chunks } } })
    local result = assert(task:result())
    local list = {}
    for i = 1, cell.ports do
        list[2 * i - 1], list[2 * i] = vhost[i], virtio[i]
    end
    judge(cell, result, problem, trial.drops(unpack(list)))
    cell.tsc = trial.spread(result.many)
    cell.one = trial.spread(result.one)
    cell.tsc.min = #result.many > 0 and math.min(unpack(result.many)) or nil
    cell.one.min = #result.one > 0 and math.min(unpack(result.one)) or nil
    cell.ratio = trial.ratio(result.many, result.one)
    cell.target = cell.busy == 1 and 2 or 1.8
    close_ports(vhost, virtio, pool)
    return cell
end

------------------------------------------------------------------- report

local function print_table(done)
    local lines = { { "layout", "ports", "busy", "tsc", "alone", "ratio",
        "quartiles", "" } }
    for _, cell in ipairs(done) do
        local r = cell.ratio
        lines[#lines + 1] = { cell.layout, tostring(cell.ports),
            tostring(cell.busy),
            cell.valid and ("%.1f"):format(cell.tsc.median) or "invalid",
            cell.valid and ("%.1f"):format(cell.one.median) or "-",
            cell.valid and ("%.2f"):format(r.median) or "-",
            cell.valid and ("%.2f-%.2f"):format(r.lo, r.hi) or "-",
            cell.why_invalid or "" }
    end
    print(stats.align(lines))
end

local function run_all(list, plan, dir)
    local all_valid = true
    for i, cell in ipairs(list) do
        trial.progress(("%d/%d  %s, %d ports, %d busy"):format(i, #list,
            cell.layout, cell.ports, cell.busy))
        run_cell(cell, plan, dir)
        all_valid = all_valid and cell.valid
        if not mr.running() then break end
    end
    trial.progress ""
    return all_valid
end

function main(args)
    local wrong = range_error(args)
    if wrong then return nil, wrong, 2 end
    local cpus = host.cpus()
    local plan = { core = args.core or cpus[#cpus],
        chunks = args.chunks or args.short and 10 or 100 }
    local dir = assert(host.tempdir())
    local list = cells(args)
    local ran, valid = pcall(run_all, list, plan, dir)
    os.remove(dir)
    if not ran then error(valid, 0) end
    if not mr.running() then return nil, "stopped before the end" end
    print(("ticks a frame and round trip; %d-byte frames, ring %d, bursts of "
        .. "%d, CPU %d"):format(args.frame, args.ring, args.burst, plan.core))
    print_table(list)
    if args.json then
        local ok, text = trial.write(args.json, list)
        if not ok then return nil, text end
    end
    if not valid then
        return nil, "some cells are invalid: their numbers are not to be "
            .. "trusted, see the reasons above"
    end
end
