-- Trials: what the benches share. Numbers with their spread, ratios pair by
-- pair, the report, what makes a cell invalid, and other programs to compare
-- with.
--
-- A cell is a table that becomes one JSON object; `valid` tells whether its
-- numbers may be believed and `why_invalid` why not.
local ffi = require "moonring.ffi"
local err = require "moonring.error"
local mr = require "moonring"
local host = require "moonring.host"

local C = ffi.C
local M = {}

------------------------------------------------------------------- numbers

-- The value below which the part `q` (0..1) of the numbers lies, between two
-- of them in proportion. values: a list, not empty; it stays as it is.
function M.quantile(values, q)
    local sorted = {}
    for i, v in ipairs(values) do sorted[i] = v end
    table.sort(sorted)
    local at = 1 + (#sorted - 1) * q
    local low = math.floor(at)
    local part = at - low
    if part == 0 then return sorted[low] end
    return sorted[low] * (1 - part) + sorted[low + 1] * part
end

-- values: a list of numbers -> { median =, lo =, hi =, n = }, lo and hi being
-- the quartiles; n = 0 alone when the list is empty.
function M.spread(values)
    if #values == 0 then return { n = 0 } end
    return { median = M.quantile(values, 0.5), lo = M.quantile(values, 0.25),
        hi = M.quantile(values, 0.75), n = #values }
end

-- Two lists of figures that were taken in turn, pair by pair -> spread of the
-- ratios as { median =, lo =, hi =, pairs = }. Above 1 = ours is faster;
-- smaller_is_better: the figures are times, not rates.
function M.ratio(ours, theirs, smaller_is_better)
    local out = {}
    for i = 1, math.min(#ours, #theirs) do
        local a, b = ours[i], theirs[i]
        out[i] = smaller_is_better and b / a or a / b
    end
    local spread = M.spread(out)
    spread.n, spread.pairs = nil, #out
    return spread
end

-------------------------------------------------------------------- report

-- "on" or "off".
function M.on(flag) return flag and "on" or "off" end

-- Tells on stderr what is being done; on a terminal the next text replaces
-- it. "" ends that. detail: which part of it, for terminals only.
function M.progress(text, detail)
    if host.terminal(2) then
        io.stderr:write("\r\27[K", text, detail and "  " .. detail or "")
    elseif text ~= "" and not detail then
        io.stderr:write(text, "\n")
    end
    io.stderr:flush()
end

-- Writes the cells as a JSON array, one object a line -> true | nil, text
function M.write(path, cells)
    local file, text = io.open(path, "w")
    if not file then return nil, "--json " .. text end
    local out = {}
    for i, cell in ipairs(cells) do out[i] = "  " .. mr.json(cell) end
    local ok
    ok, text = file:write("[\n", table.concat(out, ",\n"), "\n]\n")
    local closed, reason = file:close()
    if ok and closed then return true end
    return nil, ("--json %s: %s"):format(path, text or reason)
end

----------------------------------------------------------- paths and places

-- The paths of a ring, one row each: every layout with mergeable buffers and
-- in-order use off and on, and the two that DPDK's driver serves with vector
-- instructions.
M.paths = {}
for _, layout in ipairs { "split", "packed" } do
    for _, row in ipairs { { "" }, { "-mrg", "mergeable" },
        { "-inorder", "in_order" },
        { "-mrg-inorder", "mergeable", "in_order" },
        { "-vec", "vector", layout == "packed" and "in_order" or nil } } do
        local path = { path = layout .. row[1], layout = layout,
            mergeable = false, in_order = false, vector = false }
        for i = 2, #row do path[row[i]] = true end
        M.paths[#M.paths + 1] = path
    end
end

-- The row of that name -> a fresh table | nil, text
function M.path(name)
    local names = {}
    for i, row in ipairs(M.paths) do
        names[i] = row.path
        if row.path == name then
            local copy = {}
            for key, value in pairs(row) do copy[key] = value end
            return copy
        end
    end
    return nil, ("there is no path '%s'; paths are %s"):format(name,
        table.concat(names, ", "))
end

-- How far CPUs a and b are from each other now, in a few milliseconds.
-- -> { class = "far" | "siblings" | "one core" | "unknown", ns = round trip of
-- a cache line, 0 when it could not be measured } | nil, text, name
function M.placement(a, b)
    local probe = ffi.new "struct mr_probe"
    local rc = C.mr_probe_cores(a, b, probe)
    if rc < 0 then return err.control(rc) end
    return { class = ffi.string(C.mr_placement_name(probe.placement)),
        ns = probe.ns }
end

-- Scatter of two probes of the same CPUs where no class tells them apart.
local SCATTER = 1.5

-- Whether figures taken in placements p and q may be compared.
function M.same_placement(p, q)
    if p.class ~= q.class then return false end
    if p.class ~= "unknown" then return true end
    local low, high = math.min(p.ns, q.ns), math.max(p.ns, q.ns)
    return low > 0 and high / low < SCATTER
end

-- Seconds that a thread was ready to run and had no CPU, so far. folder: its
-- own in /proc; nil = the calling thread's. nil where the kernel does not tell.
function M.waited(folder)
    local file = io.open((folder or "/proc/thread-self") .. "/schedstat")
    if not file then return nil end
    local ns = file:read("*a"):match "^%d+ (%d+)"
    file:close()
    return ns and tonumber(ns) / 1e9
end

------------------------------------------------------------------ validity

-- Marks a cell by the list of reasons not to believe it (none = valid).
-- -> whether it is valid
function M.judge(cell, reasons)
    cell.valid = #reasons == 0
    cell.why_invalid = reasons[1] and table.concat(reasons, "; ")
    return cell.valid
end

-- What the rings of a port run in (memory: of a driver's port only) -> table
-- for the report, and as text how that differs from what was asked, or nil.
-- asked: layout, mergeable, in_order, ring; what is nil does not matter.
function M.mode(port, asked)
    local info = assert(port:info())
    local mode = { layout = info.packed and "packed" or "split",
        mergeable = info.mergeable, in_order = info.in_order,
        event_idx = info.event_idx, indirect = info.indirect,
        version_1 = info.version_1, ring = info.size,
        memory = info.hugetlb and "hugepages" or "small pages",
        variant = info.variant,
        features = ("0x%x"):format(tonumber(info.features)) }
    local wrong = {}
    for _, name in ipairs { "layout", "mergeable", "in_order", "ring" } do
        if asked[name] ~= nil and mode[name] ~= asked[name] then
            wrong[#wrong + 1] = ("%s is %s"):format(name, tostring(mode[name]))
        end
    end
    return mode, wrong[1] and "negotiated otherwise: "
        .. table.concat(wrong, ", ")
end

-- Any drop or fault on the ports as text, nil when there is none.
function M.drops(...)
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

-- Traces that the compiler gave up without harm: it left a loop, met an inner
-- one, or began in a function that returns to the loop, and starts again there
-- (lj_traceerr.h: LLEAVE, LINNER, LUNROLL, NYIRETL). Which counter gets hot
-- first is a matter of addresses, so these come and go.
local harmless = { [8] = true, [9] = true, [10] = true, [16] = true }

-- Runs fn(...) with the compiler watched from a clean start; once at a time.
-- -> { made = traces compiled, aborts = list of texts: what was given up, by
-- the line it is in, by = the last of them of each function }, what fn returned
function M.traces(fn, ...)
    local seen = { made = 0, aborts = {}, by = {} }
    local function listen(what, number, func, _, code)
        if what == "stop" then seen.made = seen.made + 1 end
        if what == "abort" and not harmless[code] then
            local info = func and debug.getinfo(func, "S")
            local text = ("trace %s: %s line %s, %s"):format(tostring(number),
                info and info.short_src or "?",
                info and info.linedefined or "?", tostring(code))
            seen.aborts[#seen.aborts + 1] = text
            seen.by[func or "?"] = text
        end
    end
    local function stop(ok, ...)
        jit.attach(listen)
        if not ok then error((...), 0) end
        return seen, ...
    end
    jit.flush()
    jit.attach(listen, "trace")
    return stop(pcall(fn, ...))
end

------------------------------------------------------------ other programs

local Peer = {}
Peer.__index = Peer

-- Seconds that an answer may take unless the caller says otherwise.
local PATIENCE = 60
-- Longest look for an answer before we see to our own affairs again.
local STEP = 0.02

-- Path of a program that belongs to ours or is installed: beside ours, in
-- ../libexec/moonring, on the PATH; a name with a slash is a path.
-- -> path | nil, text, name
function M.find(program)
    if program:find "/" then
        local ok, text, name = host.may(program, "x")
        if ok then return program end
        return nil, text, name
    end
    local own = host.directory()
    local places = { own, own .. "/../libexec/moonring" }
    for place in (os.getenv "PATH" or ""):gmatch "[^:]+" do
        places[#places + 1] = place
    end
    for _, place in ipairs(places) do
        local path = place .. "/" .. program
        if host.may(path, "x") then return path end
    end
    return nil, ("ENOENT: there is no program %s beside ours (%s), in "
        .. "../libexec/moonring or on the PATH; build it (the tests' build "
        .. "makes dpdk_onecore) or install it (testpmd: package dpdk-dev)")
        :format(program, own), "ENOENT"
end

-- Starts a program that is spoken to in lines. args: list of its arguments,
-- strings or numbers. Its standard error is ours, its CPUs those of the
-- calling thread, with which it dies.
-- -> handle | nil, text, name
function M.peer(program, args)
    local path, text, name = M.find(program)
    if not path then return nil, text, name end
    local words = {}
    for i, word in ipairs(args or {}) do words[i] = tostring(word) end
    local child
    child, text, name = host.spawn(path, words)
    if not child then return nil, text, name end
    return setmetatable({ child = child, program = program }, Peer)
end

-- Says one line. -> true | nil, text, name
function Peer:say(line)
    return self.child:write(line .. "\n")
end

-- The next line that it says, waited for `seconds` (60).
-- -> line | nil, text, name: ETIMEDOUT, EPIPE (it ended), EINTR (we are to
-- stop)
function Peer:line(seconds)
    local limit = mr.now() + (seconds or PATIENCE)
    while true do
        local left = limit - mr.now()
        local line, text, name = self.child:read(math.max(0,
            math.min(left, STEP)))
        if line or name ~= "ETIMEDOUT" or left <= 0 then
            return line, text, name
        end
        if not mr.running() then
            return nil, ("EINTR: %s: no answer before our own end")
                :format(self.program), "EINTR"
        end
    end
end

-- Says a line and waits `seconds` (60) for the one that answers it.
-- -> line | nil, text, name
function Peer:ask(line, seconds)
    local ok, text, name = self:say(line)
    if not ok then return nil, text, name end
    return self:line(seconds)
end

-- What an answer says that is an object as JSON, or why there is none. decode:
-- of a JSON library; line, text: as line and ask give them.
-- -> table | nil, text
function Peer:told(decode, line, text)
    if not line then return nil, text end
    local ok, said = pcall(decode, line)
    if not ok or type(said) ~= "table" then
        return nil, ("%s says: %s"):format(self.program, line)
    end
    if said.error then return nil, said.error end
    return said
end

-- Its process number while it runs, else nil.
function Peer:pid() return self.child:pid() end

-- Ends its input and, when that does not end it, the program itself.
-- -> its exit status, 128 + the signal that ended it
function Peer:close() return self.child:close() end

return M
