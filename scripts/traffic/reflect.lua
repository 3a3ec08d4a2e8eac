-- Answers on one port as a host: ARP, ICMP echo; all else goes back.
--
--   moonring run reflect SPEC [--ip ADDRESS] [--mac ADDRESS]
--
--   $ moonring run reflect vhost:/tmp/a.sock --ip 10.0.0.1
--
-- A guest whose network card is that socket can ping 10.0.0.1. Packets that
-- are no request are sent back with their MAC addresses swapped.
local mr = require "moonring"
local traffic = require "moonring.traffic"

function configure(cli)
    traffic.port(cli, "port", "Where to answer")
    cli:option "--ip":convert(traffic.ip4):argname "<address>"
        :description "IPv4 address to answer for; by default every one."
    cli:option "--mac":convert(traffic.mac):argname "<address>"
        :default "02:4d:52:00:00:01"
        :description "MAC address to answer with."
    traffic.options(cli)
end

function main(args)
    local port = assert(mr.open(args.port))
    assert(mr.task { run = "reflect", core = args.core,
        args = { port, args.mac, args.ip or 0 } })
    return traffic.finish(args)
end

function reflect(port, mac, ip)
    local tx = traffic.queues(port, "tx")
    local poll = mr.poll(traffic.queues(port, "rx"), { to = tx, turn = mac })
    local burst = mr.burst(64)
    while mr.running() do
        local i = poll:recv(burst, 0.1)
        if i then
            burst:reflect(mac, ip)
            tx[i]:send(burst)
        end
    end
end
