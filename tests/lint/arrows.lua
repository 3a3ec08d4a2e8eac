-- The house (ARCHITECTURE section 3): a room of core/ includes only the rooms
-- before it; lua/ requires in one direction too, and without circles.
package.path = arg[0]:match "^(.*/)" .. "?.lua;" .. package.path
local lint = require "lint"

-- In the order of the house; each may use itself and what stands before it.
local rooms = { "base", "mem", "ring", "burst", "port", "proto", "loop", "run" }
local rank = {}
for i, room in ipairs(rooms) do
    rank[room] = i
end

local looked = 0

for _, path in ipairs(lint.files({ "core" }, "c", "h")) do
    local room = path:match "^core/([^/]+)/"
    looked = looked + 1
    if room and not rank[room] then
        lint.complain(path, 1, "%s is no room of the house", room)
    end
    for i, line in ipairs(lint.lines(path)) do
        local to = line:match '^%s*#%s*include%s+"([^"]+)"'
        local target = to and to:match "^([^/]+)/"
        if to and not target and not to:match "^moonring[_%w]*%.h$" then
            lint.complain(path, i, "include %s by its room", to)
        elseif target and not rank[target] then
            lint.complain(path, i, "%s is no room of the house", target)
        elseif target and room and rank[target] > (rank[room] or 0) then
            lint.complain(path, i, "%s must not know %s", room, target)
        elseif target and not room then
            lint.complain(path, i, "moonring.h stands alone")
        end
    end
end

-- Lua. What each place may require, besides LuaJIT's own.
local own = { bit = true, ffi = true, jit = true, ["table.new"] = true,
    ["table.clear"] = true }
-- Made by C: the declarations and the state's host.
local native = { ["moonring.cdef"] = true, ["moonring.host"] = true }

local function requires(path)
    local list = {}
    for i, line in ipairs(lint.lines(path)) do
        local code = line:gsub("%-%-.*$", "")
        for name in code:gmatch "require%s*%(?%s*[\"']([^\"']+)[\"']" do
            list[#list + 1] = { line = i, name = name }
        end
    end
    return list
end

local graph = {}

for _, path in ipairs(lint.files({ "lua" }, "lua")) do
    local name = path:gsub("^lua/", ""):gsub("%.lua$", ""):gsub("/", ".")
        :gsub("%.init$", "")
    local cli = name:match "^moonring%.cli" ~= nil
    looked = looked + 1
    graph[name] = {}
    for _, r in ipairs(requires(path)) do
        local inside = r.name:match "^moonring" ~= nil
        if not inside and not own[r.name]
            and not (cli and r.name == "argparse") then
            lint.complain(path, r.line, "%s must not require %s", name, r.name)
        elseif inside and not cli and r.name:match "^moonring%.cli" then
            lint.complain(path, r.line, "the module must not know its "
                .. "command line: %s", r.name)
        end
        if inside and not native[r.name] then
            graph[name][#graph[name] + 1] = { to = r.name, path = path,
                line = r.line }
        end
    end
end

local state = {}

local function visit(name)
    state[name] = "open"
    for _, edge in ipairs(graph[name] or {}) do
        if not graph[edge.to] then
            lint.complain(edge.path, edge.line, "there is no %s", edge.to)
        elseif state[edge.to] == "open" then
            lint.complain(edge.path, edge.line, "%s and %s require each other",
                name, edge.to)
        elseif not state[edge.to] then
            visit(edge.to)
        end
    end
    state[name] = "done"
end

for name in pairs(graph) do
    if not state[name] then
        visit(name)
    end
end

-- Programs and lessons see the module as users do.
for _, path in ipairs(lint.files({ "scripts", "examples" }, "lua")) do
    looked = looked + 1
    for _, r in ipairs(requires(path)) do
        local part = r.name:match "^moonring%.(.+)"
        if part and (part:match "^cli"
            or not (graph[r.name] or native[r.name])) then
            lint.complain(path, r.line, "not for scripts: %s", r.name)
        end
    end
end

lint.done(looked, "files")
