-- moonring bench NAME [ARGS]: runs a script of scripts/bench.
local run = require "moonring.cli.run"
local usage = require "moonring.cli.usage"

local M = {}

function M.run(args, verb)
    local parser = usage.parser("moonring bench",
        "Runs a benchmark. It refuses to report a number it does not trust.")
    return run.run_from({ "bench" }, verb, parser, args)
end

return M
