-- Techniques that can be switched, and where each is measured: those that a
-- build can do without (the core's list), the builds of seeds 2.3, and what an
-- option decides at run time. The bench and its report read this list.
--
-- A row: name, kind ("build", "order" or "run"), seeds (rows of the tick list),
-- text, cells. A cell: cores (1 = both ends on one, 2 = an end each), path (for
-- people), off and on: what either side runs with, as the plans of solo.lua
-- and circle.lua have it, path being the name of one; beside that cpu (level)
-- and build (folder of the program, nil = this one).
local ffi = require "moonring.ffi"

local C = ffi.C
local M = {}

-- What a side runs with unless its cell says otherwise.
local defaults = { frame = 64, ring = 256, burst = 32 }

local function side(path, given)
    local out = { path = path }
    for name, value in pairs(defaults) do out[name] = value end
    for name, value in pairs(given or {}) do out[name] = value end
    if out.suffix then
        out.path = path .. out.suffix
        out.suffix = nil
    end
    return out
end

local function words(text)
    local out = {}
    for word in text:gmatch "%S+" do out[#out + 1] = word end
    return out
end

-- A cell for each of the paths, on each of the numbers of cores. off, on: how
-- the sides differ, `suffix` being the end of the path's name.
local function cells(paths, cores, off, on)
    local out = {}
    for _, path in ipairs(words(paths)) do
        for _, n in ipairs(cores) do
            out[#out + 1] = { path = path, cores = n, off = side(path, off),
                on = side(path, on) }
        end
    end
    return out
end

local function append(list, more)
    for _, item in ipairs(more) do list[#list + 1] = item end
    return list
end

------------------------------------------------------------------- builds

-- Where techniques of the core's list are measured: paths on one core, paths
-- on two.
local anywhere = { "split packed", "split packed" }
local places = {
    lines = { "packed packed-mrg packed-inorder", "packed" },
    unrolled = { "packed", "" },
    hold_first = { "packed", "packed" },
    constant_header = { "packed", "" },
    near_region = { "split packed", "" },
    copy_inline = { "split packed", "" },
    scalar = { "split packed", "" },
}

-- The core's list: name, C row.
local function core_rows()
    local i = -1
    return function()
        i = i + 1
        local row = C.mr_technique_row(i)
        if row.name ~= nil then return ffi.string(row.name):lower(), row end
    end
end

local function build_rows(out)
    for name, row in core_rows() do
        local place = places[name] or anywhere
        local off = { build = name }
        out[#out + 1] = { name = name, kind = "build",
            seeds = words(ffi.string(row.rows)), text = ffi.string(row.text),
            cells = append(cells(place[1], { 1 }, off),
                cells(place[2], { 2 }, off)) }
    end
end

-- The orderings of ring/order_builds.h, against which ours, chosen once at
-- negotiation, stands. The paths are those of the seed's table.
local orders = {
    { "merged", "both barrier classes plain: the arms fold" },
    { "c11", "C11 in one arm: the test stays" },
    { "control", "I/O fences in one arm: the test stays" },
}

local function order_rows(out)
    for _, row in ipairs(orders) do
        local name = "order_" .. row[1]
        out[#out + 1] = { name = name, kind = "order", order = row[1],
            seeds = { "T16", "T22" },
            text = "specialised functions; off: " .. row[2],
            cells = cells("split split-mrg split-inorder split-mrg-inorder "
                .. "packed packed-mrg", { 1 }, { build = name }) }
    end
end

---------------------------------------------------------------- run time

local run_rows = {
    { "in_order", "T13 T49", "used buffers in order: one entry for a batch",
        append(cells("split split-mrg packed packed-mrg", { 1 }, nil,
            { suffix = "-inorder" }),
            cells("split packed", { 2 }, nil, { suffix = "-inorder" })) },
    { "mergeable", "T2 T37", "mergeable receive buffers, of which one is "
        .. "enough", cells("split packed", { 1 }, nil, { suffix = "-mrg" }) },
    { "packed", "T32 T33 T34 T35 T36 T39 T46 T47 T48 T50",
        "the packed ring; off: the split one", append(
            cells("packed", { 1, 2 }, { path = "split" }),
            cells("packed-mrg", { 1 }, { path = "split-mrg" })) },
    { "event_idx", "T39", "event indices for notifications", cells(
        "split packed", { 1 }, { options = { event_idx = false } },
        { options = { event_idx = true } }) },
    { "indirect", "T35", "chains in indirect tables, frames of 9000 bytes",
        cells("split-mrg packed-mrg", { 1 },
            { frame = 9000, burst = 8, options = { indirect = false } },
            { frame = 9000, burst = 8, options = { indirect = true } }) },
    { "order_platform", "T18", "feature 36: I/O fences", cells(
        "split packed", { 1 }, { options = { order_platform = false } },
        { options = { order_platform = true } }) },
    { "keep_num_buffers", "", "a frame is sent on with num_buffers as it came",
        cells("split split-mrg packed packed-mrg", { 1, 2 },
            { options = { keep_num_buffers = false } },
            { options = { keep_num_buffers = true } }) },
    { "splice", "", "device to device without a packet, 64 bytes", cells(
        "split packed", { 1 }, nil, { splice = true }) },
    { "splice_1518", "", "the same with frames of 1518 bytes", cells(
        "split-mrg packed-mrg", { 1 }, { frame = 1518 },
        { frame = 1518, splice = true }) },
    { "zero_copy", "T11", "frames of 1518 bytes lent by the guest, not copied",
        cells("split packed", { 1 }, { frame = 1518 },
            { frame = 1518, device = { zero_copy = true } }) },
    { "burst_64", "T10 T12", "bursts of 64; off: 32", cells("split packed",
        { 1, 2 }, nil, { burst = 64 }) },
    { "burst_128", "T10 T12", "bursts of 128; off: 32", cells("split packed",
        { 1, 2 }, nil, { burst = 128 }) },
    { "ring_1024", "T76", "rings of 1024; off: 256", cells("split packed",
        { 1, 2 }, nil, { ring = 1024 }) },
    { "cpu_avx2", "", "AVX2 code; off: baseline", cells("split packed", { 1 },
        { cpu = "baseline" }, { cpu = "avx2" }) },
    { "cpu_avx512", "", "AVX-512 code; off: baseline", cells("split packed",
        { 1 }, { cpu = "baseline" }, { cpu = "avx512" }) },
}

local function option_rows(out)
    for _, row in ipairs(run_rows) do
        out[#out + 1] = { name = row[1], kind = "run", seeds = words(row[2]),
            text = row[3], cells = row[4] }
    end
end

-- All rows, in the order of the report.
M.list = {}
build_rows(M.list)
order_rows(M.list)
option_rows(M.list)

M.by_name = {}
for _, row in ipairs(M.list) do M.by_name[row.name] = row end

-- Names of what this program was built without; none in a default build.
function M.without()
    local out = {}
    for name, row in core_rows() do
        if row.has == 0 then out[#out + 1] = name end
    end
    return out
end

return M
