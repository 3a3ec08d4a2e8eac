-- The PVP loop: packets circle between our device side and our driver side.
--
--   moonring bench pvp [--short] [--json FILE] [--path NAME]...
--                      [--layout split|packed] [--frame BYTES] [--ring N]
--                      [--burst N] [--seconds S] [--trials N]
--                      [--cores HOST,GUEST] [--peer dpdk] [--kind KIND]...
--
--   $ moonring bench pvp --short
--   $ moonring bench pvp --peer dpdk --path packed --pairs 10
--
-- One process, two workers, a real vhost-user socket between them. The host
-- worker has the vhost port: it sends numbered frames to the guest worker,
-- which has the virtio port, swaps the MAC addresses and sends them back; what
-- the host receives it sends again. So a fixed number of frames, one ring
-- full, circles and every frame crosses a ring twice. A rate is frames received
-- by the host per second; cycles per packet are those of the dearer worker in
-- rounds that found frames waiting.
--
-- With --peer dpdk every trial is followed by one of DPDK at both ends
-- (testpmd: net_vhost forwarding io, net_virtio_user forwarding macswap) with
-- the same rings, frames and CPUs, and the ratios are taken trial by trial.
-- --kind says whose device and whose driver are measured against that.
--
-- Each trial looks before and after at how far the two CPUs are from each
-- other (placement) and does not count when that changed; a cell's trials are
-- all of one placement. "CPU lost" is the part of the time in which other
-- programs had a worker's CPU; a comparison with DPDK counts only while that
-- is little, for it hits those hardest who never yield. A cell's number counts
-- only if the rings run in the mode that was asked for, no frame is lost when
-- everything has come to rest, none came out of order or changed, and no
-- counter tells of a drop or a fault. Otherwise the cell is marked invalid,
-- with the reason, and the exit status is 1.
local mr = require "moonring"
local circle = require "moonring.circle"
local pair = require "moonring.pair"
local stats = require "moonring.stats"
local testpmd = require "moonring.testpmd"
local trial = require "moonring.trial"

-- The workers.
host, guest = circle.host, circle.guest

local BASELINE = "dpdk-dpdk"

function configure(cli)
    pair.options(cli, "64; with --peer 32, testpmd's own default",
        "5; with --peer 10; with --short 3")
    cli:option "--layout":choices { "split", "packed" }
        :description "Only this ring layout."
    cli:option "--peer":choices { "dpdk" }
        :description "Measure beside testpmd, trial by trial."
    cli:option "--kind":count "*"
        :choices { "ours-ours", "ours-dpdk", "dpdk-ours" }
        :description("Whose device and whose driver are compared with DPDK's "
            .. "(ours-ours); may be repeated.")
end

-------------------------------------------------------------------- plan

