-- What each technique brings: rings with and without it, in turn.
--
--   moonring bench ablation [--short] [--technique NAME ...] [--builds DIR]
--                           [--rounds N] [--cores N,M] [--json FILE]
--                           [--markdown FILE] [--add FILE ...]
--
--   $ tests/bench/ablation.sh /tmp/builds
--   $ moonring bench ablation --builds /tmp/builds --markdown RESULTS.md
--
-- A technique is switched off by an option, or by a program that was built
-- without it (tests/bench/ablation.sh makes those). Either side of a comparison
-- is a process of its own, which has both ends of a virtqueue: on one core, as
-- in `bench onecore`, or an end on each of two, as in `bench pvp`. They take
-- turns, off, on, off, on; both are started anew a few times, for what memory a
-- process gets makes a difference, too. A result is the median of the ratios of
-- rounds that stand together, above 1 = the technique makes it faster; spread
-- is from their lower to their upper quartile. A change that is smaller than
-- the spread is "no effect".
--
-- A cell's number counts only if the rings run in the mode that was asked for,
-- in a program that has, or lacks, what it should, every frame came back whole
-- and in sequence, nothing was dropped, the loops were compiled, both sides
-- have the same kind of memory, and the rounds are steady; on two cores also if
-- the CPUs stayed where they were. Otherwise it is marked invalid, with the
-- reason, and the exit status is 1; but not for what this machine does not have
-- (`unavailable`): huge pages, a CPU level.
--
-- In the JSON, an array with one object a cell, a cell's own figures are those
-- with the technique, `off` has those without: `tsc` (ticks a packet, round
-- trip, one core) with its median round's `steps`, `mpps`; then `ratio`,
-- `change` and `spread` (percent), `verdict`. --markdown writes the report of
-- tests/bench/RESULTS.md; --add names JSON of the other benches for it.
local cjson = require "cjson"
local mr = require "moonring"
local circle = require "moonring.circle"
local cpu = require "moonring.cpu"
local host_api = require "moonring.host"
local pair = require "moonring.pair"
local results = require "moonring.results"
local solo = require "moonring.solo"
local stats = require "moonring.stats"
local technique = require "moonring.technique"
local traffic = require "moonring.traffic"
local trial = require "moonring.trial"

-- The workers of a side on two cores.
host, guest = circle.host, circle.guest

-- Part of the median that the middle half of the rounds may span on one core.
local SPREAD = 0.25
-- Part of the time that others may have the CPUs on two.
local CPU_LOST_MAX = 0.05

------------------------------------------------------------- command line

local function parse_cores(text)
    local a, b = text:match "^(%d+),(%d+)$"
    if a then return { tonumber(a), tonumber(b) } end
    return nil, ("'%s' is not two CPUs such as 1,2"):format(text)
end

function configure(cli)
    local names = {}
    for i, row in ipairs(technique.list) do names[i] = row.name end
    cli:flag "--short":description "Few and short rounds, started once."
    cli:option "--technique":count "*":choices(names):argname "<name>"
        :description("Only this one; may be repeated. By default all, those "
            .. "of other builds if --builds has them.")
    cli:option "--builds":argname "<dir>"
        :description "Programs that tests/bench/ablation.sh made."
    cli:option "--rounds":convert(traffic.count):argname "<n>"
        :description "Rounds a start (8; with --short 3)."
    cli:option "--cores":convert(parse_cores):argname "<host,guest>"
        :description("CPUs to run on, the first alone for one core; by "
            .. "default the last two allowed.")
    cli:option "--json":argname "<file>"
        :description "Write an array with one object a cell."
    cli:option "--markdown":argname "<file>"
        :description "Write the report, with the tick list of the seeds."
    cli:option "--add":count "*":argname "<file>"
        :description "JSON of another bench for the report; repeatable."
    cli:option "--serve":argname "<plan>":description("Be one side: read "
        .. "'run' lines, answer each with JSON. For this bench itself.")
