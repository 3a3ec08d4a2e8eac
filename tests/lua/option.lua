-- Option tables: checked against rows, once for all calls.
local mr = require "moonring"
local option = require "moonring.option"
local kinds = require "moonring.kinds"
local ffi = require "moonring.ffi"
local tap = require "tap"

local rows = {
    { "path", "string", "where", required = true },
    { "size", "count", "how many", default = 7 },
    { "server", "flag", "listen", field = "connect", invert = true },
    { "mode", "mode", "bits" },
    { "loops", "loops", "times" },
}

tap.test("values become C values, defaults and inversion included", function()
    local v = option.check("x", rows, { path = "p", server = true,
        mode = "0660", loops = "forever" })
    tap.eq(v.path, "p")
    tap.eq(v.size, 7)
    tap.eq(v.connect, 0)
    tap.eq(v.mode, 432)
    tap.eq(v.loops, 4294967295)
    tap.eq(option.check("x", rows, { path = "p", server = 0 }).connect, 1)
end)

tap.test("an unknown option raises with the list of known ones", function()
    tap.raises(function() mr.vhost { path = "p", pakced = true } end,
        "unknown option 'pakced'; known are path, name, queues")
    tap.raises(function() mr.pool { 1 } end, "unknown option '1'")
end)

tap.test("a wrong type raises and tells what is wanted", function()
    tap.raises(function() mr.vhost { path = 5 } end,
        "'path' must be a string, not 5")
    tap.raises(function() mr.vhost { path = "p", queues = -1 } end,
        "'queues' must be a whole number")
    tap.raises(function() mr.vhost { path = "p", queues = 1.5 } end,
        "'queues' must be a whole number")
    tap.raises(function() mr.vhost { path = "p", packed = "yes" } end,
        "'packed' must be true or false")
    tap.raises(function() mr.vhost { path = "p", mode = "9" } end,
        "'mode' must be permission bits")
    tap.raises(function() mr.vhost { path = "p", pool = {} } end,
        "'pool' must be a pool")
    tap.raises(function() mr.vhost "p" end, "wants a table of options")
end)

tap.test("a missing option raises and tells what it is for", function()
    tap.raises(function() mr.virtio {} end, "option 'path' is missing")
end)

tap.test("every row of every kind has a type, a text and a C field",
    function()
        for _, kind in ipairs(kinds.list) do
            local struct = ffi.new(kind.struct)
            for _, row in ipairs(kind.options) do
                tap.ok(option.types[row[2]], "type of " .. row[1])
                tap.ok(#row[3] > 0, "text of " .. row[1])
                if not row.lua then
                    local field = row.field or row[1]
                    tap.ok(pcall(function() return struct[field] end),
                        kind.name .. "." .. field)
                end
            end
        end
    end)

tap.test("every field of every option struct has a row", function()
    local cdef = require "moonring.cdef"
    for _, kind in ipairs(kinds.list) do
        local body = cdef:match(kind.struct .. "%s*(%b{})")
        local have = {}
        for _, row in ipairs(kind.options) do have[row.field or row[1]] = 1 end
        for field in body:gmatch "([%w_]+)%s*;" do
            tap.ok(have[field], ("a row for %s.%s"):format(kind.struct, field))
        end
    end
end)

tap.test("there is a row for every kind of port of the core", function()
    for number = 0, ffi.C.MR_PORT_KIND_COUNT - 1 do
        local kind = kinds.list[number + 1]
        tap.eq(tonumber(ffi.C["MR_PORT_" .. kind.name]), number)
    end
    tap.eq(#kinds.list, tonumber(ffi.C.MR_PORT_KIND_COUNT))
end)

main = tap.main
