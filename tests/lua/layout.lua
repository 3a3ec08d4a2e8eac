-- moonring bench layout: the table is complete, and what it says holds.
local tap = require "tap"
local cjson = require "cjson"

local program = tap.program()

local function table_of()
    local path = os.tmpname()
    local code, out, text = tap.shell(("%s bench layout --json %s")
        :format(program, path))
    local file = io.open(path)
    local json = file:read "*a"
    file:close()
    os.remove(path)
    tap.eq(code, 0, text)
    return cjson.decode(json)[1], out
end

-- Names of the fields between "struct mr_ring {" and its end in ring.h.
local function declared()
    local folder = (os.getenv "MOONRING_HEADER" or "core/moonring.h")
        :match "^(.*)/[^/]*$"
    local file = assert(io.open(folder .. "/ring/ring.h"))
    local text = file:read "*a"
    file:close()
    local body = text:gsub("/%*.-%*/", ""):match "\nstruct mr_ring (%b{});"
    body = body:sub(2, -2):gsub("union%s*%b{}", "union")
    local names = {}
    for line in body:gmatch "[^;]+" do
        names[#names + 1] = line:match "([%w_]+)%s*$"
    end
    return names
end

tap.test("the table has every field of the struct, in order", function()
    local cell = table_of()
    local names = {}
    for i, field in ipairs(cell.fields) do names[i] = field.name end
    tap.eq(table.concat(names, " "), table.concat(declared(), " "))
    tap.ok(#names > 20, "that many fields were found")
end)

tap.test("no line has two sides that write", function()
    local cell, out = table_of()
    tap.eq(cell.valid, true, cell.why_invalid)
    tap.eq(cell.bytes % cell.line_bytes, 0)
    local side = {}
    for _, field in ipairs(cell.fields) do
        local data = field.writer == "data path"
        tap.ok(side[field.line] == nil or side[field.line] == data,
            "one side on line " .. field.line)
        side[field.line] = data
        tap.ok(out:find("%f[%w_]" .. field.name .. " +" .. field.writer),
            "a row for " .. field.name)
    end
end)

main = tap.main
