-- What the benches share: spreads, ratios, reports, and programs that we
-- speak to.
local tap = require "tap"
local cjson = require "cjson"
local mr = require "moonring"
local host = require "moonring.host"
local trial = require "moonring.trial"

-- Runs lines of shell as a peer.
local function shell(text)
    return assert(trial.peer("/bin/sh", { "-c", text }))
end

tap.test("a spread is the median and the quartiles", function()
    local values = { 9, 1, 5, 3, 7 }
    local spread = trial.spread(values)
    tap.eq(spread.median, 5)
    tap.eq(spread.lo, 3)
    tap.eq(spread.hi, 7)
    tap.eq(spread.n, 5)
    tap.eq(table.concat(values, " "), "9 1 5 3 7", "the list")
    tap.eq(trial.spread({ 1, 2 }).median, 1.5)
    tap.eq(trial.spread({}).n, 0)
end)

tap.test("a ratio above 1 means that ours is faster", function()
    local rates = trial.ratio({ 20, 30, 40 }, { 10, 10, 10 })
    tap.eq(rates.median, 3)
    tap.eq(rates.lo, 2.5)
    tap.eq(rates.pairs, 3)
    local times = trial.ratio({ 50, 50 }, { 100, 200, 7 }, true)
    tap.eq(times.median, 3)
    tap.eq(times.pairs, 2)
    tap.eq(times.n, nil)
end)

tap.test("a report is a JSON array with a line for each cell", function()
    local path = os.tmpname()
    assert(trial.write(path, { { a = 1 }, { b = { 2, 3 } } }))
    local file = io.open(path)
    local text = file:read "*a"
    file:close()
    os.remove(path)
    tap.eq(text, '[\n  {"a": 1},\n  {"b": [2, 3]}\n]\n')
    tap.eq(cjson.decode(text)[2].b[2], 3)
end)

tap.test("a report that cannot be written is told of", function()
    local ok, text = trial.write("/no/such/place", {})
    tap.eq(ok, nil)
    tap.match(text, "^%-%-json /no/such/place: ")
    ok, text = trial.write("/dev/full", { { a = 1 } })
    tap.eq(ok, nil)
    tap.match(text, "^%-%-json /dev/full: ")
end)

tap.test("a cell without reasons against it is valid", function()
    local cell = {}
    tap.eq(trial.judge(cell, {}), true)
    tap.eq(cell.why_invalid, nil)
    tap.eq(trial.judge(cell, { "one", "two" }), false)
    tap.eq(cell.why_invalid, "one; two")
end)

