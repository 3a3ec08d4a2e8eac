-- Lesson 2: be the network card of whoever connects, and count.
--
--   moonring run examples/02-count.lua /tmp/a.sock
--   moonring run load virtio:/tmp/a.sock --rate 10kpps      (another terminal)
--
-- main is the control thread: it owns the socket, and mr.wait() serves it. The
-- packets are a task's business: a function of this file on a thread of its
-- own, which gets its arguments by value and returns a result.
local mr = require "moonring"

function configure(cli)
    cli:argument "socket":description "Where the peer connects."
    cli:option "--seconds":default "10":convert(tonumber)
end

function main(args)
    local port = assert(mr.vhost { path = args.socket })
    local task = assert(mr.task { run = "count", args = { port } })

    print("waiting at " .. args.socket)
    mr.wait { seconds = args.seconds, peer = port } -- time, ^C or peer gone
    task:stop()                                     -- mr.running() is false
    assert(task:wait(5))

    local packets, bytes = task:result()
    print(("%d packets, %d bytes"):format(packets, bytes))
end

function count(port)
    local rx, burst = port:rx(), mr.burst(64)
    local packets, bytes = 0, 0
    while mr.running() do
        packets = packets + rx:recv(burst, 0.1) -- waits 0.1 s at most
        for _, pkt in burst:packets() do bytes = bytes + pkt:len() end
    end
    return packets, bytes
end
