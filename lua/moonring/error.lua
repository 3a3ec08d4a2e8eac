-- Two kinds of error. A control call that fails returns nil, "NAME: text",
-- "NAME". Misuse (wrong type, unknown option, a closed port) raises, and the
-- message points at the line of the script that called us.
local ffi = require "moonring.ffi"
local host = require "moonring.host"

local C = ffi.C
local M = {}

local ours = "@" .. host.share() .. "/lua/"

-- Whether a stack level is Moonring's own code.
local function internal(info)
    return info.what == "C" or info.source:sub(1, #ours) == ours
end

-- Raises at the nearest line that is not ours.
function M.raise(text, ...)
    local level = 2
    local info = debug.getinfo(level, "S")
    while info and internal(info) do
        level = level + 1
        info = debug.getinfo(level, "S")
    end
    error(text:format(...), info and level or 0)
end

-- What a control call returns for the negative code `rc`.
function M.control(rc)
    local name = ffi.string(C.mr_error_name(rc))
    return nil, name .. ": " .. ffi.string(C.mr_error_text()), name
end

-- The same for an error that Lua found.
function M.new(name, text, ...)
    return nil, name .. ": " .. text:format(...), name
end

-- What any error object says; objects may fail at that as well.
function M.text(message)
    local ok, text = pcall(tostring, message)
    return ok and type(text) == "string" and text
        or ("a %s that has no text"):format(type(message))
end

-- The text of a control call's error in a message that may carry a position,
-- which `assert` adds; nil when it is another error. The text tells object,
-- cause and cure: no line of Lua is at fault.
function M.control_text(message)
    if type(message) ~= "string" then return nil end
    return message:match "^E[A-Z0-9]+: .*" or message:match
        "^[^\n]-:%d+: (E[A-Z0-9]+: .*)"
end

return M
