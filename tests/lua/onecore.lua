-- moonring bench onecore: the table, the JSON, refusals; with DPDK's program
-- beside it ($MOONRING_PEER = dpdk) also the comparison.
local tap = require "tap"
local cjson = require "cjson"
local mr = require "moonring"

local program = tap.program()
local STEPS = { "driver_rx", "driver_tx", "device_rx", "device_tx" }

-- Whether noise of the machine is all that speaks against a cell.
local function only_noise(cell)
    for reason in (cell.why_invalid .. "; "):gmatch "(.-); " do
        if not reason:match "^noise: " then return false end
    end
    return true
end

local function bench(words)
    local path = os.tmpname()
    local code, out, text = tap.shell(("%s bench onecore --short --json %s %s")
        :format(program, path, words))
    local file = io.open(path)
    local json = file:read "*a"
    file:close()
    os.remove(path)
    local cells = cjson.decode(json)
    local valid = true
    for _, cell in ipairs(cells) do
        valid = valid and cell.valid
        tap.ok(cell.valid or only_noise(cell), cell.path .. ": "
            .. tostring(cell.why_invalid))
    end
    tap.eq(code, valid and 0 or 1, text .. out)
    return cells, out
end

local function check_side(side)
    local tsc = side.tsc
    tap.ok(tsc.min > 1 and tsc.min <= tsc.lo and tsc.lo <= tsc.median
        and tsc.median <= tsc.hi, "an order of the figures")
    tap.eq(tsc.n, 3)
    local sum = 0
    for _, name in ipairs(STEPS) do
        tap.ok(side.steps[name] > 0, name)
        sum = sum + side.steps[name]
    end
    tap.ok(sum > tsc.min / 2, "that the steps are most of it")
end

local function check(cell, given)
    check_side(cell)
    for name, want in pairs(given) do tap.eq(cell[name], want, name) end
    for _, name in ipairs { "layout", "mergeable", "in_order", "ring" } do
        tap.eq(cell.negotiated[name], cell[name], name)
    end
    for _, name in ipairs(STEPS) do
        tap.match(cell.variant[name], "^" .. cell.layout)
    end
    tap.eq(cell.placement, "one core")
    tap.ok(cell.idle.total > 1 and cell.idle.steps > 1, "a cost of the loop")
end

local function all_paths(given, words)
    local cells, out = bench(words or "")
    local seen = {}
    for _, cell in ipairs(cells) do
        check(cell, given)
        tap.eq(seen[cell.path], nil, cell.path)
        seen[cell.path] = true
    end
    tap.eq(#cells, 10)
    return cells, out
end

tap.test("--short has one cell for each of the ten paths", function()
    local _, out = all_paths { ring = 256, burst = 32, frame = 64, count = 32 }
    tap.match(out, "path +min +median +steps")
    tap.match(out, "\nsplit%-vec +%d+%.%d +%d+%.%d +%d+/%d+/%d+/%d+")
end)

tap.test("odd rings, bursts that do not divide them and more frames than a "
    .. "burst hold, too", function()
    local cells = bench("--path packed --path packed-mrg-inorder --ring 77 "
        .. "--burst 7 --count 50 --frame 1514")
    for _, cell in ipairs(cells) do
        check(cell, { ring = 77, burst = 7, frame = 1514, count = 50 })
    end
    tap.eq(#cells, 2)
end)

tap.test("frames of several buffers hold, too", function()
    local cells = bench "--path split-mrg --path packed-mrg --frame 9000"
    for _, cell in ipairs(cells) do check(cell, { frame = 9000 }) end
    tap.eq(#cells, 2)
end)

tap.test("what cannot be measured is refused as wrong usage", function()
    for words, pattern in pairs {
        ["--ring 77"] = "split rings have a power of two",
        ["--ring 16"] = "32 frames of 64 bytes cannot circle in rings of 16",
        ["--frame 9000 --path packed"] = "packed has buffers for at most 1518",
        ["--burst 0"] = "%-%-burst 0: it must be",
        ["--frame 59"] = "%-%-frame 59",
        ["--path nothing"] = "there is no path 'nothing'",
        ["--peer nobody"] = "argument for option '%-%-peer'",
    } do
        local code, _, text = tap.shell(program .. " bench onecore " .. words)
        tap.eq(code, 2, words)
        tap.match(text, pattern)
    end
end)

tap.test("it is listed", function()
    local _, out = tap.shell(program .. " list bench")
    tap.match(out, "onecore +Both ends of a virtqueue on one core")
end)

if os.getenv "MOONRING_PEER" == "dpdk" then
    tap.test("DPDK does each path's work beside ours", function()
        local cells, out = all_paths({}, "--peer dpdk")
        local large = bench "--path packed-mrg --frame 9000 --peer dpdk"
        for _, cell in ipairs { large[1], unpack(cells) } do
            local peer, ratio = cell.peer, cell.ratio
            check_side(peer)
            tap.eq(peer.variant.driver_rx:find("vectorized", 1, true) ~= nil,
                cell.vector, cell.path .. " is a vector path")
            tap.match(peer.version, "^DPDK %d")
            tap.eq(ratio.pairs, 3)
            tap.ok(ratio.lo > 0 and ratio.lo <= ratio.median
                and ratio.median <= ratio.hi, "an order of the ratios")
        end
        tap.match(out, "DPDK min +median +steps +ratio +of")
    end)

    tap.test("a cell that DPDK cannot do is invalid and says why", function()
        local path = os.tmpname()
        local code = tap.shell(("%s bench onecore --short --json %s --path "
            .. "packed --ring 5 --burst 2 --peer dpdk"):format(program,
                path))
        local file = io.open(path)
        local cell = cjson.decode(file:read "*a")[1]
        file:close()
        os.remove(path)
        tap.eq(code, 1)
        tap.eq(cell.valid, false)
        tap.match(cell.why_invalid, "DPDK: ")
        tap.ok(mr.json(cell.tsc), "our own figure")
    end)
end

main = tap.main