tap.test("the ten paths have names and what they ask of a ring", function()
    local seen = {}
    for _, path in ipairs(trial.paths) do seen[path.path] = path end
    tap.eq(#trial.paths, 10)
    tap.eq(seen.split.layout, "split")
    tap.eq(seen["packed-mrg-inorder"].mergeable, true)
    tap.eq(seen["packed-mrg-inorder"].in_order, true)
    tap.eq(seen["split-vec"].in_order, false)
    tap.eq(seen["packed-vec"].in_order, true)
    tap.eq(seen["packed-vec"].vector, true)
    local path = trial.path "packed-mrg"
    tap.eq(path.mergeable, true)
    tap.ok(path ~= seen["packed-mrg"], "a table of one's own")
    local none, text = trial.path "fast"
    tap.eq(none, nil)
    tap.match(text, "no path 'fast'; paths are split, split%-mrg")
end)

tap.test("a placement is a class and a time", function()
    local cpus = host.cpus()
    tap.eq(trial.placement(cpus[1], cpus[1]).class, "one core")
    if cpus[2] then
        local two = trial.placement(cpus[1], cpus[2])
        tap.ok(two.class == "far" or two.class == "siblings"
            or two.class == "unknown", two.class)
        tap.ok(two.ns >= 0, "a time")
    end
    tap.fails("EINVAL", "not among those allowed",
        trial.placement(cpus[1], 1023))
end)

tap.test("only trials of one placement are compared", function()
    local function at(class, ns) return { class = class, ns = ns } end
    tap.ok(trial.same_placement(at("far", 120), at("far", 200)), "one class")
    tap.ok(not trial.same_placement(at("far", 120), at("siblings", 40)),
        "two classes")
    tap.ok(trial.same_placement(at("unknown", 80), at("unknown", 90)),
        "one unknown place")
    tap.ok(not trial.same_placement(at("unknown", 80), at("unknown", 400)),
        "two unknown places")
    tap.ok(not trial.same_placement(at("unknown", 0), at("unknown", 0)),
        "not measured")
end)

tap.test("a peer answers lines, also when they come in pieces", function()
    local peer = assert(trial.peer("/bin/cat", {}))
    tap.eq(peer:ask "first", "first")
    tap.eq(peer:ask(("x"):rep(40000)), ("x"):rep(40000))
    assert(peer:say "a\nb")
    tap.eq(peer:line(), "a")
    tap.eq(peer:line(), "b")
    tap.eq(peer:close(), 0)
    peer = shell "printf 'one, '; sleep 0.1; echo two"
    tap.eq(peer:line(), "one, two")
    peer:close()
end)

tap.test("a peer gets its arguments as they are", function()
    local peer = assert(trial.peer("/bin/sh", { "-c", 'echo "$#:$1:$2"', "sh",
        "a b", 7 }))
    tap.eq(peer:line(), "2:a b:7")
    peer:close()
end)

tap.test("a silent peer costs only the time given to it", function()
    local peer = assert(trial.peer("/bin/cat", {}))
    local start = mr.now()
    tap.fails("ETIMEDOUT", "cat: no answer in time", peer:line(0.05))
    tap.ok(mr.now() - start >= 0.05, "the wait")
    tap.eq(peer:ask "later", "later")
    peer:close()
end)

tap.test("a dead peer is told of with what ended it", function()
    local peer = shell "exit 7"
    tap.fails("EPIPE", "sh: the program has ended with status 7", peer:line())
    tap.fails("EPIPE", "status 7", peer:ask "anyone?")
    tap.eq(peer:pid(), nil)
    tap.eq(peer:close(), 7)
    peer = shell "kill -9 $$"
    tap.fails("EPIPE", "ended by signal 9", peer:line())
    tap.eq(peer:close(), 137)
end)

tap.test("a line without an end is an error, not a flood", function()
    local peer = shell "head -c 100000 /dev/zero; sleep 60"
    tap.fails("EMSGSIZE", "a line above 64 KiB", peer:line(10))
    peer:close()
end)

tap.test("a peer that does not read is an error, not a wait", function()
    local peer = shell "exec sleep 60"
    local ok, text, name
    for _ = 1, 1000 do
        ok, text, name = peer:say(("x"):rep(60000))
        if not ok then break end
    end
    tap.fails("EAGAIN", "does not read", ok, text, name)
    peer:close()
end)

tap.test("a program that is not there is named", function()
    tap.fails("ENOENT", "no program no_such_peer beside ours",
        trial.peer("no_such_peer", {}))
    tap.fails("ENOENT", "/no/such/peer", trial.peer("/no/such/peer", {}))
    local path = tap.file "not a program"
    tap.fails("EACCES", "", trial.peer(path, {}))
end)

local function runs(pid)
    local file = io.open(("/proc/%d/stat"):format(pid))
    local text = file and file:read "*a"
    if file then file:close() end
    return text and not text:match "%) Z"
end

tap.test("closing ends a peer, whether it likes or not", function()
    local peer = shell "trap '' TERM; while :; do sleep 1; done"
    local pid = peer:pid()
    tap.ok(runs(pid), "the process")
    tap.eq(peer:close(), 137)
    tap.ok(not runs(pid), "that it is gone")
end)

tap.test("a peer dies with us", function()
    local script = tap.file [[
        local trial = require "moonring.trial"
        function main()
            local peer = trial.peer("/bin/sleep", { 600 })
            print(peer:pid())
            io.stdout:flush()
            require("moonring.host").quit(0)
        end
    ]]
    local code, out = tap.shell(tap.program() .. " run " .. script)
    tap.eq(code, 0)
    local pid = tonumber(out)
    for _ = 1, 500 do
        if not runs(pid) then break end
        host.nap(0.01)
    end
    tap.ok(not runs(pid), "that it is gone")
end)

tap.test("a peer has none of our files", function()
    local file = io.open "/dev/null"
    local peer = shell "ls /proc/self/fd | tr '\\n' ' '; echo"
    -- ls has one of its own.
    tap.eq(peer:line(), "0 1 2 3 ")
    peer:close()
    file:close()
end)

main = tap.main
