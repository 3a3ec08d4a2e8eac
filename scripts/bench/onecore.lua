-- Both ends of a virtqueue on one core: ticks a packet, step by step.
--
--   moonring bench onecore [--short] [--json FILE] [--peer dpdk]
--                          [--path NAME ...] [--ring N] [--burst N]
--                          [--count N] [--frame BYTES] [--rounds N]
--                          [--core CPU]
--
--   $ moonring bench onecore --path packed --peer dpdk
--
-- One process, one task, a real vhost-user socket between our device side and
-- our driver side. The task serves both ends in turn, so a fixed number of
-- frames circles: driver rx, driver tx, device rx, device tx; on one core there
-- is no waiting and no transfer between cores, only work. Figures are ticks of
-- the time stamp counter a packet and round trip. A chunk is 512 bursts; a
-- round is some chunks, and its figure that of its best chunk, for whatever
-- else happens on the machine only adds. With --peer dpdk each round is
-- followed by one of the program dpdk_onecore, which does the same with DPDK's
-- librte_vhost and net_virtio_user; ratios are of rounds that stand together,
-- above 1 = we are faster.
--
-- A cell's number counts only if the rings run in the mode that was asked for,
-- on both sides of the comparison, every frame is back at the end, in sequence
-- and whole, no counter tells of a drop or a fault, the loops were compiled,
-- both sides have the same kind of memory, and the middle half of the rounds
-- lies within a quarter of their median. Otherwise the cell is marked invalid,
-- with the reason, and the exit status is 1.
--
-- In the JSON, `tsc` is the spread of the rounds, `tsc.min` the best of them,
-- `chunks` the spread of all chunks. `steps` come from chunks in which each
-- step is timed, so their sum is above the total; those of the median round.
-- `idle` is what a burst costs in either kind of chunk with null ports, that is
-- without any work: ticks a burst.
local cjson = require "cjson"
local mr = require "moonring"
local circle = require "moonring.circle"
local host_api = require "moonring.host"
local pair = require "moonring.pair"
local solo = require "moonring.solo"
local stats = require "moonring.stats"
local testpmd = require "moonring.testpmd"
local traffic = require "moonring.traffic"
local trial = require "moonring.trial"

-- Share of the median that the middle half of the rounds may span.
local SPREAD = 0.25

local STEPS = solo.STEPS

------------------------------------------------------------- command line

-- Options that are whole numbers: name, default, what the help says.
local NUMBERS = {
    { "ring", "256", "Entries of each ring, 4..32768." },
    { "burst", "32", "Packets a call, 1..256." },
    { "count", nil, "Packets that circle (a burst)." },
    { "frame", "64", "Frame without check sequence in bytes, 60..9000; above "
        .. "1518 with mergeable buffers only." },
    { "rounds", nil, "Rounds a cell (10; with --short 3)." },
    { "core", nil, "CPU to run on; by default the last one allowed." },
}

function configure(cli)
    cli:flag "--short":description "Few and short rounds."
    cli:option "--json":argname "<file>"
        :description "Write an array with one object a cell."
    cli:option "--path":count "*":convert(trial.path):argname "<name>"
        :description("Only this path of the rings, e.g. split, packed-mrg, "
            .. "packed-vec; may be repeated.")
    cli:option "--peer":choices { "dpdk" }
        :description "Compare with DPDK, round by round."
    for _, row in ipairs(NUMBERS) do
        cli:option("--" .. row[1]):convert(traffic.count):argname "<n>"
            :default(row[2]):description(row[3])
    end
end

local function range_error(args, list)
    local text = pair.range_error(args, list)
    if text then return text end
    local most = circle.capacity(args.frame, args.ring, 1)
    local count = args.count or args.burst
    if count < 1 or count > most then
        return ("%d frames of %d bytes cannot circle in rings of %d: from 1 "
            .. "to %d can; see --count"):format(count, args.frame, args.ring,
            most)
    end
    if args.rounds == 0 then return "--rounds 0: at least one is needed" end
