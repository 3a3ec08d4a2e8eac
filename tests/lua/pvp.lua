-- moonring bench pvp: the table, the JSON, one core, refusals.
local tap = require "tap"
local cjson = require "cjson"
local host = require "moonring.host"

local program = tap.program()

-- Runs the bench -> cells, stdout. It fails when a cell is invalid, and only
-- then. What becomes of the CPUs meanwhile is the machine's doing, no fault.
local function bench(words, before)
    local path = os.tmpname()
    local code, out, text = tap.shell(("%s %s bench pvp --json %s %s")
        :format(before or "", program, path, words))
    local file = io.open(path)
    local json = file:read "*a"
    file:close()
    os.remove(path)
    local cells, valid = cjson.decode(json), true
    for _, cell in ipairs(cells) do
        valid = valid and cell.valid
        tap.ok(cell.valid or cell.why_invalid:match
            "^only %d+ of %d+ trials count: [^;]+$", cell.why_invalid)
    end
    tap.eq(code, valid and 0 or 1, text .. out)
    return cells, out
end

local function is_spread(v)
    return v.n > 0 and v.lo <= v.median and v.median <= v.hi and v.lo > 0
end

local function check(cell, frame, ring)
    tap.eq(cell.lost, 0)
    tap.eq(cell.frame, frame)
    tap.eq(cell.ring, ring)
    tap.eq(cell.kind, "ours-ours")
    if cell.valid then
        tap.ok(is_spread(cell.mpps), "a rate")
        tap.ok((cell.cycles_per_packet or 11) > 10, "cycles")
        tap.ok(cell.placement == "one core" or is_spread(cell.round_trip_ns),
            "the way between the CPUs")
    end
    for _, name in ipairs { "layout", "mergeable", "in_order", "ring" } do
        tap.eq(cell.negotiated[name], cell[name], name)
    end
end

tap.test("--short has one valid cell for each of the eight modes", function()
    local cells, out = bench "--short"
    local seen = {}
    for _, cell in ipairs(cells) do
        check(cell, 64, 256)
        seen[cell.layout .. tostring(cell.mergeable)
            .. tostring(cell.in_order)] = true
    end
    local n = 0
    for _ in pairs(seen) do n = n + 1 end
    tap.eq(n, 8)
    tap.eq(#cells, 8)
    tap.match(out, "layout +mergeable +in%-order +Mpps +lo +hi +cycles/packet "
        .. "+lost +placement +CPU lost")
    tap.match(out, "\nTry next: [^\n]+\n$")
end)

tap.test("odd packed rings and large frames hold, too", function()
    for _, cell in ipairs(bench("--seconds 0.1 --short --layout packed "
        .. "--ring 77 --frame 1514 --burst 7")) do
        check(cell, 1514, 77)
    end
end)

tap.test("jumbo frames circle on mergeable paths, and only there", function()
    local cells = bench "--short --frame 9000 --trials 1"
    tap.eq(#cells, 4)
    for _, cell in ipairs(cells) do
        check(cell, 9000, 256)
        tap.eq(cell.mergeable, true)
    end
end)

tap.test("a cell has the trials and the paths that were asked for", function()
    local cells = bench("--seconds 0.02 --short --trials 2 --path packed-vec "
        .. "--path split-mrg")
    tap.eq(#cells, 2)
    tap.eq(cells[1].path, "packed-vec")
    tap.eq(cells[1].in_order, true)
    tap.eq(cells[2].path, "split-mrg")
    for _, cell in ipairs(cells) do
        check(cell, 64, 256)
        tap.ok(not cell.valid or cell.mpps.n >= 2, "two trials")
    end
end)

tap.test("one core is enough", function()
    local cells, out = bench("--short --layout split",
        "taskset -c " .. host.cpus()[1])
    for _, cell in ipairs(cells) do
        check(cell, 64, 256)
        tap.eq(cell.valid, true, cell.why_invalid)
        tap.eq(cell.placement, "one core")
    end
    tap.match(out, "shared one core")
end)

tap.test("what cannot be measured is refused before it starts", function()
    for words, text in pairs {
        ["--frame 59"] = "%-%-frame 59: it must be",
        ["--frame 1519 --path split"] = "buffers for at most 1518 bytes",
        ["--ring 77"] = "power of two",
        ["--path nowhere"] = "no path 'nowhere'; paths are split, split%-mrg",
        ["--path split --layout packed"] = "no %-%-path of that %-%-layout",
        ["--kind ours-dpdk"] = "add %-%-peer dpdk",
        ["--peer dpdk --cores 0,0"] = "two CPUs",
    } do
        local code, _, errors = tap.shell(program .. " bench pvp " .. words)
        tap.eq(code, 2, words)
        tap.match(errors, text)
    end
end)

main = tap.main
