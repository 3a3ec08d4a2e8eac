-- The format in which values travel between Lua states: arguments to a task,
-- results back. Plain tables, strings, numbers, booleans and 64-bit integers
-- go by value; ports, queues and pools as handles. Anything else raises.
--
-- A value is one tag byte and its content, host byte order:
--   n nil   t true   f false   d number (8)   i int64 (8)   u uint64 (8)
--   s string (length 4, bytes)   { pairs of values, closed by }
--   h handle (class as a string value, what its freeze() gave as a value)
local ffi = require "moonring.ffi"
local err = require "moonring.error"

local M = {}

local DEPTH_MAX = 32

-- Class name -> function(value that freeze() gave) that makes a borrowed
-- handle.
M.classes = {}

-- Addresses as values and back.
function M.freeze_pointer(ptr)
    return ffi.cast("uint64_t", ffi.cast("uintptr_t", ptr))
end

function M.thaw_pointer(value)
    return ffi.cast("void *", ffi.cast("uintptr_t", value))
end

local number_box = ffi.typeof "double[1]"
local int64_box = ffi.typeof "int64_t[1]"
local uint64_box = ffi.typeof "uint64_t[1]"
local length_box = ffi.typeof "uint32_t[1]"

local function raw(box, v)
    local cell = box()
    cell[0] = v
    return ffi.string(cell, ffi.sizeof(cell))
end

local function pack_string(out, v)
    out[#out + 1] = "s" .. raw(length_box, #v)
    out[#out + 1] = v
end

local pack_value

local function pack_table(out, v, depth)
    if depth > DEPTH_MAX then
        err.raise("cannot pass a table nested deeper than %d levels "
            .. "(does it contain itself?)", DEPTH_MAX)
    end
    local class = getmetatable(v)
    if class then
        if type(class) ~= "table" or not M.classes[class.class] then
            err.raise("cannot pass an object with a metatable; pass plain "
                .. "tables, strings, numbers, ports, queues and pools")
        end
        out[#out + 1] = "h"
        pack_string(out, class.class)
        return pack_value(out, v:freeze(), depth)
    end
    out[#out + 1] = "{"
    for key, item in pairs(v) do
        pack_value(out, key, depth)
        pack_value(out, item, depth)
    end
    out[#out + 1] = "}"
end

local function pack_cdata(out, v)
    if ffi.istype("int64_t", v) then
        out[#out + 1] = "i" .. raw(int64_box, v)
    elseif ffi.istype("uint64_t", v) then
        out[#out + 1] = "u" .. raw(uint64_box, v)
    else
        err.raise("cannot pass %s to another task", tostring(ffi.typeof(v)))
    end
end

function pack_value(out, v, depth)
    local kind = type(v)
    if kind == "nil" then
        out[#out + 1] = "n"
    elseif kind == "boolean" then
        out[#out + 1] = v and "t" or "f"
    elseif kind == "number" then
        out[#out + 1] = "d" .. raw(number_box, v)
    elseif kind == "string" then
        pack_string(out, v)
    elseif kind == "table" then
        pack_table(out, v, depth + 1)
    elseif kind == "cdata" then
        pack_cdata(out, v)
    else
        err.raise("cannot pass a %s to another task", kind)
    end
end

-- The values as one string. Every table is copied, also one given twice.
function M.pack(...)
    local out = {}
    for i = 1, select("#", ...) do
        pack_value(out, (select(i, ...)), 0)
    end
    return table.concat(out)
end

local function need(text, at, len)
    if at + len - 1 > #text then
        error("packed values are cut off at byte " .. #text, 0)
    end
    return at + len
end

local function unraw(box, text, at)
    local cell = box()
    local stop = need(text, at, ffi.sizeof(cell))
    ffi.copy(cell, text:sub(at, stop - 1), ffi.sizeof(cell))
    return cell[0], stop
end

local function unpack_string(text, at)
    local len, start = unraw(length_box, text, at)
    local stop = need(text, start, len)
    return text:sub(start, stop - 1), stop
end

local readers

local function unpack_value(text, at)
    local stop = need(text, at, 1)
    local read = readers[text:sub(at, at)]
    if not read then error("packed values have no such tag", 0) end
    return read(text, stop)
end

readers = {
    n = function(_, at) return nil, at end,
    t = function(_, at) return true, at end,
    f = function(_, at) return false, at end,
    d = function(text, at) return unraw(number_box, text, at) end,
    i = function(text, at) return unraw(int64_box, text, at) end,
    u = function(text, at) return unraw(uint64_box, text, at) end,
    s = unpack_string,
    h = function(text, at)
        local class, frozen
        class, at = unpack_value(text, at)
        frozen, at = unpack_value(text, at)
        local make = M.classes[class]
        if not make then error("packed values name no known class", 0) end
        return make(frozen), at
    end,
    ["{"] = function(text, at)
        local out = {}
        while text:sub(at, at) ~= "}" do
            local key, item
            key, at = unpack_value(text, at)
            item, at = unpack_value(text, at)
            out[key] = item
        end
        return out, at + 1
    end,
}

-- The values of a packed string.
function M.unpack(text)
    local out, n, at = {}, 0, 1
    while at <= #text do
        n = n + 1
        out[n], at = unpack_value(text, at)
    end
    return unpack(out, 1, n)
end

return M
