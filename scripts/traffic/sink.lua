-- Receives and counts packets, and throws them away.
--
--   moonring run sink SPEC [--count N] [--seconds S]
--
--   $ moonring run sink vhost:/tmp/a.sock --count 1000
--
-- Ends after N packets, after S seconds, or on ^C.
local mr = require "moonring"
local traffic = require "moonring.traffic"

function configure(cli)
    traffic.port(cli, "port", "Where to receive")
    cli:option "--count":convert(traffic.count):argname "<n>"
        :description "End after that many packets."
    traffic.options(cli)
end

function main(args)
    local port = assert(mr.open(args.port))
    assert(mr.task { run = "sink", core = args.core,
        args = { port, args.count or math.huge } })
    return traffic.finish(args)
end

function sink(port, left)
    local rx = traffic.queues(port, "rx")
    local burst = mr.burst(64)
    local i, n = 1
    while left > 0 and mr.running() do
        i, n = traffic.recv_any(rx, burst, i)
        left = left - n
    end
    burst:free()
end
