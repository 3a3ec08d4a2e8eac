-- The report of bench ablation, as Markdown: the machine, the seeds' result
-- sheet with our figures beside the authors', all cells, and the tick list with
-- what was measured. Every figure comes from the cells that it is given.
local cpu = require "moonring.cpu"
local host = require "moonring.host"
local mr = require "moonring"
local seeds = require "moonring.seeds"
local technique = require "moonring.technique"

local M = {}

------------------------------------------------------------------- pieces

local function table_of(out, head, rows)
    local rule = {}
    for i = 1, #head do rule[i] = "---" end
    local function add(cells)
        out[#out + 1] = "| " .. table.concat(cells, " | ") .. " |"
    end
    add(head)
    add(rule)
    for _, cells in ipairs(rows) do add(cells) end
    out[#out + 1] = ""
end

local function text(out, ...)
    for _, line in ipairs { ... } do out[#out + 1] = line end
    out[#out + 1] = ""
end

local function number(format, v) return v and format:format(v) or "-" end

-- The median of what a side did, in the terms of its setup.
local function figure(side)
    if side.tsc then
        return ("%.1f tsc, %.1f Mpps"):format(side.tsc.median,
            side.mpps.median)
    end
    return number("%.2f Mpps", side.mpps and side.mpps.median)
end

local function percent(v) return number("%+.1f %%", v) end

local function verdict(cell)
    if cell.unavailable then return cell.why_invalid end
    return cell.valid and cell.verdict or "invalid: " .. cell.why_invalid
end

-- The cells of a technique, on so many cores (nil = any), of a path ("*" =
-- any).
local function find(cells, name, cores, path)
    local out = {}
    for _, cell in ipairs(cells) do
        if cell.technique == name and cell.ratio
            and (not cores or #cell.cores == cores)
            and (path == "*" or cell.path == path) then
            out[#out + 1] = cell
        end
    end
    return out
end

------------------------------------------------------------------ machine

local function first_line(path, pattern)
    local file = io.open(path)
    if not file then return "unknown" end
    local found
    for line in file:lines() do
        found = line:match(pattern)
        if found then break end
    end
    file:close()
    return found or "unknown"
end

local function machine(out, cells, plan)
    local compiler, dpdk = host.build()
    local memory, places = {}, {}
    for _, cell in ipairs(cells) do
        if cell.memory then memory[cell.memory] = true end
        if cell.placement then places[cell.placement] = true end
    end
    local function names(set)
        local list = {}
        for name in pairs(set) do list[#list + 1] = name end
        table.sort(list)
        return #list > 0 and table.concat(list, ", ") or "-"
    end
    table_of(out, { "what", "here" }, {
        { "CPU", first_line("/proc/cpuinfo", "^model name%s*:%s*(.*)$") },
        { "usable CPUs", tostring(#host.cpus()) },
        { "time stamp counter", ("%.0f MHz"):format(mr.tsc_hz() / 1e6) },
        { "CPU level in use", cpu.level() },
        { "kernel", first_line("/proc/sys/kernel/osrelease", "(.*)") },
        { "compiler", compiler },
        { "libraries", dpdk },
        { "packet memory", names(memory) },
        { "placement of the CPUs", names(places) },
        { "pairs of rounds a cell", ("%d starts of %d"):format(plan.starts,
            plan.rounds) },
        { "day", os.date "!%Y-%m-%d" },
    })
end

local COMMANDS = {
    "```sh",
    "tests/bench/ablation.sh DIR",
    "moonring bench ends --json ends.json",
    "moonring bench onecore --peer dpdk --json onecore.json",
    "moonring bench ablation --builds DIR --json ablation.json \\",
    "  --add ends.json --add onecore.json --markdown tests/bench/RESULTS.md",
    "```",
}

-------------------------------------------------------------------- sheet

local function reason(id)
    for _, row in ipairs(seeds.ticks) do
        if row[1] == id then return row[5] end
    end
end

local function sheet_row(row, cell)
    return { row[1], row[2], cell.path, figure(cell.off), figure(cell),
        percent(cell.change), number("%.1f %%", cell.spread), verdict(cell),
        row[6] }
end

-- T52-T55: cells of bench ends.
local function maxima(rows, added)
    for _, cell in ipairs(added) do
        if cell.side and type(cell.technique) == "string" then
            rows[#rows + 1] = { cell.technique, cell.side .. " on one core",
                cell.path, "-", number("%.2f Mpps", cell.mpps.median), "-",
                "-", cell.valid and "maximum"
                    or "invalid: " .. cell.why_invalid, "asked, none given" }
        end
    end
end

local function sheet(out, cells, added)
    local rows = {}
    for _, row in ipairs(seeds.sheet) do
        local found = find(cells, row[4], row[5], row[3])
        for _, cell in ipairs(found) do
            rows[#rows + 1] = sheet_row(row, cell)
        end
        if #found == 0 then
            local why = row[4] == "" and reason(row[1]:match "^T%d+%l?")
            rows[#rows + 1] = { row[1], row[2], row[3], "-", "-", "-", "-",
                why or "not run", row[6] }
        end
    end
    maxima(rows, added)
    text(out, "## Result sheet")
    table_of(out, { "technique", "setup", "path", "off", "on", "change",
        "spread", "verdict", "authors" }, rows)
end

-------------------------------------------------------------------- cells

local function all_cells(out, cells)
    local rows, ran = {}, {}
    for _, cell in ipairs(cells) do
        rows[#rows + 1] = { "`" .. cell.technique .. "`", cell.text,
            cell.setup, cell.path, figure(cell.off), figure(cell),
            percent(cell.change), number("%.1f %%", cell.spread),
            verdict(cell) }
        ran[cell.technique] = true
    end
    for _, row in ipairs(technique.list) do
        if not ran[row.name] then
            rows[#rows + 1] = { "`" .. row.name .. "`", row.text, "-", "-",
                "-", "-", "-", "-", "not run" }
        end
    end
    text(out, "## Every technique")
    table_of(out, { "name", "technique", "setup", "path", "off", "on",
        "change", "spread", "verdict" }, rows)
end

local function beside(out, added)
    local rows = {}
    for _, cell in ipairs(added) do
        if cell.peer and cell.ratio then
            rows[#rows + 1] = { cell.path, tostring(cell.frame),
                tostring(cell.ring), tostring(cell.burst), cell.placement,
                figure(cell.tsc and { tsc = cell.tsc, mpps = { median =
                    mr.tsc_hz() / cell.tsc.median / 1e6 } } or cell),
                number("%.2f", cell.ratio.median), ("%.2f to %.2f"):format(
                    cell.ratio.lo, cell.ratio.hi),
                cell.valid and "" or "invalid: " .. cell.why_invalid }
        end
    end
    if #rows == 0 then return end
    text(out, "## Beside DPDK")
    text(out, "A ratio above 1: we are faster.")
    table_of(out, { "path", "frame", "ring", "burst", "placement", "ours",
        "ratio", "quartiles", "" }, rows)
end

----------------------------------------------------------------- tick list

local function result_of(cell)
    local where = cell.path .. (#cell.cores == 2 and " on two cores" or "")
    if not cell.valid then return where .. " invalid" end
    if cell.verdict == "no effect" then return where .. " no effect" end
    return where .. " " .. percent(cell.change)
end

-- What was measured of a row, and by what.
local function measured(row, cells)
    local by, results = {}, {}
    if row[4]:match "^bench " then return "`moonring " .. row[4] .. "`", "" end
    for name in row[4]:gmatch "%S+" do
        by[#by + 1] = "`" .. name .. "`"
        local found = {}
        for i, cell in ipairs(find(cells, name, nil, "*")) do
            found[i] = result_of(cell)
        end
        results[#results + 1] = #by .. ": " .. (#found > 0
            and table.concat(found, ", ") or "not run")
    end
    if #results == 1 then results[1] = results[1]:sub(4) end
    return table.concat(by, " "), table.concat(results, "; ")
end

local function tick_list(out, cells)
    local rows = {}
    for i, row in ipairs(seeds.ticks) do
        local by, results = measured(row, cells)
        rows[i] = { row[1], row[2], row[3] == "" and "not here"
            or row[3]:gsub("%S+", "`%0`"), by == "" and "-" or by,
            results ~= "" and results or row[5] }
    end
    text(out, "## Tick list")
    table_of(out, { "row", "technique", "where", "measured by",
        "change, or why not" }, rows)
end

-- The whole report. cells: of bench ablation; added: of other benches; plan:
-- starts and rounds of a cell. -> text
function M.text(cells, added, plan)
    local out = {}
    text(out, "# What each technique brings")
    text(out, "Written by `moonring bench "
        .. "ablation --markdown`; not edited by hand.")
    if plan.starts == 1 then
        text(out, "**A short run: its figures show the form, nothing else.**")
    end
    machine(out, cells, plan)
    text(out, unpack(COMMANDS))
    text(out, "Off and on are either side of a comparison, medians of rounds "
        .. "taken in turn;", "change is the median of the ratios of "
        .. "neighbours, above 0 = faster with it;", "spread is from their "
        .. "lower to their upper quartile. A change smaller than the",
        "spread is no effect. `tsc`: ticks of the time stamp counter a packet, "
        .. "both ways.")
    sheet(out, cells, added)
    all_cells(out, cells)
    beside(out, added)
    tick_list(out, cells)
    out[#out] = nil
    return table.concat(out, "\n") .. "\n"
end

-- Writes the report. -> true | nil, text
function M.write(path, cells, added, plan)
    local file, why = io.open(path, "w")
    if not file then return nil, "--markdown " .. why end
    local ok
    ok, why = file:write(M.text(cells, added, plan))
    local closed, late = file:close()
    if ok and closed then return true end
    return nil, ("--markdown %s: %s"):format(path, why or late)
end

return M
