-- Lesson 1: a packet goes through a pipe. Needs no peer and no privileges.
--
--   moonring run examples/01-hello.lua
--
-- A port is something packets enter and leave by; a pipe is two ports, each
-- the other's far end. A queue is one direction of a port: rx into Moonring,
-- tx out of it. Every call moves a burst: up to 256 packets in one object.
local mr = require "moonring"

function main()
    local left, right = assert(mr.pipe {})

    -- A pool makes packets; each starts as a copy of `fill`.
    local udp = mr.stack("eth", "ip4", "udp")
    local pool = assert(mr.pool {
        fill = udp:fill { ip4_dst = "10.0.0.9", payload = "Hello, ring!" },
    })

    local burst = mr.burst(4)
    burst:alloc(pool)               -- four packets, now ours
    for i, pkt in burst:packets() do
        pkt:udp4().udp:set_src(4000 + i)
    end
    burst:checksum()                -- one C call for the whole burst
    left:tx():send(burst)           -- they are the pipe's; burst is empty

    right:rx():recv(burst)          -- and ours again
    print(#burst .. " packets arrived; the first one:")
    print(burst[0]:dump())
    burst:free()
    print(mr.stats())               -- what every queue counted
end
