-- Scripts: finding one by path or by the name of a shipped one, and loading it
-- into this state.
local host = require "moonring.host"

local M = {}

-- The running script's file; tasks load it again.
M.path = nil

-- Folders of shipped scripts under the share directory, by what they hold.
M.folders = { traffic = "scripts/traffic", bench = "scripts/bench",
    examples = "examples" }

function M.folder(kind)
    return host.share() .. "/" .. M.folders[kind]
end

-- Names of the scripts of a folder, without ".lua", sorted.
function M.names(kind)
    local out = {}
    for _, file in ipairs(host.files(M.folder(kind)) or {}) do
        local name = file:match "^(.+)%.lua$"
        if name then out[#out + 1] = name end
    end
    table.sort(out)
    return out
end

-- The first line of comment that says what a script does.
function M.title(path)
    local file = io.open(path)
    if not file then return "" end
    local line = file:read "*l" or ""
    if line:match "^#!" then line = file:read "*l" or "" end
    file:close()
    return line:match "^%-%-+%s*(.-)%s*$" or ""
end

-- Path of a script: a file, or the name of a shipped one in one of the
-- folders `kinds`. -> path | nil, text
function M.find(name, kinds)
    if host.may(name, "r") and not host.files(name) then return name end
    for _, kind in ipairs(kinds) do
        local path = ("%s/%s.lua"):format(M.folder(kind), name)
        if host.may(path, "r") then return path end
    end
    if name:match "[/.]" then
        local _, text = host.may(name, "r")
        return nil, "script " .. (text or name .. ": is a directory")
    end
    return nil, ("there is no script '%s': neither a file here nor one that "
        .. "ships; 'moonring list' names those"):format(name)
end

-- Runs the top level of a file, with its own folder first on the path that
-- `require` searches. Raises what the file raises.
function M.load(path)
    local folder = path:match "^(.*)/[^/]*$" or "."
    package.path = folder .. "/?.lua;" .. package.path
    local chunk, text = loadfile(path)
    if not chunk then error(text, 0) end
    M.path = path
    chunk()
end

return M
