-- Counters of ports and queues as Lua tables, text and JSON. Which counters
-- and faults there are comes from the core's own lists.
local ffi = require "moonring.ffi"

local C = ffi.C
local M = {}

-- Counters as { name, text, offset }, in the core's order.
M.counters = {}
do
    local i = 0
    local row = C.mr_counter_row(i)
    while row ~= nil and row.name ~= nil do
        M.counters[#M.counters + 1] = { name = ffi.string(row.name),
            text = ffi.string(row.text), offset = row.offset }
        i = i + 1
        row = C.mr_counter_row(i)
    end
end

-- Fault number i as { name, rules, text, broken }.
function M.fault(i)
    local row = C.mr_fault_row(i)
    return { name = ffi.string(row.name), rules = ffi.string(row.rules),
        text = ffi.string(row.text), broken = row.broken == 1 }
end

-- All faults, by number.
M.faults = {}
for i = 1, C.MR_FAULT_COUNT - 1 do M.faults[i] = M.fault(i) end

-- Counters that count dropped packets, by why.
local drops = { "full", "down", "oversize" }

-- One queue's counters now, `dropped` being the sum of all drops. Only faults
-- that happened are listed.
function M.row(queue)
    local ptr = queue:pointer()
    local counters = C.mr_queue_counters(ptr)
    local base = ffi.cast("const char *", counters)
    local row = { port = queue.port.label, dir = queue.direction,
        queue = queue.index, faults = {} }
    for _, counter in ipairs(M.counters) do
        row[counter.name] = tonumber(ffi.cast("const uint64_t *",
            base + counter.offset)[0])
    end
    row.dropped = 0
    for _, name in ipairs(drops) do row.dropped = row.dropped + row[name] end
    for i, fault in ipairs(M.faults) do
        local n = tonumber(counters.faults[i])
        if n > 0 then row.faults[fault.name] = n end
    end
    local stopped = C.mr_queue_fault(ptr)
    row.fault = stopped ~= C.MR_FAULT_NONE and M.faults[stopped].name or nil
    return row
end

local function faults_text(row)
    local out = {}
    for name, n in pairs(row.faults) do out[#out + 1] = name .. "=" .. n end
    table.sort(out)
    return table.concat(out, " ")
end

-- Counters to show in a table: those that always matter, and whichever is not
-- zero in some row.
local function columns(rows)
    local out = {}
    for _, counter in ipairs(M.counters) do
        local show = counter.name == "packets" or counter.name == "bytes"
        for _, row in ipairs(rows) do
            show = show or row[counter.name] > 0
        end
        if show then out[#out + 1] = counter.name end
    end
    return out
end

-- Lines of equal width columns from a list of lists of strings.
function M.align(lines)
    local width, out = {}, {}
    for _, line in ipairs(lines) do
        for i, cell in ipairs(line) do
            width[i] = math.max(width[i] or 0, #cell)
        end
    end
    for n, line in ipairs(lines) do
        local cells = {}
        for i, cell in ipairs(line) do
            local pad = (" "):rep(width[i] - #cell)
            cells[i] = cell:match "^%-?[%d.]+$" and pad .. cell or cell .. pad
        end
        out[n] = table.concat(cells, "  "):gsub("%s+$", "")
    end
    return table.concat(out, "\n")
end

-- The rows as a table for people.
function M.text(rows)
    local names = columns(rows)
    local lines = { { "port", "dir", "queue", unpack(names) } }
    for _, row in ipairs(rows) do
        local line = { row.port, row.dir, tostring(row.queue) }
        for _, name in ipairs(names) do
            line[#line + 1] = ("%.0f"):format(row[name])
        end
        line[#line + 1] = faults_text(row)
        lines[#lines + 1] = line
    end
    return M.align(lines)
end

-- The rows as JSON, one object a line.
function M.json(rows)
    local json = require "moonring.json"
    local out = {}
    for i, row in ipairs(rows) do
        row.faults = json.object(row.faults)
        out[i] = json.encode(row)
    end
    return table.concat(out, "\n")
end

return M
