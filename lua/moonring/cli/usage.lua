-- What all verbs share: parsers that answer --help and --version, one-line
-- errors, exit statuses.
local argparse = require "argparse"
local ffi = require "moonring.ffi"

local M = {}

M.DONE, M.FAILED, M.WRONG = 0, 1, 2

-- The status of a process from what a script gave: a number that is none does
-- not mean success.
function M.status(v)
    local whole = type(v) == "number" and v >= 0 and v <= 255 and v % 1 == 0
    return whole and v or M.FAILED
end

function M.print_version()
    print("moonring " .. ffi.string(ffi.C.mr_version()))
end

-- Tells wrong usage; returns its exit status.
function M.wrong(name, text)
    io.stderr:write(("%s: %s; see '%s --help'\n"):format(name, text, name))
    return M.WRONG
end

-- Tells a failure; returns its exit status.
function M.failed(name, text)
    io.stderr:write(("%s: %s\n"):format(name, text))
    return M.FAILED
end

-- A parser called `name` ("moonring run").
function M.parser(name, text)
    local parser = argparse(name, text)
    parser:flag "--version":description "Show the version and exit."
        :action(function()
            M.print_version()
            os.exit(M.DONE)
        end)
    return parser
end

-- Result table, or nil and the exit status after telling what is wrong.
-- parser:error(text), which a script may call, ends the same way.
function M.parse(parser, name, args)
    local ok, result = parser:pparse(args)
    if not ok then return nil, M.wrong(name, result) end
    return result
end

return M
