-- Lesson 3: answer pings, in Lua. Headers are views on the packet's bytes.
--
--   moonring run examples/03-answer.lua /tmp/a.sock 10.0.0.1
--
-- Give a guest that socket as its network card and ping 10.0.0.1 from it.
-- `moonring run reflect` does the same in one C call a burst.
local mr = require "moonring"
local me = mr.mac "02:00:00:00:00:01"

function configure(cli)
    cli:argument "socket":description "Where the peer connects."
    cli:argument "ip":description "The address to answer for."
end

function main(args)
    local port = assert(mr.vhost { path = args.socket })
    assert(mr.task { run = "answer", args = { port, mr.ip4(args.ip) } })
    assert(mr.wait())
    print(mr.stats())
end

local function answer_arp(arp, ip)
    if arp:op() ~= 1 or arp:tpa() ~= ip then return end
    arp:set_op(2) arp:set_tha(arp:sha()) arp:set_tpa(arp:spa())
    arp:set_sha(me) arp:set_spa(ip)
end

local function answer_echo(ip4, icmp4, ip)
    if ip4:dst() ~= ip or ip4:protocol() ~= 1 then return end
    if icmp4:type() ~= 8 then return end
    icmp4:set_type(0)
    ip4:set_dst(ip4:src()) ip4:set_src(ip)
end

function answer(port, ip)
    local rx, tx, burst = port:rx(), port:tx(), mr.burst(64)
    while mr.running() do
        rx:recv(burst, 0.1)
        for _, pkt in burst:packets() do
            local eth, arp, echo = pkt:eth().eth, pkt:arp(), pkt:icmp4()
            if eth:type() == 0x0806 and arp then answer_arp(arp.arp, ip) end
            if eth:type() == 0x0800 and echo then
                answer_echo(echo.ip4, echo.icmp4, ip)
            end
            eth:set_dst(eth:src()) eth:set_src(me)  -- all goes back
        end
        burst:checksum()
        tx:send(burst)
    end
end