end

local function make_plan(args)
    local cpus = host_api.cpus()
    return {
        starts = args.short and 1 or 3,
        rounds = args.rounds or (args.short and 3 or 8),
        chunks = args.short and 10 or 40,
        seconds = args.short and 0.05 or 0.15,
        warm = args.short and 0.02 or 0.05,
        cores = args.cores or { cpus[#cpus], cpus[math.max(#cpus - 1, 1)] },
        builds = args.builds,
    }
end

---------------------------------------------------------- one side: a child

local function answer(object)
    print(mr.json(object))
    io.stdout:flush()
end

-- Calls round() for each line "run" and answers what it returns, until it
-- returns nil, another line comes or none.
local function answer_rounds(round)
    for line in io.lines() do
        local said = line == "run" and round()
        if not said then return end
        answer(said)
    end
end

-- The task of a side on one core. -> how it ended
function serve_solo(device, driver, pool, plan)
    local state = solo.state(driver, device, plan)
    local out = { back = 0, wrong = 0 }
    if solo.inject(state, pool, plan) then
        local seen = trial.traces(function()
            solo.round(state, 3)
            answer_rounds(function()
                local _, best = solo.round(state, plan.chunks)
                return best
            end)
        end)
        out.given_up = solo.given_up(seen)
        local back = solo.drain(state, plan)
        out.back, out.wrong = back.back, back.wrong
    end
    return out
end

-- What a side is, before its first round.
local function introduce(mode, problem)
    answer { mode = mode, problem = problem, level = cpu.level(),
        without = technique.without() }
end

local function one_core(plan, dir)
    local path = dir .. "/side.sock"
    local device, driver = solo.open(path, plan, plan)
    local pool = assert(circle.pool(plan))
    introduce(trial.mode(driver, plan))
    local task = assert(mr.task { run = "serve_solo", core = plan.cores[1],
        args = { device, driver, pool, plan } })
    assert(mr.wait())
    local out = assert(task:result())
    out.drops = trial.drops(device, driver)
    assert(driver:close())
    assert(device:close())
    os.remove(path)
    return out
end

local function two_cores(plan, dir)
    local one = assert(pair.open("ours-ours", plan, plan, dir))
    introduce(one:mode())
    local out = { back = plan.count, wrong = 0 }
    answer_rounds(function()
        local said, text = one:trial()
        if not said then return { error = text } end
        return { mpps = said.mpps, why = said.why, moved = said.moved,
            before = said.before, after = said.after,
            cpu_lost = said.cpu_lost }
    end)
    out.drops = one:drops()
    one:close()
    return out
end

local function serve(text)
    local ok, plan = pcall(cjson.decode, text)
    if not ok then return nil, "--serve: " .. plan, 2 end
    answer(pair.with_folder(function(dir)
        return (#plan.cores == 1 and one_core or two_cores)(plan, dir)
    end))
end

------------------------------------------------------ both sides: the bench

-- The plan of a side of a cell, complete.
local function side_plan(cell, side, plan)
    local out = trial.path(side.path)
    for name, value in pairs(side) do out[name] = value end
    for _, name in ipairs { "chunks", "seconds", "warm" } do
        out[name] = plan[name]
    end
    out.cores = { plan.cores[1], cell.cores == 2 and plan.cores[2] or nil }
    -- All that rings hold circles on two cores, a burst on one.
    local most, burst = circle.capacity(side.frame, side.ring, side.burst)
    out.burst = burst
    out.count = cell.cores == 2 and most or burst
    return out
end

local function program_of(side, plan)
    if not side.build then return host_api.directory() .. "/moonring" end
    return ("%s/%s/bin/moonring"):format(plan.builds, side.build)
end

-- Starts a side -> peer, what it says of itself | nil, text
local function start(side, plan)
    local words = { "bench", "ablation", "--serve", mr.json(side) }
    if side.cpu then
        table.insert(words, 1, side.cpu)
        table.insert(words, 1, "--cpu")
    end
    local peer, text = trial.peer(program_of(side, plan), words)
    if not peer then return nil, text end
    local said
    said, text = peer:told(cjson.decode, peer:line())
    if said then return peer, said end
    peer:close()
    return nil, text
end

local function finish(peer)
    local said, text = peer:told(cjson.decode, peer:ask "end")
    peer:close()
    return said or { problem = text }
end

-- What is wrong with a side by what it said of itself, into `add`.
local function check_side(row, side, said, add)
    add(said.problem)
    local want = row.kind == "build" and side.build or ""
    local has = table.concat(said.without, " ")
    if has ~= want then
        add(("%s was built without '%s', not '%s'"):format(
            side.build or "this program", has, want))
    end
end

-- What a comparison needs that this machine does not have, as text, or nil.
local function missing(row, sides, off, on)
    if row.name == "huge_pages" and on.mode.memory == off.mode.memory then
        return "no huge pages here: see 'moonring doctor'"
    end
    for side, said in pairs { [sides.off] = off, [sides.on] = on } do
        if side.cpu and said.level ~= side.cpu then
            return ("this CPU has no %s"):format(side.cpu)
        end
    end
end

-- What is wrong with a side by how it ended.
local function check_end(side, said, add)
    add(said.problem)
    if said.back and said.back ~= side.count then
        add(("%d of %d frames came back"):format(said.back, side.count))
    end
    if (said.wrong or 0) > 0 then
        add(("%d bursts out of sequence or changed"):format(said.wrong))
    end
    add(said.given_up and "not compiled: " .. said.given_up)
    add(said.drops)
end

-- Whether two rounds on two cores may be compared.
local function comparable(a, b)
    return not a.moved and not b.moved
        and trial.same_placement(a.after, b.before)
        and math.max(a.cpu_lost, b.cpu_lost) <= CPU_LOST_MAX
end

-- One round of a side -> what it says of it; raises what goes wrong
local function ask(peer, which)
    local said = assert(peer:told(cjson.decode, peer:ask "run"))
    if (said.total or said.mpps or 0) == 0 then
        error(("frames stopped circling %s: %s"):format(which,
            said.why or "none came in the whole round"), 0)
    end
    return said
end

-- Rounds of both in turn, into the lists out.off and out.on: as many pairs that
-- can be compared as were asked for, if three times as many tries give them.
local function rounds(off, on, plan, two, out)
    local got = 0
    for _ = 1, two and 3 * plan.rounds or plan.rounds do
        if got == plan.rounds or not mr.running() then break end
        local a, b = ask(off, "without it"), ask(on, "with it")
        if not two or comparable(a, b) then
            got = got + 1
            out.off[#out.off + 1], out.on[#out.on + 1] = a, b
            out.classes[b.after and b.after.class or "one core"] = true
        end
    end
end

-- Starts both sides once, and ends them.
local function run_start(row, cell, sides, plan, out, add)
    local off, off_said = start(sides.off, plan)
    if not off then error(off_said, 0) end
    local on, on_said = start(sides.on, plan)
    if not on then
        off:close()
        error(on_said, 0)
    end
    check_side(row, sides.off, off_said, add)
    check_side(row, sides.on, on_said, add)
    out.off_mode, out.mode = off_said.mode, on_said.mode
    out.missing = missing(row, sides, off_said, on_said)
    local ran, text = true, nil
    if not out.missing then
        ran, text = pcall(rounds, off, on, plan, cell.cores == 2, out)
    end
    check_end(sides.off, finish(off), add)
    check_end(sides.on, finish(on), add)
    if not ran then error(text, 0) end
end

----------------------------------------------------------------- one cell

-- A list that takes each text once, and the function that adds to it.
local function reasons()
    local list, seen = {}, {}
    return list, function(text)
        if text and not seen[text] then
            seen[text] = true
            list[#list + 1] = text
        end
    end
end

local function column(list, name)
    local out = {}
    for i, said in ipairs(list) do out[i] = said[name] end
    return out
end

-- The figures of the rounds of a side.
local function figures(list, two)
    if two then return { mpps = trial.spread(column(list, "mpps")) } end
    local totals = column(list, "total")
    local rates, steps = {}, nil
    for i, tsc in ipairs(totals) do rates[i] = mr.tsc_hz() / tsc / 1e6 end
    if list[1][solo.STEPS[1]] then
        steps = {}
        for _, name in ipairs(solo.STEPS) do
            steps[name] = trial.spread(column(list, name)).median
        end
    end
    local tsc = trial.spread(totals)
    tsc.min = trial.quantile(totals, 0)
    return { tsc = tsc, steps = steps, mpps = trial.spread(rates) }
end

local function unsteady(tsc, whose)
    local span = (tsc.hi - tsc.lo) / tsc.median
    if span <= SPREAD then return nil end
    return ("noise: the middle half of the rounds %s spans %.0f %%")
        :format(whose, 100 * span)
end

-- What the figures say: the change in percent, and whether that is one (T73).
local function judge_change(cell)
    cell.change = 100 * (cell.ratio.median - 1)
    cell.spread = 100 * (cell.ratio.hi - cell.ratio.lo)
    cell.verdict = math.abs(cell.change) < cell.spread and "no effect"
        or cell.change > 0 and "faster" or "slower"
end

local function report(cell, out, two, plan, add)
    if #out.on == 0 then return add "no rounds that can be compared" end
    local on, off = figures(out.on, two), figures(out.off, two)
    for name, value in pairs(on) do cell[name] = value end
    for name, value in pairs(off) do cell.off[name] = value end
    local key = two and "mpps" or "total"
    cell.ratio = trial.ratio(column(out.on, key), column(out.off, key),
        not two)
    judge_change(cell)
    if not two then
        add(unsteady(on.tsc, "with it"))
        add(unsteady(off.tsc, "without it"))
    end
    if #out.on < plan.starts * plan.rounds then
        add(("only %d of %d pairs of rounds count: placement changed, or "
            .. "other programs had the CPUs"):format(#out.on,
            plan.starts * plan.rounds))
    end
    for _, list in ipairs { out.on, out.off } do
        for _, said in ipairs(list) do add(said.why) end
    end
end

-- What a cell is, before it is run.
local function new_cell(row, given, sides)
    local cell = { technique = row.name, kind = row.kind, seeds = row.seeds,
        text = row.text, path = given.path, off = {},
        setup = given.cores == 1 and "one core" or "two cores",
        cores = sides.on.cores, cpu = sides.on.cpu }
    for _, name in ipairs { "layout", "mergeable", "in_order", "frame", "ring",
        "burst", "count", "splice" } do
        cell[name] = sides.on[name]
        if sides.off[name] ~= sides.on[name] then
            cell.off[name] = sides.off[name] or false
        end
    end
    cell.off.build, cell.off.cpu = sides.off.build, sides.off.cpu
    return cell
end

local function check_memory(row, out, add)
    local on, off = out.mode.memory, out.off_mode.memory
    if row.name ~= "huge_pages" and on ~= off then
        add(("memory differs: %s, without it %s"):format(on, off))
    end
end

-- What the rings of both sides ran in, and where.
local function note_mode(cell, out)
    if not out.mode then return end
    cell.off.memory, cell.memory = out.off_mode.memory, out.mode.memory
    cell.negotiated, cell.placement = out.mode, next(out.classes)
end

local function run_cell(row, given, plan)
    local sides = { off = side_plan(given, given.off, plan),
        on = side_plan(given, given.on, plan) }
    local cell = new_cell(row, given, sides)
    local out = { on = {}, off = {}, classes = {} }
    local why, add = reasons()
    for _ = 1, plan.starts do
        local ran, text = pcall(run_start, row, given, sides, plan, out, add)
        if not ran then add(text) end
        if not ran or out.missing then break end
        check_memory(row, out, add)
    end
    add(out.missing)
    cell.unavailable = out.missing ~= nil or nil
    if not out.missing then report(cell, out, given.cores == 2, plan, add) end
    note_mode(cell, out)
    if cell.placement and next(out.classes, cell.placement) then
        add "the rounds are of several placements"
    end
    trial.judge(cell, why)
    return cell
end

------------------------------------------------------------------- report

local function percent(v) return v and ("%+.1f %%"):format(v) or "-" end

-- The figure of a side that its setup is about.
local function figure(side)
    if side.tsc then return ("%.1f tsc"):format(side.tsc.median) end
    local mpps = side.mpps and side.mpps.median
    return mpps and ("%.2f Mpps"):format(mpps) or "-"
end

local function print_table(cells)
    local lines = { { "technique", "setup", "path", "off", "on", "change",
        "spread", "verdict", "" } }
    for _, cell in ipairs(cells) do
        lines[#lines + 1] = { cell.technique, cell.setup, cell.path,
            figure(cell.off), figure(cell), percent(cell.change),
            cell.spread and ("%.1f %%"):format(cell.spread) or "-",
            cell.verdict or "-",
            cell.valid and "" or "invalid: " .. cell.why_invalid }
    end
    print(stats.align(lines))
end

-- The rows to run -> list | nil, text
local function choose(args)
    local out, chosen = {}, {}
    for _, name in ipairs(args.technique) do chosen[name] = true end
    for _, row in ipairs(technique.list) do
        local asked = chosen[row.name]
        local there = row.kind == "run"
        if not there and args.builds then
            there = trial.find(program_of({ build = row.name }, args)) ~= nil
        end
        if asked and not there then
            return nil, ("--technique %s is compared with another build: "
                .. "tests/bench/ablation.sh DIR %s, then --builds DIR")
                :format(row.name, row.name)
        end
        if there and (asked or not next(chosen)) then out[#out + 1] = row end
    end
    return out
end

-- -> cells, whether all are valid
local function run_all(list, plan)
    local cells, valid = {}, true
    local two = plan.cores[1] ~= plan.cores[2]
    for _, row in ipairs(list) do
        for _, given in ipairs(row.cells) do
            if not mr.running() then return cells, false end
            if two or given.cores == 1 then
                trial.progress(("%s, %s"):format(row.name, given.path),
                    given.cores == 1 and "one core" or "two cores")
                local cell = run_cell(row, given, plan)
                cells[#cells + 1] = cell
                valid = valid and (cell.valid or cell.unavailable)
            end
        end
    end
    trial.progress ""
    return cells, valid
end

local function read_added(paths)
    local out = {}
    for _, path in ipairs(paths) do
        local file, text = io.open(path)
        if not file then return nil, "--add " .. text end
        local ok, cells = pcall(cjson.decode, file:read "*a")
        file:close()
        if not ok then return nil, ("--add %s: %s"):format(path, cells) end
        for _, cell in ipairs(cells) do out[#out + 1] = cell end
    end
    return out
end

function main(args)
    if args.serve then return serve(args.serve) end
    if args.rounds == 0 then
        return nil, "--rounds 0: at least one is needed", 2
    end
    local list, text = choose(args)
    if not list then return nil, text, 2 end
    local added
    added, text = read_added(args.add)
    if not added then return nil, text end
    local plan = make_plan(args)
    local cells, valid = run_all(list, plan)
    if not mr.running() then return nil, "stopped before the end" end
    print_table(cells)
    local ok = true
    if args.json then ok, text = trial.write(args.json, cells) end
    if ok and args.markdown then
        ok, text = results.write(args.markdown, cells, added, plan)
    end
    if not ok then return nil, text end
    if not valid then
        return nil, "some cells are invalid: their numbers are not to be "
            .. "trusted, see the reasons above"
    end
end
