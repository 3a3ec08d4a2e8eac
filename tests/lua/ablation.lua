-- moonring bench ablation: the JSON, the report, refusals; and that the tick
-- list, the techniques and the report in the tree are about the same things.
local tap = require "tap"
local cjson = require "cjson"
local seeds = require "moonring.seeds"
local technique = require "moonring.technique"

local program = tap.program()
local root = os.getenv("MOONRING_README"):match "^(.*)/"

local function read(path)
    local file = assert(io.open(path))
    local text = file:read "*a"
    file:close()
    return text
end

-- What the machine may be blamed for.
local noise = { "^noise: ", "^only %d+ of %d+ pairs of rounds count",
    "^no rounds that can be compared$",
    "^the rounds are of several placements$" }

local function only_noise(cell)
    for reason in (cell.why_invalid .. "; "):gmatch "(.-); " do
        local known = false
        for _, pattern in ipairs(noise) do
            known = known or reason:match(pattern) ~= nil
        end
        if not known then return false end
    end
    return true
end

-- Runs the bench -> cells, the report, stdout
local function bench(words)
    local json, report = os.tmpname(), os.tmpname()
    local code, out, text = tap.shell(("%s bench ablation --short --json %s "
        .. "--markdown %s %s"):format(program, json, report, words))
    local cells, markdown = cjson.decode(read(json)), read(report)
    os.remove(json)
    os.remove(report)
    local valid = true
    for _, cell in ipairs(cells) do
        valid = valid and cell.valid
        tap.ok(cell.valid or only_noise(cell), tostring(cell.why_invalid))
    end
    tap.eq(code, valid and 0 or 1, text .. out)
    return cells, markdown, out
end

local function is_spread(v)
    return v.lo > 0 and v.lo <= v.median and v.median <= v.hi
end

local function check_ratio(cell)
    local ratio = cell.ratio
    tap.ok(is_spread(ratio), "a ratio")
    tap.eq(ratio.pairs, 3)
    tap.ok(math.abs(cell.change - 100 * (ratio.median - 1)) < 1e-3, "change")
    tap.ok(math.abs(cell.spread - 100 * (ratio.hi - ratio.lo)) < 1e-3,
        "spread")
    tap.eq(cell.verdict, math.abs(cell.change) < cell.spread and "no effect"
        or cell.change > 0 and "faster" or "slower")
end

