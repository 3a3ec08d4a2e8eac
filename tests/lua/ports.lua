-- moonring bench ports: cells, validity, refusals. No figure is judged here.
local tap = require "tap"
local cjson = require "cjson"

local program = tap.program()

local function bench(words)
    local path = os.tmpname()
    local code, out, text = tap.shell(("%s bench ports --json %s %s")
        :format(program, path, words))
    local file = io.open(path)
    local json = file:read "*a"
    file:close()
    os.remove(path)
    return code, out, text, json ~= "" and cjson.decode(json)
end

tap.test("a cell for each layout, number of ports and of busy ones", function()
    local code, out, text, cells = bench "--short --ports 1,3 --chunks 3"
    tap.eq(code, 0, text .. out)
    local seen = {}
    for _, cell in ipairs(cells) do
        tap.eq(cell.valid, true, cell.why_invalid)
        tap.eq(cell.negotiated.layout, cell.layout)
        tap.eq(cell.tsc.n, 3)
        tap.eq(cell.ratio.pairs, 3)
        tap.ok(cell.tsc.min <= cell.tsc.median, "the least of them")
        tap.ok(cell.tsc.lo > 1 and cell.one.lo > 1, "ticks")
        seen[#seen + 1] = ("%s %d/%d"):format(cell.layout, cell.busy,
            cell.ports)
    end
    tap.eq(table.concat(seen, ", "), "split 1/1, split 3/3, split 1/3, "
        .. "packed 1/1, packed 3/3, packed 1/3")
    tap.match(out, "layout +ports +busy +tsc +alone +ratio")
end)

tap.test("odd sizes hold, too", function()
    local code, out, text, cells = bench("--layout packed --ports 5 --busy 1 "
        .. "--ring 77 --burst 7 --frame 1514 --chunks 2")
    tap.eq(code, 0, text .. out)
    tap.eq(#cells, 1)
    tap.eq(cells[1].negotiated.ring, 77)
    tap.eq(cells[1].frame, 1514)
end)

tap.test("what cannot be measured is refused", function()
    for words, why in pairs {
        ["--ports 0"] = "not a number of ports",
        ["--ports 1,x"] = "not a number of ports",
        ["--burst 300"] = "from 1 to 256",
        ["--burst 64 --ring 32"] = "more than the ring holds",
        ["--ring 77"] = "power of two",
    } do
        local code, _, text = bench(words .. " --chunks 1")
        tap.eq(code, 2, words)
        tap.match(text, why)
    end
end)

main = tap.main
