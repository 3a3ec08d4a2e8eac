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
    local rx, tx = traffic.queues(port, "rx"), traffic.queues(port, "tx")
    local burst = mr.burst(64)
    local i, n = 1
    while mr.running() do
        i, n = traffic.recv_any(rx, burst, i)
        if n > 0 then
            burst:reflect(mac, ip)
            tx[i]:send(burst)
        end
    end
end
