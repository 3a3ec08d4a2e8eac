-- Lesson 3: answer pings, in Lua. Headers are views on the packet's bytes.
--
--   moonring run examples/03-answer.lua /tmp/a.sock 10.0.0.1
--
-- Give a guest that socket as its network card and ping 10.0.0.1 from it.
-- `moonring run reflect` does the same in one C call a burst.
local mr = require "moonring"

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

local me = mr.mac "02:00:00:00:00:01"

local function back_to_sender(eth)
    eth:set_dst(eth:src())
    eth:set_src(me)
end

local function answer_arp(view, ip)             -- view: eth and arp
    local arp = view.arp
    if arp:op() ~= 1 or arp:tpa() ~= ip then return end
    arp:set_op(2)
    arp:set_tha(arp:sha()) arp:set_tpa(arp:spa())
    arp:set_sha(me)        arp:set_spa(ip)
    back_to_sender(view.eth)
end

local function answer_echo(view, ip)            -- view: eth, ip4 and icmp4
    if view.ip4:dst() ~= ip or view.ip4:protocol() ~= 1 then return end
    if view.icmp4:type() ~= 8 then return end
    view.icmp4:set_type(0)
    view.ip4:set_dst(view.ip4:src()) view.ip4:set_src(ip)
    back_to_sender(view.eth)
end

function answer(port, ip)
    local rx, tx, burst = port:rx(), port:tx(), mr.burst(64)
    while mr.running() do
        rx:recv(burst, 0.1)
        for _, pkt in burst:packets() do
            local kind = pkt:eth() and pkt:eth().eth:type()
            if kind == 0x0806 and pkt:arp() then
                answer_arp(pkt:arp(), ip)
            elseif kind == 0x0800 and pkt:icmp4() then
                answer_echo(pkt:icmp4(), ip)
            end
        end
        burst:checksum()
        tx:send(burst)                          -- what is no request goes back
    end
end
