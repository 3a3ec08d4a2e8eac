-- Options of a call, declared as rows
--
--   { name, type, text, field = name in the C struct, default = C value,
--     required = true, invert = true (1 - value goes to C), lua = true (not
--     for C) }
--
-- from which the check of a Lua table, the parser of spec strings and the
-- documentation are made.
local err = require "moonring.error"

local M = {}

local function is_count(v)
    return type(v) == "number" and v >= 0 and v <= 2 ^ 32 - 1 and v % 1 == 0
end

-- An Ethernet, IPv4 and UDP header at least; what a packet's buffer holds.
local function is_frame(v)
    return is_count(v) and v >= 42 and v <= 2048
end

local function parse_flag(text)
    local values = { ["1"] = true, on = true, yes = true, ["true"] = true,
        ["0"] = false, off = false, no = false, ["false"] = false }
    return values[text]
end

local function parse_octal(text)
    return text:match "^0?[0-7][0-7][0-7]$" and tonumber(text, 8)
end

-- Each type: `want` for messages; `c(v)` gives the C value of a Lua value, or
-- nil when it does not fit; `parse(text)` the Lua value of a word in a spec,
-- or nil.
M.types = {
    string = {
        want = "a string",
        c = function(v) return type(v) == "string" and v or nil end,
        parse = function(text) return text end,
    },
    count = {
        want = "a whole number, 0 or more",
        c = function(v) return is_count(v) and v or nil end,
        parse = function(text)
            local v = tonumber(text)
            return is_count(v) and v or nil
        end,
    },
    flag = {
        want = "true or false (in a spec 1 or 0)",
        c = function(v)
            if type(v) == "boolean" then return v and 1 or 0 end
            if v == 0 or v == 1 then return v end
        end,
        parse = parse_flag,
    },
    mode = {
        want = "permission bits as an octal string such as '0660'",
        c = function(v)
            if type(v) == "string" then return parse_octal(v) or nil end
            return is_count(v) and v <= 511 and v or nil
        end,
        parse = function(text) return parse_octal(text) and text or nil end,
    },
    frame = {
        want = "a number of bytes, 42..2048",
        c = function(v) return is_frame(v) and v or nil end,
        parse = function(text)
            local v = tonumber(text)
            return is_frame(v) and v or nil
        end,
    },
    loops = {
        want = "a number of times or 'forever'",
        c = function(v)
            if v == "forever" then return 2 ^ 32 - 1 end
            return is_count(v) and v or nil
        end,
        parse = function(text)
            local v = tonumber(text)
            return text == "forever" and text or is_count(v) and v or nil
        end,
    },
    pool = {
        want = "a pool (mr.pool)",
        c = function(v)
            return type(v) == "table" and v.is_pool and v:pointer() or nil
        end,
    },
    bytes = {
        want = "a string of bytes",
        c = function(v) return type(v) == "string" and v or nil end,
    },
    number = {
        want = "a number",
        c = function(v) return type(v) == "number" and v or nil end,
        parse = tonumber,
    },
    any = {
        want = "any value",
        c = function(v) return v end,
    },
}

-- The names of the rows, for messages.
function M.names(rows)
    local names = {}
    for i, row in ipairs(rows) do names[i] = row[1] end
    return table.concat(names, ", ")
end

-- The same of those that a spec can set.
function M.words(rows)
    local out = {}
    for _, row in ipairs(rows) do
        if M.types[row[2]].parse then out[#out + 1] = row end
    end
    return M.names(out)
end

function M.find(rows, name)
    for _, row in ipairs(rows) do
        if row[1] == name then return row end
    end
end

-- The C value of one given value; raises when its type is wrong.
local function value(what, row, given)
    local kind = M.types[row[2]]
    local c = kind.c(given)
    if c == nil then
        err.raise("%s: option '%s' must be %s, not %s", what, row[1],
            kind.want, type(given) == "string" and "'" .. given .. "'"
                or type(given) == "number" and tostring(given)
                or "a " .. type(given))
    end
    if row.invert then c = 1 - c end
    return c
end

-- Checks the table that a caller gave against the rows. Returns a table of C
-- values by field name, defaults included. Raises at the caller's line.
function M.check(what, rows, given)
    if given == nil then given = {} end
    if type(given) ~= "table" then
        err.raise("%s wants a table of options (%s), not a %s", what,
            M.names(rows), type(given))
    end
    local out = {}
    for name in pairs(given) do
        if not M.find(rows, name) then
            err.raise("%s: unknown option '%s'; known are %s", what,
                tostring(name), M.names(rows))
        end
    end
    for _, row in ipairs(rows) do
        local name = row[1]
        local field = row.field or name
        if given[name] ~= nil then
            out[field] = value(what, row, given[name])
        elseif row.required then
            err.raise("%s: option '%s' is missing: %s", what, name, row[3])
        elseif row.default ~= nil then
            out[field] = row.default
        end
    end
    return out
end

-- Fills a C struct with what check returned.
function M.fill(struct, values, rows)
    for _, row in ipairs(rows) do
        local field = row.field or row[1]
        if values[field] ~= nil and not row.lua then
            struct[field] = values[field]
        end
    end
    return struct
end

return M
