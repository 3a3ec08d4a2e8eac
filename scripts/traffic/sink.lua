-- Receives and counts packets, and throws them away.
--
--   moonring run sink SPEC... [--count N] [--seconds S]
--
--   $ moonring run sink vhost:/tmp/a.sock vhost:/tmp/b.sock --count 1000
--
-- Ends after N packets on all ports together, after S seconds, or on ^C.
local mr = require "moonring"
local traffic = require "moonring.traffic"

function configure(cli)
    traffic.port(cli, "ports", "Where to receive"):args "+"
    cli:option "--count":convert(traffic.count):argname "<n>"
        :description "End after that many packets."
    traffic.options(cli)
end

function main(args)
    local ports = {}
    for i, spec in ipairs(args.ports) do ports[i] = assert(mr.open(spec)) end
    assert(mr.task { run = "sink", core = args.core,
        args = { ports, args.count or math.huge } })
    return traffic.finish(args)
end

function sink(ports, left)
    local poll = mr.poll(traffic.queues(ports, "rx"))
    local burst = mr.burst(64)
    while left > 0 and mr.running() do
        local _, n = poll:recv(burst, 0.1)
        left = left - n
    end
    burst:free()
end
