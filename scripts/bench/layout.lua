-- Where the fields of a ring lie in its cache lines, and who writes them.
--
--   moonring bench layout [--json FILE]
--
--   $ moonring bench layout
--
-- A burst on the device side touches lines 0 and 1, on the driver side 2 as
-- well. The data path writes to a line of its own, so that what the control
-- thread changes while packets flow takes no line away from it, and what a
-- burst changes none from the control thread.
--
-- The table comes from the core, whose compiler holds it true. JSON: an array
-- of one object, { line_bytes, bytes, fields = { { name, offset, size, line,
-- writer } }, valid, why_invalid }; it is valid when each line has one side
-- that writes.
local ffi = require "moonring.ffi"
local stats = require "moonring.stats"
local trial = require "moonring.trial"

local LINE = 64

function configure(cli)
    cli:option "--json":argname "<file>"
        :description "Write an array with one object: the table."
end

-- The rows of the core's list.
local function fields()
    local out = {}
    local row = ffi.C.mr_field_row(0)
    while row.name ~= nil do
        out[#out + 1] = { name = ffi.string(row.name),
            offset = row.offset, size = row.size, line = row.line,
            writer = ffi.string(row.writer) }
        row = ffi.C.mr_field_row(#out)
    end
    return out
end

-- Lines that both the data path and the control thread write, as reasons.
local function shared_lines(list)
    local writers, reasons = {}, {}
    for _, field in ipairs(list) do
        local side = field.writer:match "^%w+"
        local seen = writers[field.line]
        if seen and seen ~= side then
            reasons[#reasons + 1] = ("line %d is written by %s and %s")
                :format(field.line, seen, side)
        end
        writers[field.line] = side
    end
    return reasons
end

-- Bytes used in each line.
local function used(list, line)
    local sum = 0
    for _, field in ipairs(list) do
        if field.line == line then sum = sum + field.size end
    end
    return sum
end

local function print_table(list, bytes)
    local lines = { { "line", "offset", "bytes", "field", "written by" } }
    for i, field in ipairs(list) do
        local first = i == 1 or list[i - 1].line ~= field.line
        lines[#lines + 1] = { first and tostring(field.line) or "",
            tostring(field.offset), tostring(field.size), field.name,
            field.writer }
    end
    print(stats.align(lines))
    for line = 0, bytes / LINE - 1 do
        print(("line %d: %d of %d bytes used"):format(line, used(list, line),
            LINE))
    end
end

function main(args)
    local list = fields()
    local last = list[#list]
    local bytes = (last.line + 1) * LINE
    local cell = { line_bytes = LINE, bytes = bytes, fields = list }
    trial.judge(cell, shared_lines(list))
    print_table(list, bytes)
    if args.json then
        local ok, text = trial.write(args.json, { cell })
        if not ok then return nil, text end
    end
    if not cell.valid then return nil, cell.why_invalid end
end
