-- JSON with keys in order, so that two runs can be compared line by line.
-- Encoding only: a table with items 1..n is an array, any other an object;
-- an empty table is an array unless it is marked with object().
local M = {}

local Object = {}

-- Marks a table as an object even when it is empty.
function M.object(t)
    return setmetatable(t, Object)
end

local escapes = { ['"'] = '\\"', ["\\"] = "\\\\", ["\n"] = "\\n",
    ["\r"] = "\\r", ["\t"] = "\\t" }

local function encode_string(v)
    return '"' .. v:gsub('[%c"\\]', function(c)
        return escapes[c] or ("\\u%04x"):format(c:byte())
    end) .. '"'
end

local function encode_number(v)
    if v ~= v or v == math.huge or v == -math.huge then return "null" end
    if v % 1 == 0 and math.abs(v) < 2 ^ 53 then return ("%.0f"):format(v) end
    return ("%.10g"):format(v)
end

local function is_array(v)
    if getmetatable(v) == Object then return false end
    local n = 0
    for _ in pairs(v) do n = n + 1 end
    return n == #v
end

local encode

local function encode_table(v)
    local out = {}
    if is_array(v) then
        for i, item in ipairs(v) do out[i] = encode(item) end
        return "[" .. table.concat(out, ", ") .. "]"
    end
    local keys = {}
    for key in pairs(v) do keys[#keys + 1] = tostring(key) end
    table.sort(keys)
    for i, key in ipairs(keys) do
        out[i] = encode_string(key) .. ": " .. encode(v[key])
    end
    return "{" .. table.concat(out, ", ") .. "}"
end

function encode(v)
    local kind = type(v)
    if kind == "table" then return encode_table(v) end
    if kind == "string" then return encode_string(v) end
    if kind == "number" then return encode_number(v) end
    if kind == "boolean" then return tostring(v) end
    return "null"
end

M.encode = encode

return M
