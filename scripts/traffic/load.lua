-- Generates UDP packets at a constant rate.
--
--   moonring run load SPEC [--rate RATE] [--count N] [--size BYTES]
--                          [--ip ADDRESS] [--flows N]
--
--   $ moonring run load vhost:/tmp/a.sock --rate 1Mpps --ip 10.0.0.2
--
-- Starts when a peer is there, ends after N packets, on ^C, or when the peer
-- goes. It waits for room at the peer rather than dropping, so a slow peer
-- lowers the rate; the counters at the end tell what was sent. What comes back
-- is counted and thrown away.
local mr = require "moonring"
local traffic = require "moonring.traffic"

-- What the template of a pool holds.
local SIZE_MAX = 2048
-- What was sent may still be in the ring when the last call returns.
local LINGER = 0.3
-- Seconds to wait for room before looking whether the peer is still there.
local ROOM = 0.001

function configure(cli)
    traffic.port(cli, "port", "Where to send")
    cli:option "--rate":convert(mr.check.rate):default "1kpps"
        :argname "<rate>":description "100kpps, 1Mpps, '1Gbps L1' or max."
    cli:option "--count":convert(traffic.count):argname "<n>"
        :description "Packets to send; by default no end."
    cli:option "--size":convert(traffic.count):default "60"
        :argname "<bytes>":description "Frame without check sequence."
    cli:option "--ip":convert(traffic.ip4):default "10.0.0.2"
        :argname "<address>":description "IPv4 address to send to."
    cli:option "--flows":convert(traffic.count):default "1"
        :argname "<n>":description "Source ports to use in turn."
    traffic.options(cli)
end

function main(args)
    local stack = mr.stack("eth", "ip4", "udp")
    if args.size < stack.size or args.size > SIZE_MAX then
        return nil, ("--size %g: a UDP frame has %d..%d bytes")
            :format(args.size, stack.size, SIZE_MAX), 2
    end
    local port = assert(mr.open(args.port))
    local pool = assert(mr.pool { size = math.max(args.size, 64),
        packets = 4096,
        fill = stack:fill { len = args.size, ip4_dst = args.ip } })
    assert(mr.task { run = "load", core = args.core,
        args = { port, pool, args } })
    return traffic.finish(args)
end

-- Gives the burst's packets source ports 1000, 1001, ... in turn.
local function spread(burst, flows, at)
    for _, pkt in burst:packets() do
        pkt:udp4().udp:set_src(1000 + at)
        at = (at + 1) % flows
    end
    burst:checksum "l4"
    return at
end

-- Sends all of the burst. -> false when the peer goes or we are to stop.
local function send_all(port, tx, rx, burst, back)
    while true do
        tx:try_send(burst)
        rx:try_recv(back)
        if #burst == 0 then return true end
        if not port:up() or not mr.running() then return false end
        mr.sleep(ROOM)
    end
end

-- At low rates one packet at a time, so that they are evenly spaced.
local function burst_size(pace)
    if pace.pps == 0 then return 64 end
    return math.max(1, math.min(64, math.floor(pace.pps / 10000)))
end

function load(port, pool, args)
    local tx, rx = port:tx(), port:rx()
    local burst, back = mr.burst(64), mr.burst(64)
    local left, flow = args.count or math.huge, 0
    if not port:wait_up() then return end
    local pace = mr.rate(args.rate, { frame = args.size })
    local size = burst_size(pace)
    while left > 0 and pace:wait(math.min(size, left)) do
        local n = burst:alloc(pool, math.min(size, left))
        if args.flows > 1 then flow = spread(burst, args.flows, flow) end
        if not send_all(port, tx, rx, burst, back) then break end
        left = left - n
    end
    local limit = mr.now() + LINGER
    while mr.now() < limit and mr.running() do rx:recv(back, 0.01) end
    back:free()
    if left > 0 and args.count and mr.running() then
        error(("EPIPE: port %s: the peer went away, %d packets short of %d")
            :format(port:name(), left, args.count), 0)
    end
end
