-- moonring bench ends: a figure for each side and layout.
local tap = require "tap"
local cjson = require "cjson"
local host = require "moonring.host"

local program = tap.program()

tap.test("both sides of both layouts have their maximum", function()
    if #host.cpus() < 2 then return end
    local path = os.tmpname()
    local _, out, errors = tap.shell(("%s bench ends --short --trials 2 "
        .. "--json %s"):format(program, path))
    local file = io.open(path)
    local cells = cjson.decode(file:read "*a")
    file:close()
    os.remove(path)
    local seen = {}
    for _, cell in ipairs(cells) do
        seen[cell.technique] = cell.side .. " " .. cell.layout
        -- What becomes of the CPUs is the machine's doing.
        tap.ok(cell.valid or cell.why_invalid:match
            "^only %d+ of %d+ trials count: [^;]+$",
            (cell.why_invalid or "") .. errors)
        if cell.valid then
            tap.ok(cell.tsc.lo > 1 and cell.mpps.lo > 0, "a maximum")
            tap.ok(cell.waiting.lo >= 0 and cell.waiting.hi < 1, "waiting")
            tap.ok(cell.packets_per_round.hi <= cell.burst, "a burst")
            tap.ok(cell.bottleneck == "driver"
                or cell.bottleneck == "device", "a bottleneck")
        end
    end
    tap.eq(seen.T52, "driver split")
    tap.eq(seen.T53, "driver packed")
    tap.eq(seen.T54, "device split")
    tap.eq(seen.T55, "device packed")
    tap.eq(#cells, 4)
    tap.match(out, "^row +side +path +Mpps")
end)

tap.test("one core has no maximum for each end", function()
    local cpu = host.cpus()[1]
    local code, _, errors = tap.shell(("%s bench ends --cores %d,%d")
        :format(program, cpu, cpu))
    tap.eq(code, 2)
    tap.match(errors, "two CPUs")
end)

main = tap.main
