-- What the shipped traffic scripts have in common: options, opening ports from
-- specs, ending with the counters on stdout.
local mr = require "moonring"

local M = {}

-- A number from a word of the command line, for argparse.
function M.number(text)
    local v = tonumber(text)
    if v and v >= 0 then return v end
    return nil, ("'%s' is not a number, 0 or more"):format(text)
end

-- A whole number.
function M.count(text)
    local v = tonumber(text)
    if v and v >= 0 and v < 2 ^ 53 and v % 1 == 0 then return v end
    return nil, ("'%s' is not a whole number, 0 or more"):format(text)
end

local function convert_address(kind)
    return function(text)
        local v = kind.try(text)
        return v, not v and ("'%s' is not an address"):format(text) or nil
    end
end

M.ip4 = convert_address(mr.ip4)
M.mac = convert_address(mr.mac)

-- An argument of the command line that is a port spec. -> the argument
function M.port(cli, name, text)
    return cli:argument(name):convert(mr.check.port):description(text
        .. ", e.g. vhost:/tmp/a.sock; 'moonring list ports' names all kinds.")
end

-- Options that every script takes.
function M.options(cli)
    cli:option "--seconds":convert(M.number):argname "<s>"
        :description "End after that time; without it, on ^C."
    cli:option "--core":convert(M.count):argname "<n>"
        :description "CPU for the (first) worker; by default any."
    cli:flag "--json"
        :description "At the end, one JSON object a queue on stdout."
end

-- Waits for the end of the script and shows the counters.
-- -> nothing | nil, text: what main returns
function M.finish(args)
    local why, text = mr.wait { seconds = args.seconds }
    local rows = mr.stats()
    print(args.json and rows:json() or tostring(rows))
    if not why then return nil, text end
end

-- All queues of a port, or of a list of ports, in one direction.
function M.queues(ports, direction)
    local out = {}
    for _, port in ipairs(ports.class and { ports } or ports) do
        for i = 0, port:queues() - 1 do
            out[#out + 1] = port[direction](port, i)
        end
    end
    return out
end

return M