-- The paths to be measured: those asked for, or all that differ for whoever
-- takes part (ours choose vector instructions by themselves).
local function choose_paths(args)
    local given = #args.path > 0
    local out = {}
    for _, path in ipairs(given and args.path or trial.paths) do
        local wanted = given or (args.peer or not path.vector)
            and (args.frame <= pair.PLAIN_MAX or path.mergeable)
        if wanted and (not args.layout or args.layout == path.layout) then
            out[#out + 1] = path
        end
    end
    return out
end

local function usage_error(args, paths)
    if #args.kind > 0 and not args.peer then
        return "--kind says what is compared with DPDK: add --peer dpdk"
    end
    if not paths[1] then return "no --path of that --layout" end
    return pair.range_error(args, paths)
end

-- Programs of DPDK that are there at a time.
local function programs(kinds)
    local n = 2
    for _, kind in ipairs(kinds) do
        local who = pair.kinds[kind]
        n = n + (who.host == "dpdk" and 1 or 0)
            + (who.guest == "dpdk" and 1 or 0)
    end
    return n
end

local function make_plan(args)
    local plan = pair.plan(args, args.peer and 32 or 64, args.peer and 10 or 5)
    plan.kinds = #args.kind > 0 and args.kind or { "ours-ours" }
    plan.peer = args.peer
    plan.memory = args.peer
        and testpmd.memory(programs(plan.kinds), args.ring)
    return plan
end

------------------------------------------------------------------- cells

local function new_cell(path, kind, plan)
    local cell = pair.cell(path, plan)
    cell.kind, cell.peer = kind, plan.peer
    return cell
end

-- Cycles of our dearer worker per packet in a trial, or nil.
local function dearer(one)
    local most
    for _, side in ipairs { "host", "guest" } do
        local tally = one[side]
        if (tally.busy_got or 0) > 0 then
            most = math.max(most or 0, tally.busy / tally.busy_got)
        end
    end
    return most
end

local function our_rate(round) return round.ours.mpps end
local function peer_rate(round) return round.peer.mpps end

-- The numbers of a cell from the rounds that count.
local function fill_in(cell, best)
    cell.mpps = pair.spread(best, our_rate)
    cell.cycles_per_packet = pair.spread(best, function(round)
        return dearer(round.ours)
    end).median
    cell.cpu_lost = pair.spread(best, function(round)
        return round.ours.cpu_lost
    end)
    cell.round_trip_ns = pair.spread(best, function(round)
        return round.ours.after.ns
    end)
    if not cell.peer then return end
    local ours, theirs = {}, {}
    for i, round in ipairs(best) do
        ours[i], theirs[i] = our_rate(round), peer_rate(round)
    end
    cell.peer_mpps = trial.spread(theirs)
    cell.ratio = trial.ratio(ours, theirs)
end

local function note_memory(cell, one, baseline, why)
    cell.memory = one:memory()
    if not baseline then return end
    cell.memory.dpdk = cell.memory.dpdk or baseline:memory().dpdk
    if cell.memory.ours and cell.memory.ours ~= cell.memory.dpdk then
        why[#why + 1] = ("memory differs: %s for ours, %s for DPDK (see "
            .. "'moonring doctor')"):format(cell.memory.ours,
            cell.memory.dpdk)
    end
end

-- What the open pair of a cell and its rounds tell.
local function judge(cell, one, baseline, rounds, plan)
    local why, best
    why, cell.negotiated = pair.reasons(one, rounds, plan)
    if baseline then
        local problem
        cell.peer_negotiated, problem = baseline:mode()
        why[#why + 1] = problem and "DPDK: " .. problem
    end
    note_memory(cell, one, baseline, why)
    best, cell.placement = pair.best(rounds)
    cell.lost = 0
    for _, round in ipairs(rounds) do
        cell.lost = cell.lost + round.ours.lost
    end
    fill_in(cell, best)
    trial.judge(cell, why)
end

-- Whether a failure is one of a control call; raises it when it is not.
local function told(text)
    if not tostring(text):match "^E%u+: " then error(text, 0) end
    return text
end

-- Opens the pairs of a path -> list, baseline | nil, text
local function open_pairs(open, path, plan, dir)
    local wanted = { unpack(plan.kinds) }
    if plan.peer then wanted[#wanted + 1] = BASELINE end
    for i, kind in ipairs(wanted) do
        local one, text = pair.open(kind, path, plan, dir)
        if not one then return nil, kind .. ": " .. told(text) end
        open[i] = one
    end
    return true
end

local function run_open(cells, open, plan, name)
    local baseline = open[#cells + 1]
    local made, text = pair.rounds({ unpack(open, 1, #cells) }, baseline, plan,
        function(n)
            trial.progress(name, "trial " .. n)
        end)
    if not made then return nil, told(text) end
    for i, cell in ipairs(cells) do
        judge(cell, open[i], baseline, made[i], plan)
    end
    return true
end

-- Runs all kinds of one path -> list of cells
local function run_path(path, plan, dir, name)
    local cells, open = {}, {}
    for i, kind in ipairs(plan.kinds) do
        cells[i] = new_cell(path, kind, plan)
    end
    local ran, ok, text = pcall(function()
        local opened, why = open_pairs(open, path, plan, dir)
        if not opened then return nil, why end
        return run_open(cells, open, plan, name)
    end)
    for _, one in pairs(open) do one:close() end
    if not ran then error(ok, 0) end
    for _, cell in ipairs(ok and {} or cells) do trial.judge(cell, { text }) end
    return cells
end

------------------------------------------------------------------- report

local function number(format, v)
    return v and format:format(v) or "-"
end

local function percent(v) return number("%.0f %%", v and 100 * v) end

local plain_columns = { "layout", "mergeable", "in-order", "Mpps", "lo", "hi",
    "cycles/packet", "lost", "placement", "CPU lost", "" }

local function plain_row(cell)
    local mpps = cell.valid and cell.mpps or {}
    return { cell.layout, trial.on(cell.mergeable), trial.on(cell.in_order),
        cell.valid and ("%.3f"):format(mpps.median) or "invalid",
        number("%.3f", mpps.lo), number("%.3f", mpps.hi),
        number("%.0f", cell.valid and cell.cycles_per_packet),
        number("%d", cell.lost), cell.placement or "-",
        percent(cell.cpu_lost and cell.cpu_lost.median),
        cell.why_invalid or "" }
end

local peer_columns = { "path", "device-driver", "Mpps", "DPDK", "ratio", "lo",
    "hi", "pairs", "placement", "" }

local function peer_row(cell)
    local ratio = cell.valid and cell.ratio or {}
    return { cell.path, cell.kind,
        cell.valid and ("%.3f"):format(cell.mpps.median) or "invalid",
        number("%.3f", cell.valid and cell.peer_mpps.median),
        number("%.2f", ratio.median), number("%.2f", ratio.lo),
        number("%.2f", ratio.hi), number("%d", ratio.pairs),
        cell.placement or "-", cell.why_invalid or "" }
end

local function print_table(done, plan)
    local lines = { plan.peer and peer_columns or plain_columns }
    for _, cell in ipairs(done) do
        lines[#lines + 1] = (plan.peer and peer_row or plain_row)(cell)
    end
    print(stats.align(lines))
end

local function advice(plan)
    if plan.cores[1] == plan.cores[2] then
        return "Both workers shared one core; with two it is a different "
            .. "number. 'moonring doctor' tells what else costs."
    end
    if plan.peer then
        return ("Memory of DPDK's ends: %s. The same pairs on one core: "
            .. "moonring bench onecore --peer dpdk"):format(plan.memory)
    end
    return "Try next: moonring bench pvp --ring 1024 --frame 1514, or "
        .. "'moonring doctor' for what this machine could do better."
end

local function run_all(paths, plan, dir)
    local done = {}
    for i, path in ipairs(paths) do
        local name = ("%d/%d  %s"):format(i, #paths, path.path)
        trial.progress(name)
        for _, cell in ipairs(run_path(path, plan, dir, name)) do
            done[#done + 1] = cell
        end
        if not mr.running() then break end
    end
    trial.progress ""
    return done
end

local function all_valid(done)
    for _, cell in ipairs(done) do
        if not cell.valid then return false end
    end
    return true
end

function main(args)
    local paths = choose_paths(args)
    local wrong = usage_error(args, paths)
    if wrong then return nil, wrong, 2 end
    local plan = make_plan(args)
    if plan.peer and plan.cores[1] == plan.cores[2] then
        return nil, "--peer wants two CPUs, one for each end", 2
    end
    local done = pair.with_folder(function(dir)
        return run_all(paths, plan, dir)
    end)
    if not mr.running() then return nil, "stopped before the end" end
    print(("%d-byte frames, ring %d, bursts of %d, %d trials of %g s a cell, "
        .. "CPUs %d and %d"):format(plan.frame, plan.ring, plan.burst,
            plan.trials, plan.seconds, plan.cores[1], plan.cores[2]))
    print_table(done, plan)
    print(advice(plan))
    if args.json then
        local ok, text = trial.write(args.json, done)
        if not ok then return nil, text end
    end
    if not all_valid(done) then
        return nil, "some cells are invalid: their numbers are not to be "
            .. "trusted, see the reasons above"
    end
end
