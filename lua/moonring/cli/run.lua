-- moonring run SCRIPT [ARGS]: loads a script, lets its configure(cli) declare
-- arguments, calls main(args) and cleans up: tasks, ports, pools.
--
-- main's outcome: nothing or true = 0, a number = that status, nil and a text
-- = the text on stderr and 1; followed by 2, it is told as wrong usage. An
-- error is told with its traceback, unless it is that of a control call, which
-- says all there is to say.
local err = require "moonring.error"
local scripts = require "moonring.script"
local usage = require "moonring.cli.usage"

local M = {}

-- Seconds that tasks get to end.
local PATIENCE = 3

-- What os.exit raises in a script, so that even then ports are closed.
local Exit = {}

local function exit_status(code)
    if code == nil or code == true then return usage.DONE end
    return usage.status(code)
end

local function os_exit(code)
    error(setmetatable({ status = exit_status(code) }, Exit), 0)
end

-- Error handler: { text, traceback } or what os.exit raised.
local function on_error(message)
    if getmetatable(message) == Exit then return message end
    local text = err.text(message)
    return { text = text, trace = debug.traceback(text, 2) }
end

-- Leaves out the levels that every script has below it: this file and C.
local function script_trace(trace)
    local cut = trace:find("\n[^\n]*cli/run%.lua:%d+: in function <[^\n]*"
        .. "\n[^\n]*%[C%]: in function 'xpcall'")
    return cut and trace:sub(1, cut - 1) or trace
end

-- Tells an error of the script; returns the exit status.
local function tell(name, problem, traceback)
    if getmetatable(problem) == Exit then return problem.status end
    local short = not traceback and err.control_text(problem.text)
    return usage.failed(name, short or script_trace(problem.trace))
end

local function outcome(name, count, first, text, status)
    if count == 0 or first == true then return usage.DONE end
    if type(first) == "number" then return usage.status(first) end
    if first == nil and count == 1 then return usage.DONE end
    if status == usage.WRONG then return usage.wrong(name, text) end
    return usage.failed(name, text and err.text(text) or "main failed")
end

-- Ends what the script started. -> exit status of that
local function finish(name)
    local tasks = require "moonring.task"
    local ports = require "moonring.port"
    local pools = require "moonring.pool"
    local queues = require "moonring.queue"
    local status = usage.DONE
    local failed, all = tasks.finish(PATIENCE)
    for _, text in ipairs(failed) do status = usage.failed(name, text) end
    if not all then require("moonring.host").quit(usage.FAILED) end
    queues.release_all()
    collectgarbage()
    collectgarbage()
    for _, text in ipairs(ports.close_all()) do
        status = usage.failed(name, text)
    end
    pools.free_all()
    return status
end

local function call_main(name, args, traceback)
    local exit = os.exit
    os.exit = os_exit -- luacheck: ignore 122
    local count, status
    local function keep(...)
        count = select("#", ...)
        return ...
    end
    local ok, first, text, code = xpcall(function()
        return keep(_G.main(args))
    end, on_error)
    if ok then
        status = outcome(name, count, first, text, code)
    else
        status = tell(name, first, traceback)
    end
    os.exit = exit -- luacheck: ignore 122
    return status
end

-- Runs the script of that path. name: for messages ("moonring run load").
function M.launch(path, name, args, traceback)
    local ok, problem = xpcall(function() scripts.load(path) end, on_error)
    if not ok then return tell(name, problem, traceback) end
    if type(_G.main) ~= "function" then
        return usage.failed(name, path .. " has no function main(args): a "
            .. "script needs one")
    end
    local parser = usage.parser(name, scripts.title(path))
    if _G.configure then
        ok, problem = xpcall(function() _G.configure(parser) end, on_error)
        if not ok then return tell(name, problem, traceback) end
    end
    local parsed, wrong = usage.parse(parser, name, args)
    if not parsed then return wrong end
    local status = call_main(name, parsed, traceback)
    local after = finish(name)
    return status ~= usage.DONE and status or after
end

-- The verb's own words (up to the script's name) and the script's.
local function split(args)
    local own, theirs = {}, {}
    local found = false
    for _, word in ipairs(args) do
        local list = found and theirs or own
        list[#list + 1] = word
        found = found or word:sub(1, 1) ~= "-"
    end
    return own, theirs
end

-- The common part of run and bench: `kinds` are the folders to search.
function M.run_from(kinds, verb, parser, args)
    local name = "moonring " .. verb.name
    parser:argument("script"):description(
        "A file, or a script that ships: " .. table.concat(
            scripts.names(kinds[1]), ", ") .. ".")
    parser:argument("args"):args "*":description(
        "The script's own; 'moonring " .. verb.name
        .. " SCRIPT --help' lists them.")
    parser:flag "--traceback":description(
        "Show where in the script every error came from.")
    local own, theirs = split(args)
    local parsed, wrong = usage.parse(parser, name, own)
    if not parsed then return wrong end
    local path, text = scripts.find(parsed.script, kinds)
    if not path then return usage.wrong(name, text) end
    return M.launch(path, name .. " " .. parsed.script, theirs,
        parsed.traceback)
end

function M.run(args, verb)
    local parser = usage.parser("moonring run",
        "Runs a Lua script that sends and receives packets.")
    return M.run_from({ "traffic", "examples" }, verb, parser, args)
end

return M