tap.test("a technique of run time has a cell with both sides", function()
    local cells, _, out = bench "--technique splice"
    tap.eq(#cells, 2)
    for _, cell in ipairs(cells) do
        tap.eq(cell.technique, "splice")
        tap.eq(cell.setup, "one core")
        tap.eq(cell.splice, true)
        tap.eq(cell.off.splice, false)
        tap.eq(cell.negotiated.layout, cell.layout)
        for _, side in ipairs { cell, cell.off } do
            tap.ok(is_spread(side.tsc) and side.tsc.n == 3, "ticks")
            tap.ok(is_spread(side.mpps), "a rate")
        end
        tap.ok(cell.off.steps.device_rx > 0, "steps without it")
        tap.eq(cell.steps, nil)
        check_ratio(cell)
    end
    tap.match(out, "^technique +setup +path +off +on +change +spread")
end)

tap.test("sides may differ in their rings, and stand on two cores", function()
    local cells = bench "--technique packed --rounds 2"
    local two = 0
    for _, cell in ipairs(cells) do
        tap.eq(cell.layout, "packed")
        tap.eq(cell.off.layout, "split")
        two = two + (cell.setup == "two cores" and 1 or 0)
        tap.eq(cell.tsc ~= nil, cell.setup == "one core")
    end
    tap.ok(two <= 1 and #cells - two == 2, "cells")
end)

-- The lines of a Markdown table's cells, below the heading.
local function table_rows(markdown, heading)
    local rows = {}
    local part = (markdown .. "\n## "):match("\n## " .. heading
        .. "\n\n(.-)\n## ") or ""
    for line in part:gmatch "[^\n]+" do
        local row = {}
        for cell in line:gmatch "| ([^|]*) " do row[#row + 1] = cell end
        if row[1] and row[1] ~= "---" then rows[#rows + 1] = row end
    end
    table.remove(rows, 1)
    return rows
end

local function check_report(markdown)
    for _, what in ipairs { "CPU", "kernel", "compiler", "libraries" } do
        tap.match(markdown, "\n| " .. what .. " | [^\n|]*%w+ |\n")
    end
    local rows = table_rows(markdown, "Tick list")
    tap.eq(#rows, #seeds.ticks)
    for i, row in ipairs(rows) do
        tap.eq(#row, 5, row[1])
        tap.eq(row[1], seeds.ticks[i][1])
        for name in row[4]:gmatch "`([%l_%d]+)`" do
            tap.ok(technique.by_name[name], name .. " is a technique")
        end
    end
    tap.ok(#table_rows(markdown, "Result sheet") >= #seeds.sheet, "the sheet")
end

tap.test("the report has machine, sheet and every row of the list", function()
    local _, markdown = bench "--technique zero_copy --rounds 1"
    check_report(markdown)
    tap.match(markdown, "A short run")
    local measured = {}
    for _, row in ipairs(table_rows(markdown, "Every technique")) do
        if row[9] ~= "not run" then measured[#measured + 1] = row[1] end
    end
    tap.eq(table.concat(measured, " "), "`zero_copy` `zero_copy`")
end)

tap.test("the report in the tree is about these techniques", function()
    local markdown = read(root .. "/tests/bench/RESULTS.md")
    check_report(markdown)
    local seen = {}
    for _, row in ipairs(table_rows(markdown, "Every technique")) do
        local name = row[1]:match "^`(.*)`$"
        tap.ok(technique.by_name[name], row[1] .. " is a technique")
        seen[name] = true
    end
    for _, row in ipairs(technique.list) do
        tap.ok(seen[row.name], row.name .. " is in the report")
    end
end)

tap.test("the tick list has each row once, with a place or a reason",
    function()
        local seen = {}
        for i, row in ipairs(seeds.ticks) do
            tap.eq(#row, 5, row[1])
            tap.eq(seen[row[1]], nil, row[1])
            seen[row[1]] = true
            tap.ok(row[4] ~= "" or row[5] ~= "", row[1] .. " says why")
            tap.ok(i == 1 or row[1] ~= "", "an id")
            for file in row[3]:gmatch "%S+" do
                tap.ok(io.open(root .. "/" .. file), file .. " exists"):close()
            end
        end
        for i = 1, 78 do tap.ok(seen["T" .. i], "T" .. i) end
        for letter in ("abcdefghijklmno"):gmatch "." do
            tap.ok(seen["T13" .. letter], "T13" .. letter)
        end
    end)

tap.test("techniques and tick list name each other", function()
    local named = {}
    for _, row in ipairs(seeds.ticks) do
        for name in row[4]:gmatch "%S+" do named[name] = true end
        if not row[4]:match "^bench " then
            for name in row[4]:gmatch "%S+" do
                tap.ok(technique.by_name[name], name .. " is a technique")
            end
        end
    end
    for _, row in ipairs(technique.list) do
        tap.ok(#row.cells > 0, row.name .. " is measured")
        tap.ok(row.kind == "run" or #row.seeds == 0 or named[row.name],
            row.name .. " is in the tick list")
    end
end)

tap.test("this program has all techniques", function()
    tap.eq(table.concat(technique.without(), " "), "")
end)

tap.test("what cannot be measured is refused as wrong usage", function()
    for words, pattern in pairs {
        ["--technique lines"] = "ablation.sh DIR lines, then %-%-builds DIR",
        ["--technique lines --builds /no/such"] = "another build",
        ["--technique nothing"] = "argument for option '%-%-technique'",
        ["--rounds 0"] = "at least one",
        ["--serve nonsense"] = "%-%-serve: ",
    } do
        local code, _, text = tap.shell(program .. " bench ablation " .. words)
        tap.eq(code, 2, words)
        tap.match(text, pattern)
    end
end)

tap.test("it is listed", function()
    local _, out = tap.shell(program .. " list bench")
    tap.match(out, "ablation +What each technique brings")
end)

main = tap.main
