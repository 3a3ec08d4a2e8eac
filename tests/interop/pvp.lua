-- moonring bench pvp --peer dpdk: cells of every kind against testpmd, as they
-- come out in JSON. How fast anybody is does not matter here.
local folder = debug.getinfo(1, "S").source:match "^@(.*)/[^/]*$"
package.path = folder .. "/../lua/?.lua;" .. package.path

local tap = require "tap"
local cjson = require "cjson"
local host = require "moonring.host"
local trial = require "moonring.trial"

local program = tap.program()
local SKIPPED = 77

local function is_spread(v)
    return type(v) == "table" and v.lo <= v.median and v.median <= v.hi
end

-- Whether all that is said against a cell is that others used the machine.
local function only_others(why)
    for reason in (why .. "; "):gmatch "(.-); " do
        if not (reason:match "^only %d+ of %d+ trials count: "
            or reason:match "^memory differs: ") then
            return false
        end
    end
    return true
end

-- -> cells by "path kind". All of them are valid, unless the machine did not
-- leave us the CPUs and its memory; their figures are there even then.
local function bench(words)
    local path = os.tmpname()
    local _, _, errors = tap.shell(("%s bench pvp --peer dpdk --short --json "
        .. "%s %s"):format(program, path, words))
    local file = io.open(path)
    local text = file:read "*a"
    file:close()
    os.remove(path)
    tap.ok(text ~= "", errors)
    local cells, n = {}, 0
    for _, cell in ipairs(cjson.decode(text)) do
        tap.ok(cell.valid or only_others(cell.why_invalid),
            cell.why_invalid)
        cells[cell.path .. " " .. cell.kind] = cell
        n = n + 1
    end
    return cells, n
end

local function check(cell, pairs_)
    tap.eq(cell.peer, "dpdk")
    tap.eq(cell.lost, 0)
    tap.ok(is_spread(cell.mpps), "our rate")
    tap.ok(is_spread(cell.peer_mpps), "DPDK's rate")
    tap.ok(cell.ratio.pairs >= (cell.valid and pairs_ or 1), "pairs")
    if cell.valid then
        tap.ok(is_spread(cell.ratio) and cell.ratio.lo > 0, "a ratio")
    end
    tap.ok(cell.placement ~= "one core", "two CPUs")
    tap.ok(cell.memory.dpdk == "hugepages"
        or cell.memory.dpdk == "small pages", "a kind of memory")
end

tap.test("each kind of pair is measured beside DPDK's own", function()
    local cells, n = bench("--pairs 2 --path split-mrg --kind ours-ours "
        .. "--kind ours-dpdk --kind dpdk-ours")
    tap.eq(n, 3)
    for _, kind in ipairs { "ours-ours", "ours-dpdk", "dpdk-ours" } do
        check(tap.ok(cells["split-mrg " .. kind], kind), 2)
    end
end)

tap.test("DPDK's vector paths are those that are measured", function()
    local cells, n = bench "--pairs 1 --path split-vec --path packed-vec"
    tap.eq(n, 2)
    for _, path in ipairs { "split-vec", "packed-vec" } do
        local cell = tap.ok(cells[path .. " ours-ours"], path)
        check(cell, 1)
        tap.match(cell.peer_negotiated.rx, "vectorized")
    end
end)

tap.test("jumbo frames circle in both", function()
    local cells, n = bench("--pairs 1 --frame 9000 --path packed-mrg "
        .. "--kind ours-ours --kind ours-dpdk --kind dpdk-ours")
    tap.eq(n, 3)
    for _, cell in pairs(cells) do
        tap.eq(cell.frame, 9000)
        check(cell, 1)
    end
end)

tap.test("what DPDK cannot do is a reason, not a crash", function()
    local path = os.tmpname()
    local code = tap.shell(("%s bench pvp --peer dpdk --short --pairs 1 "
        .. "--path packed --ring 77 --json %s"):format(program, path))
    local file = io.open(path)
    local cell = cjson.decode(file:read "*a")[1]
    file:close()
    os.remove(path)
    tap.eq(code, cell.valid and 0 or 1)
    tap.ok(cell.valid or #cell.why_invalid > 0, "a reason")
end)

function main()
    if not trial.find "dpdk-testpmd" and os.getenv "CI" ~= "true" then
        print "SKIPPED: no dpdk-testpmd; scripts/setup.sh --test installs it"
        return SKIPPED
    end
    if #host.cpus() < 2 then
        print "SKIPPED: one CPU only"
        return SKIPPED
    end
    return tap.main()
end
