-- One-core maxima: driver and device as if the peer never made them wait.
--
--   moonring bench ends [--short] [--json FILE] [--path NAME]...
--                       [--frame BYTES] [--ring N] [--burst N] [--seconds S]
--                       [--trials N] [--cores HOST,GUEST]
--
--   $ moonring bench ends --short
--
-- A maximum wants the side under test on one core and as many cores for its
-- peer as it takes to saturate it (T52-T55). On two cores there is one peer, so
-- the maximum is computed: clock ticks a second over the ticks that the side
-- spends on a packet, receiving and sending it, in rounds that found packets
-- waiting. Where a side had to wait for none of its rounds, it was the
-- bottleneck and the figure is what it really did; the table tells how often
-- each side waited. Packets circle as in `bench pvp`, with the same checks.
local circle = require "moonring.circle"
local mr = require "moonring"
local pair = require "moonring.pair"
local stats = require "moonring.stats"
local trial = require "moonring.trial"

-- The workers.
host, guest = circle.host, circle.guest

-- The rows of the tick list, by layout and side.
local rows = {
    split = { driver = "T52", device = "T54" },
    packed = { driver = "T53", device = "T55" },
}
-- Whose tally is whose.
local worker = { driver = "guest", device = "host" }

function configure(cli)
    pair.options(cli, "32", "5; with --short 3")
end

-------------------------------------------------------------- one path

-- Ticks a packet of a side in a trial, nil when it never found one waiting.
local function ticks(one, side)
    local tally = one[worker[side]]
    return tally.busy_got > 0 and tally.busy / tally.busy_got or nil
end

-- Part of a side's rounds that had to wait for the peer, 0..1.
local function waiting(one, side)
    local tally = one[worker[side]]
    return 1 - tally.busy_rounds / math.max(tally.rounds, 1)
end

-- Packets that a side got in a round that found some waiting.
local function batch(one, side)
    local tally = one[worker[side]]
    return tally.busy_got / math.max(tally.busy_rounds, 1)
end

local other = { driver = "device", device = "driver" }

-- The side's cell from the rounds that count.
local function new_cell(side, path, plan, best)
    local cell = pair.cell(path, plan)
    local function spread(fn, whose)
        return pair.spread(best, function(round)
            return fn(round.ours, whose or side)
        end)
    end
    cell.side, cell.technique = side, rows[path.layout][side]
    cell.tsc = spread(ticks)
    cell.mpps = spread(function(one)
        local t = ticks(one, side)
        return t and mr.tsc_hz() / t / 1e6
    end)
    cell.loop_mpps = spread(function(one) return one.mpps end)
    cell.packets_per_round = spread(batch)
    cell.waiting = spread(waiting)
    cell.peer_waiting = spread(waiting, other[side])
    return cell
end

-- The side that waited less than its peer bounds the loop (T71).
local function name_bottleneck(cell)
    local own, peer = cell.waiting.median, cell.peer_waiting.median
    if own then
        cell.bottleneck = own <= peer and cell.side or other[cell.side]
    end
end

-- Runs one path on an open pair -> cells of both sides
local function run_open(one, path, plan)
    local made = assert(pair.rounds({ one }, nil, plan, function(n)
        trial.progress(path.path, "trial " .. n)
    end))
    local best, class = pair.best(made[1])
    local cells = {}
    for i, side in ipairs { "driver", "device" } do
        local cell = new_cell(side, path, plan, best)
        local why, mode = pair.reasons(one, made[1], plan)
        cell.placement, cell.negotiated = class, mode
        if cell.tsc.n == 0 then
            why[#why + 1] = "it never found a packet waiting"
        end
        name_bottleneck(cell)
        trial.judge(cell, why)
        cells[i] = cell
    end
    return cells
end

local function run_path(path, plan, dir)
    trial.progress(path.path)
    local one = assert(pair.open("ours-ours", path, plan, dir))
    local ran, cells = pcall(run_open, one, path, plan)
    one:close()
    if not ran then error(cells, 0) end
    return cells
end

------------------------------------------------------------------ report

local function number(format, v) return v and format:format(v) or "-" end

local function percent(v) return v and ("%.0f %%"):format(100 * v) or "-" end

local columns = { "row", "side", "path", "Mpps", "lo", "hi", "cycles/packet",
    "packets/round", "waits", "peer waits", "bottleneck", "placement", "" }

local function row_of(cell)
    local mpps = cell.valid and cell.mpps or {}
    return { cell.technique, cell.side, cell.path,
        cell.valid and ("%.3f"):format(mpps.median) or "invalid",
        number("%.3f", mpps.lo), number("%.3f", mpps.hi),
        number("%.0f", cell.tsc.median),
        number("%.1f", cell.packets_per_round.median),
        percent(cell.waiting.median), percent(cell.peer_waiting.median),
        cell.bottleneck or "-", cell.placement or "-",
        cell.why_invalid or "" }
end

local function print_table(done)
    local lines = { columns }
    for _, cell in ipairs(done) do lines[#lines + 1] = row_of(cell) end
    print(stats.align(lines))
end

local function default_paths()
    return { trial.path "split", trial.path "packed" }
end

function main(args)
    local paths = #args.path > 0 and args.path or default_paths()
    local wrong = pair.range_error(args, paths)
    if wrong then return nil, wrong, 2 end
    local plan = pair.plan(args, 32, 5)
    if plan.cores[1] == plan.cores[2] then
        return nil, "a maximum wants two CPUs, one for each end", 2
    end
    local done, valid = {}, true
    pair.with_folder(function(dir)
        for _, path in ipairs(paths) do
            for _, cell in ipairs(run_path(path, plan, dir)) do
                done[#done + 1] = cell
                valid = valid and cell.valid
            end
            if not mr.running() then break end
        end
    end)
    trial.progress ""
    if not mr.running() then return nil, "stopped before the end" end
    print_table(done)
    if args.json then
        local ok, text = trial.write(args.json, done)
        if not ok then return nil, text end
    end
    if not valid then
        return nil, "some cells are invalid: their numbers are not to be "
            .. "trusted, see the reasons above"
    end
end
