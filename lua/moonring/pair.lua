-- Pairs: a host with a device and a guest with a driver on one socket, each
-- of them ours (circle.lua) or DPDK's (testpmd.lua), each on a CPU of its own.
-- A pair is open for a whole cell; in a trial of it frames circle for a while.
-- What the benches of two cores share is here, too: options, plan, reasons.
--
-- The script that uses this names the workers: host, guest = circle.host,
-- circle.guest.
--
-- A plan says, beside what circle.lua wants: cores = { host's, guest's CPU },
-- ring (entries), trials (measurements a cell), memory (for DPDK's ends).
local mr = require "moonring"
local circle = require "moonring.circle"
local host_api = require "moonring.host"
local testpmd = require "moonring.testpmd"
local traffic = require "moonring.traffic"
local trial = require "moonring.trial"

local M = {}

-- Whose device and whose driver, by name.
M.kinds = {}
for _, host in ipairs { "ours", "dpdk" } do
    for _, guest in ipairs { "ours", "dpdk" } do
        M.kinds[host .. "-" .. guest] = { host = host, guest = guest }
    end
end

-- Whose CPU is which of a plan's cores.
local HOST, GUEST = 1, 2
-- Seconds that workers get to end before their ports are closed.
local GRACE = 2
-- Longest frame that one buffer of a driver without mergeable ones takes.
M.PLAIN_MAX = 1518

-------------------------------------------------------- options and plans

local function parse_cores(text)
    local a, b = text:match "^(%d+),(%d+)$"
    if a then return { tonumber(a), tonumber(b) } end
    return nil, ("'%s' is not two CPUs such as 1,2"):format(text)
end

-- The options that such benches share. burst, trials: what their defaults are,
-- for the help.
function M.options(cli, burst, trials)
    cli:flag "--short":description "A third of a second a cell."
    cli:option "--json":argname "<file>"
        :description "Write an array with one object a cell."
    cli:option "--path":count "*":convert(trial.path):argname "<name>"
        :description("Only this path of the rings, e.g. split, packed-mrg, "
            .. "packed-vec; may be repeated.")
    cli:option "--frame":convert(traffic.count):default "64"
        :argname "<bytes>":description("Frame without check sequence, "
            .. "60..9000; above 1518 with mergeable buffers only.")
    cli:option "--ring":convert(traffic.count):default "256":argname "<n>"
        :description "Entries of each ring, 4..32768."
    cli:option "--burst":convert(traffic.count):argname "<n>"
        :description(("Packets a call, 1..256 (%s)."):format(burst))
    cli:option "--seconds":convert(traffic.number):argname "<s>"
        :description "Time measured in a trial (1; with --short 0.1)."
    cli:option "--trials --pairs":convert(traffic.count):argname "<n>"
        :description(("Trials of a cell (%s)."):format(trials))
    cli:option "--cores":convert(parse_cores):argname "<host,guest>"
        :description "CPUs of the workers; by default the last two allowed."
end

local ranges = { { "frame", 60, 9000 }, { "ring", 4, 32768 },
    { "burst", 1, 256 }, { "trials", 1, 1000 } }

local function power_of_two(n)
    while n % 2 == 0 do n = n / 2 end
    return n == 1
end

-- What is wrong with the options for these paths, as text, or nil.
function M.range_error(args, paths)
    for _, range in ipairs(ranges) do
        local name, low, high = range[1], range[2], range[3]
        local v = args[name]
        if v and (v < low or v > high) then
            return ("--%s %g: it must be a whole number from %d to %d")
                :format(name, v, low, high)
        end
    end
    for _, path in ipairs(paths) do
        if path.layout == "split" and not power_of_two(args.ring) then
            return ("--ring %d: split rings have a power of two of entries; "
                .. "choose packed ones with --path"):format(args.ring)
        end
        if args.frame > M.PLAIN_MAX and not path.mergeable then
            return ("--frame %d: path %s has buffers for at most %d bytes; "
                .. "choose mergeable ones with --path"):format(args.frame,
                path.path, M.PLAIN_MAX)
        end
    end
end

-- The plan that the options ask for; burst, trials: the defaults. CPUs are the
-- last two, which leaves the first for control.
function M.plan(args, burst, trials)
    local count
    local cpus = host_api.cpus()
    count, burst = circle.capacity(args.frame, args.ring, args.burst or burst)
    return {
        seconds = args.seconds or args.short and 0.1 or 1,
        warm = args.short and 0.05 or 0.2,
        trials = args.trials or args.short and 3 or trials,
        frame = args.frame, ring = args.ring, burst = burst, count = count,
        cores = args.cores or { cpus[#cpus], cpus[math.max(#cpus - 1, 1)] },
    }
end

-- A cell of that plan and path, with no figures yet.
function M.cell(path, plan)
    local cell = { frame = plan.frame, ring = plan.ring, burst = plan.burst,
        circling = plan.count, seconds = plan.seconds, cores = plan.cores }
    for key, value in pairs(path) do cell[key] = value end
    return cell
end

-- Calls fn(dir) with a folder for sockets, which is empty again afterwards.
-- -> what fn returns; raises what it raises
function M.with_folder(fn)
    local dir = assert(host_api.tempdir())
    local ran, result = pcall(fn, dir)
    os.remove(dir)
    if not ran then error(result, 0) end
    return result
end

-------------------------------------------------------------------- ends

local Pair = {}
Pair.__index = Pair

local function port_options(self)
    return { path = self.path, packed = self.cell.layout == "packed",
        mrg_rxbuf = self.cell.mergeable, in_order = self.cell.in_order }
end

local function dpdk(self, side, cpu)
    local ask = { path = self.path, cpu = cpu }
    for _, name in ipairs { "layout", "mergeable", "in_order", "vector" } do
        ask[name] = self.cell[name]
    end
    for _, name in ipairs { "ring", "burst", "memory" } do
        ask[name] = self.plan[name]
    end
    local peer, text, name = testpmd.open(side, ask)
    self.peers[#self.peers + 1] = peer
    return peer, text, name
end

-- How the ends are opened, by side and owner. -> true | nil, text, name
local open = { host = {}, guest = {} }

function open.host.ours(self)
    local text, name
    self.pool, text, name = circle.pool(self.plan)
    if not self.pool then return nil, text, name end
    self.vhost, text, name = mr.vhost(port_options(self))
    if not self.vhost then return nil, text, name end
    self.ports[#self.ports + 1] = self.vhost
    return true
end

function open.host.dpdk(self)
    local text, name
    self.host, text, name = dpdk(self, "host", self.plan.cores[HOST])
    return self.host and true, text, name
end

-- Our driver sends a frame on as DPDK's does: num_buffers as it came.
function open.guest.ours(self)
    local options = port_options(self)
    local text, name
    options.queue_size, options.keep_num_buffers = self.plan.ring, true
    for key, value in pairs(self.plan.options or {}) do
        options[key] = value
    end
    self.virtio, text, name = mr.virtio(options)
    if not self.virtio then return nil, text, name end
    self.ports[#self.ports + 1] = self.virtio
    return self.virtio:wait_up(circle.PATIENCE)
end

function open.guest.dpdk(self)
    local text, name
    self.guest, text, name = dpdk(self, "guest", self.plan.cores[GUEST])
    return self.guest and true, text, name
end

-- Opens a pair. cell: what is asked of the rings (a path of trial.paths); dir:
-- a folder for the socket. -> pair | nil, text, name
function M.open(kind, cell, plan, dir)
    local self = setmetatable({ kind = kind, cell = cell, plan = plan,
        path = ("%s/%s.sock"):format(dir, kind), ports = {}, peers = {},
        tasks = {} }, Pair)
    local who = M.kinds[kind]
    local ok, text, name = open.host[who.host](self)
    if ok then ok, text, name = open.guest[who.guest](self) end
    if ok then
        ok, text, name = (self.vhost or self.host):wait_up(circle.PATIENCE)
    end
    if ok then return self end
    self:close()
    return nil, text, name
end

-- Waits until our workers have ended, also when the process is to stop.
local function await_workers(self)
    local limit = mr.now() + GRACE
    for _, task in pairs(self.tasks) do
        task:stop()
        while task:state() == "running" and mr.now() < limit do
            host_api.nap(0.001)
        end
    end
end

-- Ends both; nothing of the pair stays.
function Pair:close()
    await_workers(self)
    for i = #self.peers, 1, -1 do self.peers[i]:close() end
    for i = #self.ports, 1, -1 do self.ports[i]:close() end
    os.remove(self.path)
    if self.pool then self.pool:free() end
end

-- What the rings run in, by whoever is there to ask.
-- -> table, how it differs from what was asked as text or nil
function Pair:mode()
    if self.guest then return self.guest:mode() end
    local asked = { ring = self.plan.ring }
    for _, name in ipairs { "layout", "mergeable", "in_order" } do
        asked[name] = self.cell[name]
    end
    return trial.mode(self.virtio, asked)
end

-- Kinds of memory of the ends' buffers.
function Pair:memory()
    local out = {}
    if #self.peers > 0 then out.dpdk = self.plan.memory end
    if self.virtio then
        out.ours = self.virtio:info().hugetlb and "hugepages"
            or "small pages"
    end
    return out
end

-- Drops and faults of our ends as text, or nil.
function Pair:drops()
    if #self.ports == 0 then return nil end
    return trial.drops(unpack(self.ports))
end

------------------------------------------------------------------- trials

-- Starts a worker of ours -> task | nil, text, name
local function start(self, run, side, ...)
    local task, text, name = mr.task { run = run,
        core = self.plan.cores[side], args = { ... } }
    self.tasks[side] = task
    return task, text, name
end

-- What a worker returns, waited for `seconds` | nil, text, name
local function finish(self, side, seconds)
    local task = self.tasks[side]
    local limit = mr.now() + seconds
    while task:state() == "running" and mr.now() < limit do
        if not mr.sleep(0.01) then
            return nil, "EINTR: stopped before the end", "EINTR"
        end
    end
    self.tasks[side] = nil
    return task:result(0)
end

local function start_guest(self)
    if self.guest then return self.guest:start() end
    return start(self, "guest", GUEST, self.virtio, self.plan)
end

-- -> its tally, of DPDK's only cpu_lost | nil, text, name
local function stop_guest(self)
    if self.guest then return self.guest:stop() end
    self.tasks[GUEST]:stop()
    return finish(self, GUEST, circle.PATIENCE)
end

local function measure_ours(self)
    local plan = self.plan
    local task, text, name = start(self, "host", HOST, self.vhost, self.pool,
        plan)
    if not task then return nil, text, name end
    local tally
    tally, text, name = finish(self, HOST, plan.seconds + plan.warm
        + 3 * circle.PATIENCE + 10)
    if not tally then return nil, text, name end
    return { mpps = tally.got / (tally.ticks / tally.hz) / 1e6,
        lost = tally.lost, wrong = tally.wrong, host = tally }
end

local function circulate(self)
    local ok, text, name = start_guest(self)
    if not ok then return nil, text, name end
    local out
    if self.host then
        out, text, name = self.host:measure(self.plan)
    else
        out, text, name = measure_ours(self)
    end
    if not out then return nil, text, name end
    out.guest, text, name = stop_guest(self)
    if not out.guest then return nil, text, name end
    return out
end

-- Why a trial's rate is not to be believed, as text, or nil.
local function blemish(result, count)
    if result.lost ~= 0 then
        return ("%d of %d frames lost"):format(result.lost, count)
    end
    if (result.wrong or 0) > 0 then
        return ("%d bursts out of sequence or changed"):format(result.wrong)
    end
end

-- Frames circle once. -> { mpps =, lost =, host =, guest = tallies (DPDK's have
-- only cpu_lost), before =, after = placements, moved = whether those differ,
-- cpu_lost = part of the time in which others had a CPU of ours, why = reason
-- not to believe it or nil } | nil, text, name
function Pair:trial()
    local plan = self.plan
    local before, text, name = trial.placement(unpack(plan.cores))
    if not before then return nil, text, name end
    local out
    out, text, name = circulate(self)
    if not out then return nil, text, name end
    out.before = before
    out.after, text, name = trial.placement(unpack(plan.cores))
    if not out.after then return nil, text, name end
    out.moved = not trial.same_placement(before, out.after)
    out.why = blemish(out, plan.count)
    out.cpu_lost = math.max(out.host.cpu_lost, out.guest.cpu_lost)
    return out
end

------------------------------------------------------------------- rounds

-- Class with the most entries among rounds -> class, how many
local function majority(rounds)
    local n, best = {}, nil
    for _, round in ipairs(rounds) do
        local class = round.ours.after.class
        n[class] = (n[class] or 0) + 1
        if not best or n[class] > n[best] then best = class end
    end
    return best, best and n[best] or 0
end

-- Part of the time that others may have the CPUs in a comparison: who spins
-- loses more by it than who yields.
local CPU_LOST_MAX = 0.05

local function moved(round)
    local ours, peer = round.ours, round.peer
    return ours.moved or peer and (peer.moved
        or not trial.same_placement(ours.after, peer.before)) or false
end

-- Without a peer to compare with, a rate stands beside what was lost; but no
-- rate at all says nothing.
local function disturbed(round)
    local ours, peer = round.ours, round.peer
    local lost = math.max(ours.cpu_lost, peer and peer.cpu_lost or 0)
    return lost > CPU_LOST_MAX and (peer ~= nil or ours.mpps == 0)
end

-- Whether the trials of a round were all made in one placement, and a
-- comparison with the CPUs to itself.
local function comparable(round)
    return not moved(round) and not disturbed(round)
end

-- Trials in turn: ours, peer, ours, peer, ... until `plan.trials` rounds are
-- comparable and of one placement class, or three times as many were made.
-- pairs_: list of pairs whose figures are wanted; peer: the pair they are
-- compared with, or nil. each(n): told before round n.
-- -> for each pair a list of rounds { ours =, peer = trials }
-- | nil, text, name
function M.rounds(pairs_, peer, plan, each)
    local made, enough = {}, false
    for i = 1, #pairs_ do made[i] = {} end
    for n = 1, 3 * plan.trials do
        if enough or not mr.running() then break end
        if each then each(n) end
        local theirs, text, name
        enough = true
        for i, pair in ipairs(pairs_) do
            local ours
            ours, text, name = pair:trial()
            if not ours then return nil, text, name end
            if peer and not theirs then
                theirs, text, name = peer:trial()
                if not theirs then return nil, text, name end
            end
            made[i][n] = { ours = ours, peer = theirs }
            local _, most = majority(M.good(made[i]))
            enough = enough and most >= plan.trials
        end
    end
    return made
end

-- Those of a list of rounds that are comparable.
function M.good(rounds)
    local out = {}
    for _, round in ipairs(rounds) do
        if comparable(round) then out[#out + 1] = round end
    end
    return out
end

-- The rounds that a cell's figures come from: the comparable ones of the
-- placement class that has most of them; where there are none, all of them, of
-- a cell that is not to be believed. -> list, class, how many are comparable
function M.best(rounds)
    local good = M.good(rounds)
    local class, n = majority(good)
    if n == 0 then return rounds, (majority(rounds)), 0 end
    local out = {}
    for _, round in ipairs(good) do
        if round.ours.after.class == class then out[#out + 1] = round end
    end
    return out, class, n
end

-- Spread over rounds of the numbers that fn(round) gives; nil is left out.
function M.spread(rounds, fn)
    local out = {}
    for _, round in ipairs(rounds) do out[#out + 1] = fn(round) end
    return trial.spread(out)
end

-- That there are not enough comparable rounds, as text, or nil.
local function too_few(rounds, plan)
    local _, _, count = M.best(rounds)
    if count >= plan.trials then return nil end
    local n = { moved = 0, disturbed = 0 }
    for _, round in ipairs(rounds) do
        if moved(round) then
            n.moved = n.moved + 1
        elseif disturbed(round) then
            n.disturbed = n.disturbed + 1
        end
    end
    return ("only %d of %d trials count: placement changed in %d, other "
        .. "programs had the CPUs in %d"):format(count, #rounds, n.moved,
        n.disturbed)
end

-- Reasons not to believe a list of rounds of an open pair, each once.
-- -> list of texts, table of what its rings run in
function M.reasons(pair, rounds, plan)
    local why, seen = {}, {}
    local function add(text)
        if text and not seen[text] then why[#why + 1] = text end
        seen[text or ""] = true
    end
    local function add_trial(one, whose, excused)
        if one.why then add(whose .. one.why) end
        if one.mpps == 0 and not excused then
            add(whose .. "no frame came back")
        end
    end
    for _, round in ipairs(rounds) do
        add_trial(round.ours, "", disturbed(round))
        if round.peer then add_trial(round.peer, "DPDK: ", disturbed(round)) end
    end
    local mode, problem = pair:mode()
    add(problem)
    add(pair:drops())
    add(too_few(rounds, plan))
    return why, mode
end

return M