end

local function make_plan(args)
    local cpus = host_api.cpus()
    return {
        rounds = args.rounds or (args.short and 3 or 10),
        chunks = args.short and 10 or 40,
        frame = args.frame, ring = args.ring, burst = args.burst,
        count = args.count or args.burst, core = args.core or cpus[#cpus],
        peer = args.peer,
    }
end

----------------------------------------------------------------- the peer

local function bit_of(word, n)
    return math.floor(word / 2 ^ n) % 2 == 1
end

-- How DPDK's rings differ from what was asked, as text, or nil.
local function peer_problem(said, cell)
    local features = tonumber(said.features)
    local wrong = {}
    for name, want in pairs { [34] = cell.layout == "packed",
        [15] = cell.mergeable, [35] = cell.in_order } do
        if bit_of(features, name) ~= want then
            wrong[#wrong + 1] = ("feature %d is %s"):format(name,
                trial.on(not want))
        end
    end
    local vector = said.rx_path:find("vectorized", 1, true) ~= nil
    if vector ~= cell.vector then
        wrong[#wrong + 1] = "its rx path is " .. said.rx_path
    end
    return wrong[1] and "DPDK negotiated otherwise: "
        .. table.concat(wrong, ", ")
end

-- Starts the peer for a cell, in memory of the kind that ours has if there is
-- enough. -> handle | nil, and what it said | text
local function start_peer(cell, plan)
    local memory = testpmd.memory(1, plan.ring)
    if cell.memory ~= "hugepages" then memory = cell.memory end
    local function digit(flag) return flag and 1 or 0 end
    local words = { packed = digit(cell.layout == "packed"),
        mrg = digit(cell.mergeable), in_order = digit(cell.in_order),
        vec = digit(cell.vector), ring = plan.ring, burst = plan.burst,
        count = plan.count, frame = plan.frame,
        huge = digit(memory == "hugepages") }
    local args = {}
    for name, v in pairs(words) do args[#args + 1] = name .. "=" .. v end
    local peer, text = trial.peer("dpdk_onecore", args)
    if not peer then return nil, text end
    local said
    said, text = peer:told(cjson.decode, peer:line())
    if said then
        said.memory = memory
        return peer, said
    end
    peer:close()
    return nil, text
end

local function ask_peer(peer, plan)
    return peer:told(cjson.decode, peer:ask(("run chunks=%d bursts=%d")
        :format(plan.chunks, solo.CHUNK_BURSTS)))
end

----------------------------------------------------------------- the task

-- All rounds, ours and the peer's in turn, into `out`.
local function run_rounds(state, peer, plan, out)
    for _ = 1, plan.rounds do
        local totals, best = solo.round(state, plan.chunks)
        if not totals or not mr.running() then return end
        out.rounds[#out.rounds + 1] = best
        for _, v in ipairs(totals) do out.chunks[#out.chunks + 1] = v end
        if peer then
            local said, text = ask_peer(peer, plan)
            if not said then
                out.peer_failed = text
                return
            end
            out.peer_rounds[#out.peer_rounds + 1] = said.best
            out.peer_lost = out.peer_lost + said.lost
        end
    end
end

-- Runs a cell on this thread. -> what was measured, a plain table
function onecore(device, driver, null, pool, cell, plan)
    local state = solo.state(driver, device, plan)
    local out = { rounds = {}, chunks = {}, peer_rounds = {}, peer_lost = 0,
        idle = {}, back = 0, wrong = 0 }
    out.idle.total, out.idle.steps = solo.idle(solo.queues(null, null), plan)
    local peer, said
    if plan.peer then
        peer, said = start_peer(cell, plan)
        out.peer, out.peer_failed = peer and said, not peer and said or nil
    end
    if solo.inject(state, pool, plan) then
        local seen = trial.traces(function()
            solo.round(state, 3)
            run_rounds(state, peer, plan, out)
        end)
        out.given_up = solo.given_up(seen)
        local back = solo.drain(state, plan)
        out.back, out.wrong = back.back, back.wrong
    end
    if peer then peer:close() end
    return out
end

----------------------------------------------------------------- one cell

local function totals_of(rounds)
    local out = {}
    for i, best in ipairs(rounds) do out[i] = best.total end
    return out
end

-- The round whose figure is the median one.
local function median_round(rounds)
    local sorted = {}
    for i, best in ipairs(rounds) do sorted[i] = best end
    table.sort(sorted, function(x, y) return x.total < y.total end)
    return sorted[math.ceil(#sorted / 2)]
end

-- Spread, least and steps of some rounds -> tsc, steps
local function summary(rounds)
    local totals = totals_of(rounds)
    local tsc = trial.spread(totals)
    tsc.min = trial.quantile(totals, 0)
    local middle, steps = median_round(rounds), {}
    for _, name in ipairs(STEPS) do steps[name] = middle[name] end
    return tsc, steps
end

local function unsteady(tsc, whose)
    local span = (tsc.hi - tsc.lo) / tsc.median
    if span <= SPREAD then return nil end
    return ("noise: the middle half of %s rounds spans %.0f %%"):format(whose,
        100 * span)
end

local function reasons_of(cell, result, plan)
    local why = {}
    local function add(text) if text then why[#why + 1] = text end end
    if result.back ~= plan.count then
        add(("%d of %d frames came back"):format(result.back, plan.count))
    end
    if result.wrong > 0 then
        add(("%d bursts out of sequence or changed"):format(result.wrong))
    end
    if result.given_up then add("not compiled: " .. result.given_up) end
    if #result.rounds ~= plan.rounds then
        add(("%d of %d rounds"):format(#result.rounds, plan.rounds))
    end
    if cell.tsc then add(unsteady(cell.tsc, "our")) end
    if not plan.peer then return why end
    if result.peer_failed then add("DPDK: " .. result.peer_failed) end
    if not result.peer then return why end
    add(peer_problem(result.peer, cell))
    if cell.memory ~= result.peer.memory then
        add(("memory differs: %s for ours, %s for DPDK; see 'moonring doctor'")
            :format(cell.memory, result.peer.memory))
    end
    if result.peer_lost > 0 then
        add(("DPDK lost %d packets"):format(result.peer_lost))
    end
    if cell.peer and cell.peer.tsc then
        add(unsteady(cell.peer.tsc, "DPDK's"))
    end
    return why
end

local function add_peer(cell, result)
    local said = result.peer
    cell.peer = { name = "dpdk", version = said.version,
        features = said.features, memory = said.memory,
        variant = { driver_rx = said.rx_path, driver_tx = said.tx_path } }
    if #result.peer_rounds == 0 then return end
    cell.peer.tsc, cell.peer.steps = summary(result.peer_rounds)
    cell.ratio = trial.ratio(totals_of(result.rounds),
        totals_of(result.peer_rounds), true)
end

local function report(cell, result, plan, problems)
    for _, name in ipairs { "frame", "burst", "count", "core" } do
        cell[name] = plan[name]
    end
    cell.placement = "one core"
    cell.idle = result.idle
    if #result.rounds > 0 then
        cell.tsc, cell.steps = summary(result.rounds)
        cell.chunks = trial.spread(result.chunks)
    end
    if result.peer then add_peer(cell, result) end
    local why = reasons_of(cell, result, plan)
    for _, text in ipairs(why) do problems[#problems + 1] = text end
    trial.judge(cell, problems)
end

-- What both sides negotiated, into the cell. -> list of problems
local function note_mode(cell, device, driver)
    local mode, problem = trial.mode(driver, cell)
    local info = assert(device:info())
    cell.negotiated = mode
    cell.variant = { driver_rx = mode.variant.rx, driver_tx = mode.variant.tx,
        device_rx = info.variant.rx, device_tx = info.variant.tx }
    cell.memory = mode.memory
    mode.variant, mode.memory = nil, nil
    return { problem }
end

-- Measures a cell; it stays without a verdict when we are to stop.
local function run_cell(cell, plan, path)
    local device, driver = solo.open(path, cell, plan)
    local pool = assert(circle.pool(plan))
    local null = assert(mr.null {})
    cell.ring = plan.ring
    local problems = note_mode(cell, device, driver)
    local task = assert(mr.task { run = "onecore", core = plan.core,
        args = { device, driver, null, pool, cell, plan } })
    if assert(mr.wait()) == "stop" then return end
    local result = assert(task:result())
    problems[#problems + 1] = trial.drops(device, driver)
    report(cell, result, plan, problems)
    assert(driver:close())
    assert(device:close())
    assert(null:close())
    pool:free()
end

------------------------------------------------------------------- report

local function figures(side)
    local out = { "-", "-", "-" }
    if side and side.tsc then
        out = { ("%.1f"):format(side.tsc.min),
            ("%.1f"):format(side.tsc.median), "" }
        local steps = {}
        for i, name in ipairs(STEPS) do
            steps[i] = ("%.0f"):format(side.steps[name])
        end
        out[3] = table.concat(steps, "/")
    end
    return unpack(out)
end

local function print_table(list, plan)
    local lines = { { "path", "min", "median", "steps" } }
    if plan.peer then
        lines[1] = { "path", "min", "median", "steps", "DPDK min", "median",
            "steps", "ratio", "of" }
    end
    for _, cell in ipairs(list) do
        local line = { cell.path, figures(cell) }
        if plan.peer then
            line[5], line[6], line[7] = figures(cell.peer)
            line[8] = cell.ratio and ("%.2f"):format(cell.ratio.median) or "-"
            line[9] = cell.ratio and ("%.2f..%.2f"):format(cell.ratio.lo,
                cell.ratio.hi) or "-"
        end
        if not cell.valid then
            line[#line + 1] = "invalid: " .. (cell.why_invalid or "not run")
        end
        lines[#lines + 1] = line
    end
    print(stats.align(lines))
end

local function print_head(plan)
    print(("Ticks a packet, round trip on CPU %d: %d-byte frames, ring %d, "
        .. "bursts of %d, %d packets circling"):format(plan.core, plan.frame,
            plan.ring, plan.burst, plan.count))
    print("Steps: " .. table.concat(STEPS, " / "):gsub("_", " "))
end

local function run_all(list, plan, dir)
    local valid, path = true, dir .. "/onecore.sock"
    for i, cell in ipairs(list) do
        trial.progress(("%d/%d  %s"):format(i, #list, cell.path))
        local ran, text = pcall(run_cell, cell, plan, path)
        os.remove(path)
        if not ran then error(text, 0) end
        valid = valid and cell.valid
        if not mr.running() then break end
    end
    trial.progress ""
    return valid
end

function main(args)
    local list = args.path
    if #list == 0 then
        for i, row in ipairs(trial.paths) do list[i] = trial.path(row.path) end
    end
    local wrong = range_error(args, list)
    if wrong then return nil, wrong, 2 end
    local plan = make_plan(args)
    if plan.peer then
        local found, text = trial.find "dpdk_onecore"
        if not found then return nil, "--peer dpdk: " .. text end
    end
    local valid = pair.with_folder(function(dir)
        return run_all(list, plan, dir)
    end)
    if not mr.running() then return nil, "stopped before the end" end
    print_head(plan)
    print_table(list, plan)
    if args.json then
        local ok, text = trial.write(args.json, list)
        if not ok then return nil, text end
    end
    if not valid then
        return nil, "some cells are invalid: their numbers are not to be "
            .. "trusted, see the reasons above"
    end
end
