-- moonring bench pvp: the table, the JSON, one core, refusals.
local tap = require "tap"
local cjson = require "cjson"
local host = require "moonring.host"

local program = tap.program()

local function bench(words, before)
    local path = os.tmpname()
    local code, out, text = tap.shell(("%s %s bench pvp --json %s %s")
        :format(before or "", program, path, words))
    local file = io.open(path)
    local json = file:read "*a"
    file:close()
    os.remove(path)
    tap.eq(code, 0, text .. out)
    return cjson.decode(json), out
end

local function check(cell, frame, ring)
    tap.eq(cell.valid, true, cell.why)
    tap.eq(cell.lost, 0)
    tap.eq(cell.frame, frame)
    tap.eq(cell.ring, ring)
    tap.ok(cell.mpps > 0.001, "a rate")
    tap.ok(cell.cycles_per_packet > 10, "cycles")
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
    tap.match(out, "layout +mergeable +in%-order +Mpps +cycles/packet +lost")
    tap.match(out, "\nTry next: [^\n]+\n$")
end)

tap.test("odd packed rings and large frames hold, too", function()
    for _, cell in ipairs(bench("--seconds 0.1 --short --layout packed "
        .. "--ring 77 --frame 1514 --burst 7")) do
        check(cell, 1514, 77)
    end
end)

tap.test("one core is enough", function()
    local cells, out = bench("--short --layout split",
        "taskset -c " .. host.cpus()[1])
    for _, cell in ipairs(cells) do check(cell, 64, 256) end
    tap.match(out, "shared one core")
end)

main = tap.main
