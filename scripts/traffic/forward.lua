-- Forwards packets between two ports, both ways.
--
--   moonring run forward SPEC SPEC
--
--   $ moonring run forward vhost:/tmp/a.sock vhost:/tmp/b.sock
--
-- Two guests with these sockets are on one wire. Each direction is a worker.
local mr = require "moonring"
local traffic = require "moonring.traffic"

function configure(cli)
    traffic.port(cli, "a", "One end")
    traffic.port(cli, "b", "The other end")
    traffic.options(cli)
end

function main(args)
    local a = assert(mr.open(args.a))
    local b = assert(mr.open(args.b))
    local core = args.core
    assert(mr.task { run = "forward", core = core, args = { a, b } })
    assert(mr.task { run = "forward", core = core and core + 1,
        args = { b, a } })
    return traffic.finish(args)
end

function forward(from, to)
    local rx, tx = traffic.queues(from, "rx"), traffic.queues(to, "tx")
    local target = {}
    for i = 1, #rx do target[i] = tx[(i - 1) % #tx + 1] end
    local poll = mr.poll(rx, { to = target })
    local burst = mr.burst(64)
    while mr.running() do
        local i = poll:recv(burst, 0.1)
        if i then target[i]:send(burst) end
    end
end
